"""Mean rounds and the break-even line, by hand."""

import pytest

from emulator.breakeven import price, ratio, sentence


def row(time, down=4.0, compute=2.0, up=3.0, server=None, wait=1.0, moved=100, counted=2):
    return {
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
        "counted": counted,
    }


def test_the_mean_leaves_round_0_out():
    cost = price([row(5.0), row(15.0), row(35.0)], rounds=3)
    assert cost.rounds == (1, 2)
    assert cost.seconds == 15.0  # of 10 and 20
    assert cost.span_s == 35.0


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


def test_no_round_has_no_mean():
    with pytest.raises(ValueError, match="no round"):
        price([], rounds=3)


def of(seconds, **parts):
    return price([row(0.0, **parts), row(seconds, **parts)], rounds=2)


def test_a_dearer_round_wins_only_below_its_inverse():
    found = ratio(of(27.1, moved=300, compute=2.4), of(10.0))
    assert found.wins_below == pytest.approx(10 / 27.1)
    assert sentence("fedcurv", "fedavg", found, 10.0) == (
        "a fedcurv round costs 2.71x a fedavg round here (down 3.0x, up 3.0x, compute 1.2x): "
        "it wins only below 37 % of fedavg's rounds"
    )


def test_a_cheaper_round_wins_with_more_rounds():
    found = ratio(of(8.0, moved=50), of(10.0))
    assert sentence("small", "fedavg", found, 10.0) == (
        "a small round costs 0.80x a fedavg round here (down 0.5x, up 0.5x, compute 1.0x): "
        "it wins even with up to 1.25x of fedavg's rounds"
    )


def test_equal_rounds_leave_it_to_their_number():
    assert "costs as much as a fedavg round" in sentence("other", "fedavg", ratio(of(10.04), of(10.0)), 10.0)


def test_a_server_that_works_longer_is_named():
    found = ratio(of(12.0, server={"omega": 2.0}), of(10.0))
    assert "server +2 s" in sentence("fedcl", "fedavg", found, 10.0)


def test_fewer_replies_are_named():
    assert "replies -1.0" in sentence("fedcurv", "fedavg", ratio(of(12.0, counted=1), of(10.0)), 10.0)


def test_a_baseline_that_sends_nothing_has_no_ratio():
    found = ratio(of(12.0), of(10.0, moved=0))
    assert (found.down, found.up) == (None, None)
    assert "down -, up -" in sentence("fedcurv", "nothing", found, 10.0)


def test_a_little_more_is_told_as_more():
    assert "compute 1.02x" in sentence("fedprox", "fedavg", ratio(of(12.0, compute=2.04), of(10.0)), 10.0)
