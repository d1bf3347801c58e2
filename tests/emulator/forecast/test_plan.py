"""The figures of a check."""

import json
from dataclasses import dataclass
from itertools import pairwise
from types import SimpleNamespace

import pytest

from emulator.forecast import plan
from emulator.forecast.effort import largest_speedup, server_speedup
from emulator.forecast.groups import Span
from emulator.forecast.host import Host
from emulator.forecast.plan import forecast_of
from emulator.forecast.rehearsal import Rehearsal
from emulator.lab.build import lab_of
from emulator.lab.jobs import message_sizes
from emulator.lab.links import DRAWS
from emulator.record.events import ComputeStarted, ServerStarted
from emulator.record.run import Run
from emulator.wording.heat_map import heat_map
from emulator.wording.plan_text import _span, text
from scenarios.load import build, load
from scenarios.text.faults import BadScenario
from tests.conftest import FAST, SMALL, merged

FEW = {"profile": "pi-4", "count": 2, "link": FAST}
HOST = Host(workers=2, flops_per_s=1e9, process_bytes=10**8)
BOTH = {"algorithms": ["fedavg", {"fedcurv": {}}]}


@pytest.fixture
def planned(monkeypatch):
    """The plan of SMALL with changes, on a computer of known speed."""

    def plan_small(**changes):
        return forecast_of(build(merged(SMALL, changes)), workers=2)

    monkeypatch.setattr("emulator.forecast.plan.measured", lambda *_: HOST)
    return plan_small


EACH = (1 / 3, 1 / 3, 1 / 3)  # of rounds 1 to 3
SECOND = (1 / 4, 1 / 2, 1 / 4)  # where Ω is sent in rounds 0 and 2, and not in rounds 1 and 3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("algorithm", "shares"), [("fedavg", EACH), ({"fedcl": {"interval": 2}}, SECOND), ({"fedcurv": {}}, EACH)], ids=str
)
def test_a_plan_tells_the_mean_round_of_the_run(play, planned, algorithm, shares):
    run = play(algorithm, rounds={"max": 4})
    cost = next(iter(planned(algorithms=[algorithm], rounds={"max": 4}).prices.values()))

    def mean(values):
        return pytest.approx(sum(share * value for share, value in zip(shares, values, strict=True)), rel=1e-12)

    assert cost.seconds == mean([after["time_s"] - before["time_s"] for before, after in pairwise(run.rounds)])
    assert cost.span_s == run.rounds[-1]["time_s"]
    assert sum(cost.down_bytes.values()) == mean([sum(row["bytes"]["down"].values()) for row in run.rounds[1:]])
    assert cost.flops == mean([row["flops"] for row in run.rounds[1:]])
    parts = (cost.down_s, cost.compute_s, cost.up_s, cost.server_s)
    whole = cost.setup_s + cost.wait_s + sum(sum(part.values()) for part in parts)
    assert whole == pytest.approx(cost.seconds, rel=1e-9)


@pytest.mark.slow
def test_what_is_sent_in_every_20th_round_costs_a_20th_of_itself(planned):
    """Ω is as large as the model, so over 40 rounds the mean download is 1 + 2/40 models."""
    often = {"fedcl": {"interval": 20, "fallback": "none"}}
    plan = planned(algorithms=["fedavg", often], rounds={"max": 40}, fleet=[{**FEW, "count": 2}])
    cost = plan.prices["fedcl"]
    assert cost.rounds == (1, 20)
    assert cost.down_bytes["importance"] / cost.down_bytes["weights"] == pytest.approx(2 / 40, rel=1e-3)
    assert plan.ratios["fedcl"].down == pytest.approx(1 + 2 / 40, rel=1e-3)


@pytest.mark.slow
def test_what_is_sent_in_round_0_alone_makes_rounds_dearer_by_as_much_as_the_run(planned):
    """All 20 rounds are rehearsed, and round 0 counts for both figures: a mean round is the time of the run over 20."""
    once = {"fedcl": {"interval": 20, "fallback": "none"}}
    plan = planned(algorithms=["fedavg", once], rounds={"max": 20}, fleet=[{**FEW, "count": 2}])
    for cost in plan.prices.values():
        assert cost.rounds == (0, 19)
        assert cost.seconds == pytest.approx(cost.span_s / 20, rel=1e-9)
    assert plan.ratios["fedcl"].down == pytest.approx(1 + 1 / 20, rel=1e-3)


@pytest.fixture
def drifting(monkeypatch):
    """The plan of continual learning: 4 of 8 devices are asked, and all 8 in the last round of a cycle."""
    monkeypatch.setattr("emulator.forecast.plan.measured", lambda *_: HOST)

    def plan(rounds, per_cycle):
        scenario = load("papers/continual-lstm-large", small=True)
        shorter = scenario.rounds.model_copy(update={"max": rounds, "per_cycle": per_cycle})
        some = [entry for entry in scenario.algorithms if entry.name in ("baseline", "alg0")]
        return forecast_of(scenario.model_copy(update={"rounds": shorter, "algorithms": tuple(some)}), workers=2)

    return plan


@pytest.mark.slow
def test_a_round_that_retrains_the_whole_fleet_is_in_the_mean_round(drifting):
    """Four of 24 rounds retrain, 5, 11, 17 and 23; the first of these is rehearsed."""
    plan = drifting(rounds=24, per_cycle=6)
    assert plan.prices["alg0"].rounds == (1, 10)
    assert plan.prices["baseline"].asked == 4
    assert plan.prices["alg0"].asked == pytest.approx((20 * 4 + 4 * 8) / 24)
    assert plan.ratios["alg0"].up == pytest.approx(plan.prices["alg0"].asked / 4, rel=1e-6)


@pytest.mark.slow
def test_a_kind_of_rounds_that_was_too_far_away_to_rehearse_is_named(drifting, monkeypatch):
    monkeypatch.setattr("emulator.forecast.rehearsal.REQUESTS", 40)  # 10 rounds
    plan = drifting(rounds=36, per_cycle=18)
    (said,) = (warning for warning in plan.warnings if "are not in its figures" in warning)
    assert said.startswith("alg0: rounds like round 17 (retrain: * down, * trained, * up) are not in its figures")


@pytest.mark.slow
def test_a_plan_compares_with_the_first_algorithm(planned):
    plan = planned(**BOTH)
    found = plan.ratios["fedcurv"]
    assert plan.ratios.keys() == plan.sentences.keys() == {"fedcurv"}
    assert found.down == pytest.approx(3, rel=0.01)  # |θ|, U and V
    assert found.up == pytest.approx(3, rel=0.01)
    assert found.wins_below == pytest.approx(plan.prices["fedavg"].seconds / plan.prices["fedcurv"].seconds)
    assert plan.memory["fedcurv"].kept == 4 * plan.memory["fedavg"].parameters  # two sums in float64


BOARD = {"speed_gflop_s": 4, "memory_bandwidth_gb_s": 3, "overhead_ms": 2, "memory_mb": 4000}


@pytest.mark.slow
def test_a_plan_tells_the_joules_of_a_round_where_all_watts_are_known(play, planned):
    run, plan = play(rounds={"max": 2}), planned(rounds={"max": 2})
    assert plan.prices["fedavg"].joules == pytest.approx(sum(run.rounds[1]["joules"].values()), rel=1e-12)
    assert " J, of all selected devices" in text(plan)
    assert plan.warnings == []


@pytest.mark.slow
def test_a_plan_names_those_whose_watts_are_not_known(planned):
    fleet = [*SMALL["fleet"], {"profile": "plain", "count": 2, "link": FAST}]
    plan = planned(fleet=fleet, profiles={"plain": BOARD})
    assert plan.prices["fedavg"].joules is None
    assert "of all selected devices" not in text(plan)
    [line] = plan.warnings
    assert line.startswith(
        "the energy of the fleet is unknown, because the power draw of plain is unknown; add power_idle_w"
    )


@pytest.mark.slow
def test_an_algorithm_that_no_device_can_hold_leaves_the_others_their_table(planned):
    """FedCurv keeps sums in float64 and gets three models: what holds FedAvg's training does not hold its own."""
    small = [{"profile": "pi-4", "count": 4, "link": FAST, "memory_mb": 3}]
    plan = planned(**BOTH, fleet=small, training={"batch": 64})
    assert plan.prices.keys() == plan.memory.keys() == {"fedavg"}
    assert plan.failing.keys() == {"fedcurv"}
    assert "refuses: fedcurv needs" in plan.failing["fedcurv"]
    assert "no round of fedcurv succeeds" in text(plan)


@pytest.mark.slow
def test_one_of_each_is_told_in_the_singular(planned):
    page = text(planned(fleet=[{"profile": "pi-4", "count": 1, "link": FAST}], rounds={"max": 1}))
    words = " ".join(page.split())
    assert "small: 1 device; 1 selected per round, 1 reply closes it; at most 1 round, 1 seed." in words
    assert "1 run takes about" in words


@pytest.mark.slow
def test_groups_are_told_with_what_differs_inside_them(planned):
    plan = planned(fleet=[{"profile": "pi-4", "count": 3, "link": {**FAST, "down_mbit_s": {"choice": [4]}}}, CLOCKED])
    groups = {group.name: group for group in plan.groups}
    assert [(name, group.count) for name, group in groups.items()] == [("field", 6), ("pi-4", 3)]
    assert groups["field"].flops_per_s.low < groups["field"].flops_per_s.high
    assert (groups["pi-4"].down.low, groups["pi-4"].down.high) == (0.5e6, 0.5e6)
    down = message_sizes(lab_of(build(SMALL)), Run("fedavg", 1))[0]
    assert groups["pi-4"].alone["fedavg"]["down"].low == pytest.approx(down / 0.5e6)
    assert groups["field"].sometimes_off == 6


CLOCKED = {
    "name": "field",
    "profile": "pi-3",
    "count": 6,
    "link": FAST,
    "speed_gflop_s": {"uniform": {"low": 1, "high": 4}},
    "presence": {"off": [[900, 901]]},
}


@pytest.mark.slow
def test_minutes_are_flops_over_the_speed_of_all_workers(planned):
    plan = planned(seeds=[1, 2, 3], evaluate={"every": 0}, rounds={"max": 40})
    assert plan.effort.seconds == pytest.approx(3 * 40 * plan.prices["fedavg"].flops / 2e9)


@pytest.mark.slow
def test_evaluations_take_time_too(planned):
    seldom, often = (planned(evaluate={"every": every}, rounds={"max": 40}).effort.seconds for every in (20, 1))
    assert seldom < often


def started(seconds, flops):
    return ComputeStarted(0.0, 0, "a", {"train": flops}, {"train": seconds}, 1e9, {})


def test_the_speed_up_is_what_the_last_of_those_in_turn_can_keep():
    """2 GFLOP take this computer 2 s; of 5 devices on 2 workers the last is done after 6 s, modelled are 4 s."""
    rehearsal = Rehearsal((), (started(40.0, 2e9), started(4.0, 2e9)), None, {}, {}, {})
    assert largest_speedup(HOST, 5, [rehearsal]) == pytest.approx(4 / 6)
    assert largest_speedup(HOST, 2, [rehearsal]) == pytest.approx(4 / 2)


def test_jobs_that_are_over_at_once_limit_no_speed_up():
    """5 MFLOP take 5 ms: that is no overrun, however little is modelled."""
    assert largest_speedup(HOST, 2, [Rehearsal((), (started(1e-6, 5e6),), None, {}, {}, {})]) == 1000


def test_a_server_waits_for_one_that_is_late():
    """A combine of 0.1 s here, modelled as 0.01 s; beside a late device's 0.4 s of training it takes 0.5 s."""
    combine = ServerStarted(0.0, 0, "combine", {"combine": 1e6}, {"combine": 0.01}, 1e6, 1e8)
    events = (started(1.0, 4e8), combine)
    quiet, busy = (Rehearsal(({"late": late},), events, None, {}, {}, {}, combining=0.1) for late in (0, 1))
    assert server_speedup(HOST, [quiet]) == pytest.approx(0.01 / 0.1)
    assert server_speedup(HOST, [busy]) == pytest.approx(0.01 / 0.5)


def test_a_round_that_combines_nothing_limits_no_speed_up():
    """The longest combine takes 0.1 s here; one without any work is not that one."""
    nothing = ServerStarted(0.0, 0, "combine", {}, {}, 0.0, 1e8)
    assert server_speedup(HOST, [Rehearsal(({"late": 0},), (nothing,), None, {}, {}, {}, combining=0.1)]) == 1000


@pytest.mark.slow
def test_long_labels_stand_whole_in_the_table_of_memory(planned, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    labels = [f"alg0-retraining-with-{letter}" for letter in "abcdefg"]
    plan = planned(algorithms=[{"fedavg": {}, "name": label} for label in labels])
    page = text(plan)
    rows = page[page.index("Memory of a training device") :].splitlines()
    total = plan.memory[labels[0]].total / 1e6
    for label in labels:
        (row,) = (row for row in rows if row.startswith(f"{label} "))
        assert float(row.split()[1]) == pytest.approx(total, rel=0.01)
    assert max(map(len, rows)) <= 80


def test_a_server_that_computes_before_a_round_takes_its_flops_here():
    request = ServerStarted(0.0, 0, "request", {"omega": 2e9}, {"omega": 3.0}, 2e9, 1e9)
    assert server_speedup(HOST, [Rehearsal((), (request,), None, {}, {}, {})]) == pytest.approx(3 / 2)


@pytest.mark.slow
def test_a_device_that_is_too_small_is_named(planned):
    tiny = {"name": "tiny", "profile": "pi-4", "count": 2, "link": FAST, "memory_mb": 0.5}
    plan = planned(fleet=[tiny, {"profile": "pi-4", "count": 2, "link": FAST}])
    (warning,) = (said for said in plan.warnings if said.startswith("fedavg needs "))
    assert "tiny has 0.5 MB" in warning
    with pytest.raises(BadScenario, match=r"tiny-\d refuses: fedavg needs .* MB for \d+ examples, it has 0\.5 MB"):
        planned(fleet=[tiny])


@pytest.mark.slow
def test_a_deadline_that_is_missed_because_devices_share_a_link_is_found(planned):
    """Alone each takes some 0.5 s for its download at 0.5 MB/s; four together four times that."""
    narrow = {"link": {"up_mbit_s": 4, "down_mbit_s": 1000, "latency_ms": 0}}
    changes = {"server": narrow, "fleet": [{"profile": "pi-5", "count": 4, "link": FAST}]}
    with pytest.raises(BadScenario, match="3 rounds in a row"):
        planned(**changes, rounds={"max": 5, "deadline_s": 1.5})


TIGHT = {
    "algorithms": ["fedavg", {"fedprox": {"mu": 0.1}}, {"fedcurv": {}}],
    "rounds": {"max": 6, "fraction": 1.0, "deadline_s": 2.0},
    "fleet": [
        {"profile": "pi-5", "count": 2, "link": FAST},
        {"profile": "pi-4", "count": 4, "link": {"up_mbit_s": 4, "down_mbit_s": 4, "latency_ms": 0}},
    ],
}


@pytest.mark.slow
def test_a_deadline_that_keeps_replies_out_is_told_instead_of_a_break_even(planned):
    """At 0.5 MB/s the model takes 0.4 s each way, FedCurv's three 1.3 s: with those four of six are late after 2 s."""
    plan = planned(**TIGHT)
    curv = plan.prices["fedcurv"]
    assert (plan.prices["fedavg"].counted, curv.counted, curv.late, plan.courses["fedavg"].needed) == (6, 2, 4, 6)
    assert plan.ratios.keys() == {"fedprox"}
    said = plan.sentences["fedcurv"]
    assert said.startswith(
        f"fedcurv: only {curv.counted:.1f} of the 6 replies that close a round arrive within the deadline"
    )
    assert "0 of 5 rounds fail" in said
    assert "selected are aggregated: " in text(plan)
    enough = float(said.rpartition("allow ")[2].removesuffix(" s"))
    longer = planned(**merged(TIGHT, {"rounds": {"deadline_s": enough}}))
    assert longer.prices["fedcurv"].counted == longer.courses["fedcurv"].needed
    assert longer.ratios.keys() == {"fedprox", "fedcurv"}


@pytest.mark.slow
def test_a_deadline_that_is_too_short_stands_on_top(planned):
    page = " ".join(text(planned(**TIGHT)).split())  # wherever the terminal's width breaks it
    assert page.startswith(
        "rounds.deadline_s is too short for fedcurv: on average 4.0 of 6 selected devices are late; "
    )
    assert "too short" not in text(planned(**merged(TIGHT, {"rounds": {"deadline_s": 60.0}})))


SHARED = {
    "topology": {"dsl": {"up_mbit_s": 4, "down_mbit_s": 8}, "wifi": {"airtime": True, "behind": "dsl"}},
    "fleet": [
        {"name": "home", "profile": "pi-4", "count": 2, "link": {**FAST, "via": "wifi"}},
        {"name": "away", "profile": "pi-4", "count": 1, "link": FAST},
    ],
}
WIDE = {"link": {"up_mbit_s": 80, "down_mbit_s": 80, "latency_ms": 0}}


@pytest.mark.slow
def test_a_device_alone_is_as_fast_as_the_slowest_link_on_its_way(planned):
    """FAST is wider than the line behind the Wi-Fi: 0.5 MB/s up, 1 MB/s down."""
    groups = {group.name: group.alone["fedavg"] for group in planned(**SHARED, server=WIDE).groups}
    down, up = message_sizes(lab_of(build(SMALL)), Run("fedavg", 1))
    fast = {way: FAST[f"{way}_mbit_s"] / 8 for way in ("down", "up")}
    assert min(fast.values()) > 0.5
    assert groups["home"]["down"].low == pytest.approx(down / min(1e6, fast["down"] * 1e6))
    assert groups["home"]["up"].low == pytest.approx(up / 0.5e6)
    assert groups["away"]["up"].low == pytest.approx(up / min(fast["up"] * 1e6, 10e6))


@pytest.mark.slow
def test_a_shared_link_carries_the_messages_of_the_devices_behind_it(planned):
    """Of three messages each way two pass the home's links, and all three the server's link of 10 MB/s."""
    plan = planned(**SHARED, server=WIDE)
    rows = {link.name: link for link in plan.shared}
    assert list(rows) == ["dsl", "wifi", "the server's"]
    cost = plan.prices["fedavg"]
    sent = sum(cost.up_bytes.values())
    for name, part, rate in (
        ("dsl", 2 / 3, 0.5e6),
        ("wifi", 2 / 3, FAST["up_mbit_s"] / 8 * 1e6),
        ("the server's", 1, 10e6),
    ):
        carried = rows[name].carried["fedavg"]["up"]
        assert carried.nbytes == pytest.approx(part * sent)
        assert carried.seconds == pytest.approx(part * sent / rate)
    assert rows["wifi"].airtime
    assert "Shared links: traffic per round" in text(plan)
    assert planned().shared == []


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [
        (0.22, 0.35, "0.22 to 0.35"),
        (98.4, 101.6, "98 to 102"),
        (99.6, 102.0, "100 to 102"),
        (20.9, 21.1, "21"),
        (3.14159, 3.14159, "3.14"),
    ],
)
def test_a_range_has_no_sign_that_could_be_a_minus_and_no_exponent(low, high, said):
    assert _span(Span(low, high)) == said


@pytest.mark.slow
def test_no_range_is_broken_in_a_terminal_of_80_columns(planned, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    drawn = {"up_mbit_s": {"choice": [0.11, 0.22]}, "down_mbit_s": {"choice": [3.3, 4.4]}, "latency_ms": 35}
    group = {"name": "phones", "profile": "phone-mid", "count": 9, "memory_mb": {"choice": [3000, 4000]}, "link": drawn}
    lines = text(planned(fleet=[group])).splitlines()
    table = lines[lines.index("Devices") : next(n for n, line in enumerate(lines) if line.startswith("A round"))]
    assert max(map(len, table)) <= 80
    assert any("3000 to 4000" in line and "3.3 to 4.4  " in line for line in table)
    assert any("0.11 to 0.22" in line for line in table)
    assert not [line for line in table if line.endswith(" to")]


@pytest.mark.slow
def test_a_baseline_that_is_kept_out_is_told_too(planned):
    algorithms = [{"fedcurv": {}}, "fedavg"]
    plan = planned(**{**TIGHT, "algorithms": algorithms})
    assert plan.ratios == {}
    assert "arrive within the deadline of 2 s" in plan.sentences["fedcurv"]
    assert plan.sentences["fedavg"].startswith("fedavg: no break-even, because fedcurv gets too few replies")


@pytest.mark.slow
def test_computing_is_never_told_as_less_for_more_work(planned):
    """FedCurv's declared work is FedAvg's and more, whoever closes the round: here only the quick are in time."""
    slow = {"up_mbit_s": 1, "down_mbit_s": 2, "latency_ms": 50}
    fleet = [{"profile": "pi-5", "count": 4, "link": FAST}, {"profile": "pi-3", "count": 4, "link": slow}]
    plan = planned(**BOTH, fleet=fleet, rounds={"max": 6, "fraction": 0.5, "ask": 8})
    assert plan.ratios["fedcurv"].compute > 1


@pytest.mark.slow
def test_groups_that_are_never_there_are_named(planned):
    def away(name, *off):
        return {"name": name, "profile": "pi-4", "count": 2, "link": FAST, "presence": {"off": list(off)}}

    fleet = [away("ghosts", [0, float("inf")]), away("sleepers", [0, 9000]), away("late", [0, 0.1]), away("here")]
    plan = planned(fleet=fleet)
    groups = {group.name: group for group in plan.groups}
    assert (groups["ghosts"].never_on, groups["sleepers"].never_on, groups["sleepers"].sometimes_off) == (2, 0, 2)
    assert plan.warnings[0] == "group ghosts is never online; look at its `presence`"
    assert plan.warnings[1].startswith("group sleepers is offline until 9000 s, and the longest run takes about ")
    assert len(plan.warnings) == 2
    assert "2 never online" in text(plan)


@dataclass(frozen=True)
class Drawing:
    """As much of a lab as draws of chance need."""

    server_link: object
    draw: int = 0


@pytest.mark.parametrize(
    ("others", "due", "made"),
    [([10, 11, 9], (9 * 0.97, 11 * 1.03), DRAWS - 1), ([10, 10, 9], None, 2)],
)
def test_one_draw_that_equals_the_records_ends_no_range(monkeypatch, others, due, made):
    """The record's round takes 10 s; draws that are not named take as long as the last one."""
    drawn = []

    def rehearse(lab, *_):
        drawn.append(lab.draw)
        return SimpleNamespace(rows=[others[min(lab.draw, len(others)) - 1]])

    monkeypatch.setattr(plan, "rehearse", rehearse)
    monkeypatch.setattr(plan, "price", lambda rows, *_: SimpleNamespace(seconds=rows[0]))
    lab = Drawing(SimpleNamespace(tcp=SimpleNamespace(windows=True)))
    conducts = {"a": SimpleNamespace(rules=SimpleNamespace(max=3))}
    rehearsed, prices = {"a": SimpleNamespace(rows=[1])}, {"a": SimpleNamespace(seconds=10)}
    found = plan._bands(lab, 1, conducts, {"a": "sync"}, rehearsed, prices, plan.DRAWS)
    assert found.get("a") == (due and pytest.approx(due))
    assert drawn == [*range(1, made + 1)]


@pytest.mark.slow
def test_chance_on_full_links_is_told_as_a_range_and_only_there(planned):
    """Four uplinks of 4 Mbit/s fill a server of 8, and not one of 1000."""
    fleet = [{"profile": "pi-5", "count": 4, "link": {"up_mbit_s": 4, "down_mbit_s": 4, "latency_ms": 20}}]
    links = ({"up_mbit_s": rate, "down_mbit_s": rate, "latency_ms": 1} for rate in (8, 1000))
    full, wide = (
        planned(fleet=fleet, network={"model": "windows"}, server={"profile": "workstation", "link": link})
        for link in links
    )
    assert (full.network, wide.bands) == ("windows", {})
    for label, (low, high) in full.bands.items():
        assert low <= full.prices[label].seconds <= high < 2 * low
        assert high / low > 1.03 / 0.97  # the draws differ
    assert full.bands.keys() == full.prices.keys()
    assert text(full).count("random variation on full links") == len(full.prices)


@pytest.mark.slow
def test_a_plan_is_json_and_text_of_80_columns(planned, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    plan = planned(**BOTH)
    assert json.loads(json.dumps(plan.plain(), allow_nan=False))["ratios"].keys() == {"fedcurv"}
    page = text(plan)
    assert max(map(len, page.splitlines())) <= 80
    assert "it is faster only if it needs fewer than" in " ".join(page.split())
    assert "\x1b" not in page


def test_the_heat_map_is_darker_where_more_examples_are():
    lines = heat_map({"a-0": [0, 1, 25, 26, 51, 76, 100]}, 80).splitlines()
    assert lines[-1].split("  ")[2:][0] == ""  # class 0 is blank
    assert lines[-1].replace(" ", "") == "a-0" + "░░" + "░░" + "▒▒" + "▓▓" + "██" + "██" + "279"


def test_the_heat_map_says_what_it_leaves_out():
    lines = heat_map({f"a-{k:02}": [1] * 200 for k in range(50)}, 80).splitlines()
    assert len([line for line in lines if line.startswith("  a-")]) == 20
    assert "  and 30 more devices, between these" in lines
    shown = len(lines[2].split()[1])
    assert f"  and {200 - shown} more classes" in lines
    assert max(map(len, lines)) <= 80


def test_an_empty_heat_map_is_blank():
    assert "█" not in heat_map({"a-0": [0, 0]}, 80).splitlines()[-1]
