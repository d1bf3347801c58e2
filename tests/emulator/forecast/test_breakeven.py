"""Mean rounds and the break-even line, by hand."""

import pytest

from emulator.forecast.breakeven import fewer, longest, sentence, shortage, too_late
from emulator.forecast.breakeven import ratio as over
from emulator.forecast.mean_round import alike, comparable, first_of_each, margin, price, weights, work
from emulator.record.events import Closed, ComputeStarted, Opened


def row(time, down=4.0, compute=2.0, up=3.0, server=None, wait=1.0, moved=100, **fates):
    return {
        **dict.fromkeys(("asked", "counted"), 2),
        **dict.fromkeys(("late", "lost", "refused", "failed", "wasted_bytes"), 0),
        **fates,
        "time_s": time,
        "critical": {
            "setup_s": 0.0,
            "down_s": {"weights": down},
            "compute_s": {"train": compute},
            "up_s": {"weights": up},
            "server_s": server or {},
            "wait_s": wait,
        },
        "bytes": {"down": {"weights": 2 * moved}, "up": {"weights": moved}},
        "flops": 50.0,
    }


def ratio(above, below, seconds=2.0):
    """The ratio of two algorithms on the same device, which computes 2 s for the second one."""
    return over(above, below, {"a-0": seconds}, {"a-0": 2.0})


def test_the_mean_leaves_round_0_out():
    cost = price([row(5.0), row(15.0), row(35.0)], rounds=3)
    assert cost.rounds == (1, 2)
    assert cost.seconds == 15.0  # of 10 and 20
    assert (cost.played_s, cost.span_s) == (35.0, 35.0)


def test_a_single_round_is_its_own_mean():
    cost = price([row(5.0)], rounds=1)
    assert (cost.rounds, cost.seconds, cost.span_s) == ((0, 0), 5.0, 5.0)


def test_rounds_that_were_not_played_last_as_long_as_the_mean():
    assert price([row(5.0), row(15.0), row(35.0)], rounds=13).span_s == 35.0 + 10 * 15.0


def test_what_happens_in_one_round_of_two_counts_half():
    rows = [row(1.0), row(11.0), row(21.0, server={"omega": 3.0})]
    rows[2]["bytes"]["down"]["importance"] = 80
    cost = price(rows, rounds=3)
    assert cost.server_s == {"omega": 1.5}
    assert cost.down_bytes == {"importance": 40.0, "weights": 200.0}


def test_joules_are_those_of_all_devices_and_none_where_one_is_not_known():
    rows = [{**row(5.0 * k), "joules": {"a": 10.0 * k, "b": 1.0}} for k in range(1, 4)]
    assert price(rows, rounds=3).joules == pytest.approx((21 + 31) / 2)  # round 0 is left out
    rows[2]["joules"]["b"] = None
    assert price(rows, rounds=3).joules is None
    assert price([row(5.0)], rounds=1).joules is None  # a record that does not tell them


def test_no_round_has_no_mean():
    with pytest.raises(ValueError, match="no round"):
        price([], rounds=3)


def of(seconds, **parts):
    return price([row(0.0, **parts), row(seconds, **parts)], rounds=2)


def test_a_dearer_round_wins_only_below_its_inverse():
    found = ratio(of(27.1, moved=300), of(10.0), seconds=2.4)
    assert found.wins_below == pytest.approx(10 / 27.1)
    assert sentence("fedcurv", "fedavg", found, 10.0) == (
        "a round of fedcurv takes 2.71x as long as one of fedavg (down 3.0x, up 3.0x, compute 1.2x): "
        "it is faster only if it needs fewer than 37 % of fedavg's rounds"
    )


def test_a_cheaper_round_wins_with_more_rounds():
    found = ratio(of(8.0, moved=50), of(10.0))
    assert sentence("small", "fedavg", found, 10.0) == (
        "a round of small takes 0.80x as long as one of fedavg (down 0.5x, up 0.5x, compute 1.0x): "
        "it is faster even if it needs up to 1.25x fedavg's rounds"
    )


def test_equal_rounds_leave_it_to_their_number():
    assert "takes as long as one of fedavg" in sentence("other", "fedavg", ratio(of(10.04), of(10.0)), 10.0)


def test_a_server_that_works_longer_is_named():
    found = ratio(of(12.0, server={"omega": 2.0}), of(10.0))
    assert "server +2 s" in sentence("fedcl", "fedavg", found, 10.0)


def test_fewer_replies_are_named():
    assert "1.0 replies fewer" in sentence("fedcurv", "fedavg", ratio(of(12.0, counted=1), of(10.0)), 10.0)
    assert "1.0 replies more" in sentence("fedcurv", "fedavg", ratio(of(12.0, counted=3), of(10.0)), 10.0)


def test_a_baseline_that_sends_nothing_has_no_ratio():
    found = ratio(of(12.0), of(10.0, moved=0))
    assert (found.down, found.up) == (None, None)
    assert "down -, up -" in sentence("fedcurv", "nothing", found, 10.0)


def test_a_little_more_is_told_as_more():
    assert "compute 1.02x" in sentence("fedprox", "fedavg", ratio(of(12.0), of(10.0), seconds=2.04), 10.0)


def started(device, round, **seconds):
    return ComputeStarted(0.0, round, device, {}, seconds, 1e9, {})


def every(n):
    """The kinds of an algorithm that does more in every n-th round."""
    return lambda round: "much" if round % n == 0 else "little"


def test_rounds_are_weighed_by_how_often_their_kind_occurs_in_the_run():
    """Five of 100 rounds are like round 20; the 19 rehearsed rounds of the other kind have no smaller weight because of
    this."""
    shares = weights(21, 100, every(20))
    assert sum(shares.values()) == pytest.approx(1)
    assert shares[20] == pytest.approx(0.05)
    assert shares[1] == shares[19] == pytest.approx(0.95 / 19)
    assert 0 not in shares
    assert weights(3, 101) == {1: 0.5, 2: 0.5}


def test_the_first_round_stands_for_its_kind_where_no_other_was_played():
    assert weights(11, 100, every(20))[0] == pytest.approx(0.05)


def test_a_first_round_that_is_the_only_one_of_its_kind_is_one_round_of_the_run():
    """Ω that is sent in one of 20 rounds costs a 20th of itself, whichever round that is."""
    rows = [row(10.0 * (k + 1), server={"omega": 4.0} if k == 0 else {}) for k in range(20)]
    assert price(rows, 20, every(20)).server_s == {"omega": pytest.approx(0.2)}
    assert weights(20, 20, every(20))[0] == pytest.approx(0.05)


def test_round_0_counts_for_all_algorithms_or_for_none():
    kinds = {"plain": alike, "often": every(5), "once": every(20)}
    shares = {label: weights(20, 20, kind) for label, kind in comparable(kinds, dict.fromkeys(kinds, 20)).items()}
    assert {label: share[0] for label, share in shares.items()} == pytest.approx(dict.fromkeys(kinds, 0.05))
    assert shares["often"][5] == pytest.approx(0.05)
    without = {"plain": alike, "often": kinds["often"]}
    assert comparable(without, dict.fromkeys(without, 20)) == without


def test_what_happens_in_every_20th_round_costs_a_20th_of_itself():
    rows = [row(10.0 * (k + 1), server={"omega": 4.0} if k % 20 == 0 else {}) for k in range(21)]
    assert price(rows, 100, every(20)).server_s == {"omega": pytest.approx(0.2)}
    longer = price([*rows[:20], row(300.0)], 100, every(20))  # round 20 takes 100 s
    assert longer.seconds == pytest.approx(0.95 * 10 + 0.05 * 100)
    assert longer.span_s == pytest.approx(300 + 76 * 10 + 3 * 100)


def test_the_first_round_of_each_kind_is_found():
    assert first_of_each(50, every(20)) == {"little": 1, "much": 20}
    assert first_of_each(20, every(20)) == {"little": 1, "much": 0}


def ends(*lasted):
    return [row(sum(lasted[: k + 1])) for k in range(len(lasted))]


def test_equal_lengths_leave_no_margin_and_kinds_are_no_chance():
    kind = every(2)
    steady = margin(ends(1, 6, 4, 6, 4), ends(1, 3, 2, 3, 2), 5, kind, kind)
    assert steady == pytest.approx(0, abs=1e-12)
    assert margin(ends(1, 2), ends(1, 2), 2, kind, kind) == 0  # a single round tells nothing of chance


def test_the_margin_is_that_of_the_ratio_estimator():
    """Lengths 9 and 11 beside 10 and 10: the ratio is 1, residuals are -1 and 1, their variance 2, that of their mean
    1; by t = 12.71 of one degree of freedom, over the mean 10."""
    assert margin(ends(1, 9, 11), ends(1, 10, 10), 3, alike, alike) == pytest.approx(1.271)


def test_a_difference_within_the_margin_is_no_cost():
    found = over(of(10.4), of(10.0), {"a-0": 2.0}, {"a-0": 2.0}, 0.09)
    said = sentence("fedprox", "fedavg", found, 10.0)
    assert said.startswith("a round of fedprox takes about as long as one of fedavg (")
    assert "(0.95x to 1.13x)" in said
    found = over(of(12.0), of(10.0), {"a-0": 2.0}, {"a-0": 2.0}, 0.09)
    said = sentence("fedprox", "fedavg", found, 10.0)
    assert "takes 1.20x (1.11x to 1.29x, because links and cohorts vary) as long as one of fedavg" in said


def test_three_times_the_bytes_are_a_cost_however_links_vary():
    found = over(of(18.0, moved=300), of(10.0), {"a-0": 2.0}, {"a-0": 2.0}, 0.9)
    said = sentence("fedcurv", "fedavg", found, 10.0)
    assert "takes 1.80x (0.90x to 2.70x, because links and cohorts vary)" in said


def test_work_is_the_mean_of_what_is_declared_in_the_rounds_that_weigh():
    lines = [started("a", 0, train=1.0), started("a", 1, train=2.0, fisher=1.0), Opened(0.0, 1, ["a"], "m0")]
    further = [started("a", 2, train=4.0, fisher=1.0), started("b", 1, train=8.0)]
    assert work([*lines, *further], weights(3, 3)) == {"a": 4.0, "b": 8.0}
    assert work([*lines, *further], {1: 0.75, 2: 0.25}) == {"a": 3.5, "b": 8.0}
    assert work(lines[:1], weights(1, 1)) == {"a": 1.0}  # there is no other round


def test_computing_is_compared_on_devices_that_computed_for_both():
    """The slow device never began for one of them: without it 1.2 s are beside 1 s."""
    found = over(of(12.0), of(10.0), {"quick": 1.2}, {"quick": 1.0, "slow": 9.0})
    assert found.compute == pytest.approx(1.2)
    assert over(of(12.0), of(10.0), {"quick": 1.2}, {"slow": 9.0}).compute is None


def test_waste_is_a_share_of_the_bytes_both_ways():
    cost = of(10.0, moved=100, wasted_bytes=75)  # 200 down, 100 up
    assert cost.wasted == pytest.approx(0.25)
    assert of(10.0, moved=0).wasted == 0


def test_a_deadline_bites_when_more_than_a_tenth_of_the_replies_are_late():
    assert too_late(of(10.0, asked=14, counted=8, late=6), needed=10, deadline=3.0)
    assert not too_late(of(10.0, asked=14, counted=9, late=5), needed=10, deadline=3.0)
    assert not too_late(of(10.0, asked=14, counted=8, lost=6), needed=10, deadline=3.0)  # these had vanished
    assert not too_late(of(10.0, asked=4, counted=4), needed=10, deadline=3.0)  # no more were online
    assert not too_late(of(10.0, asked=14, counted=8, late=6), needed=10, deadline=None)


def test_rounds_with_a_tenth_fewer_replies_are_not_compared():
    eight, nine, ten = (of(10.0, asked=12, counted=counted) for counted in (8, 9, 10))
    assert fewer(eight, ten, needed=10)
    assert not fewer(nine, ten, needed=10)
    assert not fewer(ten, eight, needed=10)


def test_a_baseline_that_gets_all_it_asks_for_lacks_no_replies_where_the_other_one_asks_more():
    """Retraining asks all 8 devices in each second round; the baseline asks 4, and all 4 answer."""
    plain, retrains = of(10.0, asked=4, counted=4), of(10.0, asked=6, counted=6)
    assert not fewer(plain, retrains, needed=4)
    assert not fewer(retrains, plain, needed=4)


def test_a_shortage_says_how_many_come_and_what_would_do():
    rows = [row(3.0), row(6.0, asked=14, counted=0, late=13, lost=1, failed=True, wasted_bytes=300)]
    rows.append(row(9.0, asked=14, counted=5, late=9, wasted_bytes=150))
    assert shortage("fedcurv", price(rows, 3), 11, 3.0, 9.3) == (
        "fedcurv: only 2.5 of the 11 replies that close a round arrive within the deadline of 3 s (14 devices are "
        "selected: 11.0 late, 0.5 lost); 1 of 2 rounds fail and 75 % of the bytes are wasted, so there is no "
        "break-even; allow 9.3 s"
    )


def test_the_longest_round_is_rounded_up_and_one_that_failed_is_not_asked():
    def played(opened, closed, reason="first"):
        return [Opened(opened, 0, ["a"], "m0"), Closed(closed, 0, reason, ["a"])]

    assert longest([*played(0.0, 8.0), *played(10.0, 19.21), *played(20.0, 60.0, "too_few")]) == 9.3
    assert longest(played(0.0, 120.0)) == 120.0
    assert longest(played(0.0, 120.5)) == 130.0
    assert longest(played(0.0, 5.0, "too_few")) is None
