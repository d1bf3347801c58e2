"""Asynchronous rounds: who is combined and who is asked at one instant, and the laws of docs/design/async.md."""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest

from algorithms.algorithm import Message, Party, Reply, Training
from algorithms.fedavg import FedAvg
from emulator.audit.audit import audit
from emulator.compute.executors import Inline
from emulator.conversation.exchange import Exchange
from emulator.conversation.rounds import Round, RoundRules
from emulator.conversation.underway import Arrival, Play
from emulator.lab.build import lab_of
from emulator.lab.jobs import State
from emulator.messages.store import NOTHING
from emulator.play.conduct import Conduct
from emulator.play.over_sockets import run_sockets
from emulator.play.run import run_virtual
from emulator.record.call import AGAIN
from emulator.record.run import Run
from scenarios.builders import plugins
from scenarios.load import build, dump
from scenarios.text.faults import BadScenario
from tests.all_of import all_of
from tests.conftest import SMALL, Played, merged
from tests.runs.lateness import with_lateness

INSTANT = {"up_mbit_s": 1e6, "down_mbit_s": 1e6, "latency_ms": 0}  # a transfer takes some 2 us
ALIKE = {"name": "d", "profile": "pi-4", "link": INSTANT}


def played(folder: Any, algorithm: Any = "fedavg", **changes: Any) -> Played:
    """A run of SMALL with other rounds, audited also against its scenario."""
    changed = merged(SMALL, {"evaluate": {"every": 0}, **changes, "algorithms": [algorithm], "seeds": [1]})
    scenario = build({**changed, "rounds": changes["rounds"]})
    lab, run = lab_of(scenario), Run(scenario.algorithms[0].name, 1)
    folder = folder / run.name
    outcome = asyncio.run(run_virtual(lab, run, Conduct.of(scenario), Inline(lab), folder))
    (folder.parent / "scenario.yaml").write_text(dump(scenario))
    (folder.parent / "host.json").write_text('{"world": "virtual"}')
    found = audit(folder)
    assert (found.faults, found.unjudged) == ([], None)
    return Played(folder, outcome)


@pytest.mark.slow
def test_rounds_of_one_cohort_are_synchronous_fedavg_bit_for_bit(tmp_path: Any) -> None:
    """K = M = cohort, equal devices that are always on (law 1)."""
    fleet = [{**ALIKE, "count": 6}]
    sync = played(tmp_path / "sync", fleet=fleet, rounds={"max": 3, "fraction": 0.5})
    rounds = {"max": 3, "mode": "async", "buffer": 3, "in_flight": 3}
    made = played(tmp_path / "async", fleet=fleet, rounds=rounds)
    assert made.model == sync.model
    assert [line["asked"] for line in made.of("ask")] == [line["asked"] for line in sync.of("open")]
    assert [line["counted"] for line in made.of("close")] == [sorted(line["counted"]) for line in sync.of("close")]
    assert [row["time_s"] for row in made.rounds] == [row["time_s"] for row in sync.rounds]
    assert all_of(row["staleness"] == {"0": 3} for row in made.rounds)


@pytest.mark.slow
def test_equal_devices_in_step_have_a_mean_staleness_of_m_minus_k_over_k(tmp_path: Any) -> None:
    """M = 80, K = 10: once each device has replied to a version of its own, (80 - 10) / 10 = 7 (law 2)."""
    server = {"profile": "workstation", "link": INSTANT}
    rounds = {"max": 3, "mode": "async", "buffer": 10, "in_flight": 80}
    run = played(tmp_path / "run", fleet=[{**ALIKE, "count": 80}], server=server, rounds=rounds)
    assert [row["staleness"] for row in run.rounds[:8]] == [{str(version): 10} for version in range(8)]
    assert all_of(row["staleness"] == {"7": 10} for row in run.rounds[8:])
    assert {len(line["asked"]) for line in run.of("ask")} == {80, 10}


@dataclass(frozen=True)
class Still(FedAvg):
    """Devices answer with what they got, so that a run of many replies is short."""

    def train(self, download: Message, device: Party) -> Reply:
        return Reply(download, len(device.y))


@pytest.mark.slow
def test_replies_are_as_stale_as_frequent_and_as_evenly_shared_as_queues_say(tmp_path: Any) -> None:
    """300 devices, half of them four times slower, M = 20, K = 4, arrivals spread by jitter (law 2): each version makes
    the other M - 1 one version older, so the mean staleness is (M - 1) / K; replies a second are M over the mean cycle
    (Little); and as nobody is asked by its speed, both halves have equal shares, less the few that are busy.
    """
    M, K, rounds = 20, 4, 40
    kinds = {"fast": 100, "slow": 400}
    alike = {"profile": "pi-4", "count": 150, "jitter": 0.3, "link": INSTANT}
    fleet = [{**alike, "name": name, "overhead_ms": ms} for name, ms in kinds.items()]
    server = {"profile": "workstation", "link": INSTANT}
    still = {f"{__name__}:Still": {}, "name": "still"}
    rules = {"max": rounds, "mode": "async", "buffer": K, "in_flight": M}
    run = played(tmp_path, still, fleet=fleet, server=server, rounds=rules, model="tests.runs.network:small")
    ages = [int(age) for row in run.rounds[20:] for age, count in row["staleness"].items() for _ in range(count)]
    assert np.mean(ages) == pytest.approx((M - 1) / K, rel=0.05)
    asked = {(name, line["round"]): line["t"] for line in run.of("ask") for name in line["asked"]}
    ends = {(line["device"], line["round"]): line["t"] for line in run.of("up.end")}
    cycle = np.mean([t - asked[call] for call, t in ends.items()])
    assert len(ends) / max(ends.values()) == pytest.approx(M / cycle, rel=0.05)
    slow = np.mean([name.startswith("slow") for name, _ in asked])
    assert slow == pytest.approx((150 - 16) / (300 - 20), abs=0.06)  # 16 of 20 at work are slow; three deviations


@pytest.mark.slow
def test_one_device_that_replaces_the_model_is_sequential_sgd(tmp_path: Any) -> None:
    """K = M = 1, alpha = 1 (law 1)."""
    fleet = [{**ALIKE, "count": 1}]
    sync = played(tmp_path / "sync", fleet=fleet, rounds={"max": 3, "fraction": 1.0})
    rounds = {"max": 3, "mode": "async", "buffer": 1, "in_flight": 1}
    made = played(tmp_path / "async", {"fedasync": {"alpha": 1.0}}, fleet=fleet, rounds=rounds)
    assert made.model == sync.model
    assert [row["staleness"] for row in made.rounds] == [{"0": 1}] * 3


def three(*times: float) -> dict[str, Any]:
    """A fleet of a, b and c, whose trainings take these units of time."""
    board = {"memory_bandwidth_gb_s": 1e6, "overhead_ms": 0, "memory_mb": 4000}
    profiles = {f"for-{name}": {**board, "speed_gflop_s": 0.01 / s} for name, s in zip("abc", times, strict=True)}
    fleet = [{"name": name, "profile": f"for-{name}", "count": 1, "link": INSTANT} for name in "abc"]
    return {"fleet": fleet, "profiles": profiles, "server": {"profile": "workstation", "link": INSTANT}}


def of_three(folder: Any, rounds: Any, *times: float) -> tuple[Played, float]:
    """A run of three devices, and their unit of time in s."""
    run = played(folder, rounds=rounds, **three(*times))
    return run, sum(run.of("compute.start", device="a-0")[0]["seconds"].values())


@pytest.mark.slow
def test_an_open_queue_has_the_staleness_that_others_measured() -> None:
    """Starts 0.01 s apart, durations |N(0, 1)| s, K = 10, fed to the inbox (law 3).  Logs of QAFeL, a fork of FLSim,
    have a mean of 7.911, 7.938 and 7.911, and a deviation of 6.05, 6.04 and 6.02."""
    rng, starts = np.random.default_rng(1), 20_000
    rules = RoundRules(max=starts, needed=10, ask=1, max_staleness=math.inf, asynchronous=True)
    exchange = Exchange(None, None, None)  # type: ignore[arg-type]  it sends and judges nothing here
    exchange.at_once, number, ages = False, 0, list[int]()
    exchange.open = a_play(number, rules)
    started = [(0.01 * at, 0.01 * at + abs(length)) for at, length in enumerate(rng.standard_normal(starts))]
    todo = sorted(
        [(t, -1, at) for at, (t, _) in enumerate(started)] + [(t, at, at) for at, (_, t) in enumerate(started)]
    )
    asked: dict[int, Any] = {}
    for t, arrives, at in sorted(todo):
        if arrives < 0:
            asked[at] = exchange.open
            continue
        exchange.inbox.append(Arrival(t, f"d{at}", asked.pop(at), 1, NOTHING))
        exchange.take_in()
        if exchange.open.round.reason:
            ages += [number - call.version for call in exchange.open.round.calls]
            number += 1
            exchange.open = a_play(number, rules)
    assert np.mean(ages) == pytest.approx(7.92, abs=0.1)
    assert np.std(ages) == pytest.approx(6.04, abs=0.1)
    assert 35 <= max(ages) <= 60  # 41 to 46 in the logs, which are shorter


def a_play(number: int, rules: RoundRules) -> Play:
    signal = SimpleNamespace(set=lambda: None)
    return Play(Round(number, (), rules, 0.0), 0.0, signal, signal, State(NOTHING, NOTHING), {})  # type: ignore[arg-type]


@pytest.mark.slow
def test_eight_replies_of_three_devices_are_as_on_paper(tmp_path: Any) -> None:
    """Three devices of 1, 2 and 5 s, K = 2, M = 3 (law 5).

    s 1: a on 0; it starts again on 0.  s 2: b on 0 fills the buffer, so 1 is made, and b starts on it; a on 0 once
    more, one version old, and a starts on 1.  s 3: a on 1 fills the buffer with two replies of a, so 2 is made.  s 4: b
    on 1, one old, and a on 2: 3 is made.  s 5: c on 0, three old, and a on 3: 4 is made.
    """
    rounds = {"max": 3, "mode": "async", "buffer": 2, "in_flight": 3}  # three times three replies: five versions
    run, second = of_three(tmp_path / "run", rounds, 1, 2, 5)
    replies = [(round(line["t"] / second, 2), line["device"], line["round"]) for line in run.of("up.end")]
    assert replies[:1] == [(1, "a-0", 0)]
    assert sorted(replies[1:3]) == [(2, "a-0", AGAIN), (2, "b-0", 0)]
    assert replies[3] == (3, "a-0", 1)
    assert sorted(replies[4:6]) == [(4, "a-0", 2), (4, "b-0", 1)]
    assert sorted(replies[6:8]) == [(5, "a-0", 3), (5, "c-0", 0)]
    closes = run.of("close")[:4]
    assert [round(line["t"] / second, 2) for line in closes] == [2, 3, 4, 5]
    counted = [sorted(map(str, line["counted"])) for line in closes]
    assert counted == [["a-0", "b-0"], [f"['a-0', {AGAIN}]", "a-0"], ["['b-0', 1]", "a-0"], ["['c-0', 0]", "a-0"]]
    ages = [{"0": 2}, {"0": 1, "1": 1}, {"0": 1, "1": 1}, {"0": 1, "3": 1}]
    assert [row["staleness"] for row in run.rounds[:4]] == ages
    assert [row["stale"] for row in run.rounds[:4]] == [0, 0, 0, 0]
    busy = [name for line in run.of("ask") for name in line["asked"]]
    assert busy[:10] == ["a-0", "b-0", "c-0", "a-0", "b-0", "a-0", "a-0", "b-0", "a-0", "c-0"]


@pytest.mark.slow
def test_with_all_at_work_a_device_s_share_is_one_over_its_time(tmp_path: Any) -> None:
    """M = N = K = 3 (law 2): in 10 units of time 10, 5 and 2 replies, and all three are at work all the time."""
    run, second = of_three(tmp_path / "run", {"max": 6, "mode": "async", "buffer": 3, "in_flight": 3}, 1, 2, 5)
    ends = {name: [line["t"] for line in run.of("up.end", device=name)] for name in ("a-0", "b-0", "c-0")}
    assert [sum(t < 10.5 * second for t in times) for times in ends.values()] == [10, 5, 2]
    for name, times in ends.items():
        starts = [line["t"] for line in run.of("down.start", device=name)][1:]
        assert all_of(abs(start - end) < 1e-3 * second for start, end in zip(starts, times, strict=False))
    assert sum(map(len, ends.values())) == sum(sum(row["staleness"].values()) for row in run.rounds) == 18


@pytest.mark.slow
def test_with_a_slow_device_replies_of_asynchronous_rounds_come_sooner(tmp_path: Any) -> None:
    """The direction of what FedScale, FedBuff and Papaya report (law 4).  Devices take 1, 1 and 5 units: 9 replies take
    a synchronous server three rounds of 5; an asynchronous one has 4 + 4 after four units, and more after five."""
    waits, second = of_three(tmp_path / "sync", {"max": 3, "fraction": 1}, 1, 1, 5)
    keeps, _ = of_three(tmp_path / "async", {"max": 3, "mode": "async", "buffer": 3, "in_flight": 3}, 1, 1, 5)
    nine = [run.rounds[2]["time_s"] / second for run in (waits, keeps)]
    assert nine == [pytest.approx(15, rel=0.01), pytest.approx(5, rel=0.01)]


@pytest.mark.parametrize(("every", "due"), [(1, [2, 5, 7]), (2, [5, 7]), (3, [7]), (9, [7])])
def test_rounds_are_counted_in_replies_of_all_devices_at_work(every: int, due: list[int]) -> None:
    """K = 3, M = 8: version v comes after 3 (v + 1) replies.  3 rounds are 24 replies, so 8 versions.  8, 16
    and 24 replies are there with the versions of 9, 18 and 24."""
    rounds = {"max": 3, "mode": "async", "buffer": 3, "in_flight": 8}
    fleet = [{**ALIKE, "count": 8}]
    scenario = build({**SMALL, "fleet": fleet, "rounds": rounds, "evaluate": {"every": every}})
    conduct = Conduct.of(scenario)
    assert conduct.rules.max == 8
    assert [version for version in range(8) if conduct.evaluated(version)] == due
    lab = lab_of(scenario)
    assert [lab.turn("fedavg", version) for version in range(9)] == [0, 0, 0, 1, 1, 1, 2, 2, 3]
    assert lab.turn("fedavg", 3 + 2 * AGAIN) == 1


STEP = {"fleet": [{**ALIKE, "count": 4}], "server": {"profile": "workstation", "link": INSTANT}}
IN_STEP = {"max": 3, "mode": "async", "buffer": 2, "in_flight": 4}  # six versions


@pytest.mark.slow
def test_without_a_penalty_an_algorithm_is_fedavg_bit_for_bit(tmp_path: Any) -> None:
    plain = played(tmp_path / "plain", rounds=IN_STEP, **STEP)
    for algorithm in ({"fedprox": {"mu": 0.0}}, {"fedcl": {"strength": 0.0}}, {"fedcurv": {"strength": 0.0}}):
        run = played(tmp_path / next(iter(algorithm)), algorithm, rounds=IN_STEP, **STEP)
        assert [line["counted"] for line in run.of("close")] == [line["counted"] for line in plain.of("close")]
        assert run.model == plain.model


@pytest.mark.slow
def test_fedcl_s_interval_counts_replies_of_all_devices_at_work(tmp_path: Any) -> None:
    """Every second round carries Ω, and 4 replies are a round: versions 0, 1, 4 and 5, each with an Ω of its own."""
    run = played(tmp_path, {"fedcl": {"interval": 2}}, rounds=IN_STEP, **STEP)
    asked = {line["round"]: "importance" in line["bytes"] for line in run.of("down.start")}
    assert asked == {0: True, 1: True, 2: False, 3: False, 4: True, 5: True}
    assert [line["round"] for line in run.of("server.start", what="request")] == [0, 1, 4, 5]


@pytest.mark.slow
def test_over_sockets_versions_are_the_same_where_replies_arrive_apart(tmp_path: Any) -> None:
    """Devices of 2, 4.6 and 11.4 s of real time: replies are 0.6 s apart at least.  So the same replies count in the
    same versions, and models are the same to the bit, unless this machine is too busy to train in time."""
    rounds = {"max": 2, "mode": "async", "buffer": 2, "in_flight": 3}
    run, unit = of_three(tmp_path / "virtual", rounds, 1, 2.3, 5.7)
    scenario = build({**SMALL, "evaluate": {"every": 0}, **three(1, 2.3, 5.7), "rounds": rounds, "seeds": [1]})
    lab, folder = lab_of(scenario), tmp_path / "sockets" / run.folder.name
    going = run_sockets(lab, Run("fedavg", 1), Conduct.of(scenario), Inline(lab), folder, speedup=unit / 2)
    real, late = asyncio.run(with_lateness(going))
    made = Played(folder, real)
    (folder.parent / "scenario.yaml").write_text(dump(scenario))
    (folder.parent / "host.json").write_text('{"world": "sockets"}')
    found = audit(folder)
    assert (found.faults, found.unjudged) == ([], None)
    assert [len(line["counted"]) for line in made.of("close")] == [2, 2, 2]
    if not real.overruns and late < 0.3:
        assert [line["counted"] for line in made.of("close")] == [line["counted"] for line in run.of("close")]
        assert [line["asked"] for line in made.of("ask")] == [line["asked"] for line in run.of("ask")]
        assert made.model == run.model
        assert made.rounds[0]["bytes"] == run.rounds[0]["bytes"]
        assert all_of(mine["time_s"] >= own["time_s"] for mine, own in zip(made.rounds, run.rounds, strict=True))


@pytest.mark.slow
def test_check_says_how_fast_versions_are_and_how_stale_replies(fedlapse: Any, tmp_path: Any) -> None:
    """Equal devices in step: staleness (12 - 3) / 3 = 3, and 12 / 3 versions in the time of one training (law 2)."""
    rounds = {"max": 2, "mode": "async", "buffer": 3, "in_flight": 12}
    server = {"profile": "workstation", "link": INSTANT}
    changes = {"fleet": [{**ALIKE, "count": 12}], "server": server, "evaluate": {"every": 0}}
    scenario = build({**SMALL, **changes, "rounds": rounds})
    (tmp_path / "small.yaml").write_text(dump(scenario))
    done = fedlapse("check", tmp_path / "small.yaml")
    assert done.returncode == 0, done.stderr
    said = " ".join(done.stdout.split())
    assert "12 at work, and 3 replies make a version" in said
    assert "at most 8 versions, counted as 2 rounds of 12 replies" in said
    assert "replies are 3.0 versions old on average" in said


@dataclass(frozen=True)
class Fresh(FedAvg):
    """A user's algorithm that says that its replies must be fresh."""

    synchronous: ClassVar[str] = "it is mine"


@pytest.mark.parametrize("rounds", [{"mode": "async", "buffer": 2, "in_flight": 2}, {"stragglers": "count"}])
@pytest.mark.parametrize(
    ("algorithm", "why"),
    [
        ("scaffold", "its control variates belong to the model of their round"),
        ("fedmeta", "its gradients belong to the model of their round"),
        ("uga", "its gradients belong to the model of their round"),
        ("fedyogi", "its step is the difference of the replies from the current model"),
        ("fedavgm", "its step is the difference of the replies from the current model"),
        ("fedadam", "its step is the difference of the replies from the current model"),
        ("agentimportance", "it weighs the importances of one round against one another"),
        (
            {"fedcurv": {"participation": "last_round"}},
            "with participation 'last_round' its sums have the replies to one",
        ),
        ({"fedcurv": {"centred": True}}, "centred sums are counted from the model of one round"),
        ({"fedshare": {"split": "per_round"}}, "with split 'per_round' the devices of a round divide the examples"),
        ({f"{__name__}:Fresh": {}, "name": "mine"}, "it is mine"),
    ],
)
def test_what_cannot_combine_stale_replies_is_refused(algorithm: Any, why: str, rounds: dict[str, Any]) -> None:
    right = "mode: sync" if "mode" in rounds else "stragglers: stop or finish"
    with pytest.raises(BadScenario) as error:
        build({**SMALL, "algorithms": [algorithm], "rounds": {"max": 2, **rounds}})
    assert f"combines no stale replies: {why}" in str(error.value)
    assert f"; with it, rounds need {right}" in str(error.value)
    build({**SMALL, "algorithms": [algorithm], "rounds": {"max": 2, "stragglers": "finish"}})


@pytest.mark.slow
@pytest.mark.parametrize("presence", [{}, {"off": [[1e6, 2e6]]}], ids=["always on", "watched"])
def test_a_version_whose_last_devices_time_out_together_keeps_no_place(tmp_path: Any, presence: Any) -> None:
    """No download takes less than 1 s, so that no version gets a reply, whether a device's presence is watched or
    not."""
    link = {**INSTANT, "down_mbit_s": 0.01}
    fleet = [{**ALIKE, "link": link}, {**ALIKE, "name": "e", "link": link, "presence": presence}]
    rounds = {"max": 9, "mode": "async", "buffer": 1, "in_flight": 2, "timeout_s": 1.0}
    failure = played(tmp_path, fleet=fleet, rounds=rounds).outcome.failure
    assert "3 rounds in a row had fewer than min_replies = 1 replies (the last: 2 late," in failure


ASYNCHRONOUS = ("ditto", "fedavg", "fedprox", "fedcl", "fedcurv", "fedshare", "fedasync", "fedbuff", "fadas", "ca2fl")


def test_all_algorithms_but_these_are_refused() -> None:
    """Each of the others is named above, but `continual`, which asks the whole fleet in some rounds."""
    rounds = {"max": 2, "mode": "async", "buffer": 2, "in_flight": 2}
    cases = [*ASYNCHRONOUS, {"fedcl": {"fallback": "catch_up"}}, {"fedcurv": {"upload": "lean", "centred": True}}]
    for algorithm in cases:
        build({**SMALL, "algorithms": [algorithm], "rounds": rounds})
    refused = {key for key, kind in plugins.kinds().items() if kind(Training()).synchronous}
    assert refused == plugins.kinds().keys() - set(ASYNCHRONOUS)


def test_an_algorithm_with_a_cohort_of_its_own_cannot_be_asynchronous(monkeypatch: Any) -> None:
    rounds = {"max": 2, "mode": "async", "buffer": 2, "in_flight": 2}
    build({**SMALL, "rounds": rounds})
    monkeypatch.setattr(FedAvg, "cohort_rule", "own")
    with pytest.raises(BadScenario, match="it selects devices by a rule of its own"):
        build({**SMALL, "rounds": rounds})


@pytest.mark.parametrize(
    ("rounds", "said"),
    [
        ({"buffer": 2}, "buffer needs asynchronous rounds"),
        ({"timeout_s": 2.0}, "timeout_s needs asynchronous rounds"),
        ({"max_staleness": 2}, "max_staleness needs late replies to be aggregated"),
        ({"mode": "async", "buffer": 2}, "mode: async needs buffer and in_flight"),
        ({"mode": "async", "buffer": 2, "in_flight": 2, "deadline_s": 3.0}, "deadline_s is of synchronous rounds"),
        ({"mode": "async", "buffer": 2, "in_flight": 2, "fraction": 0.5}, "fraction is of synchronous rounds"),
        ({"mode": "async", "buffer": 2, "in_flight": 9}, "9 devices at work, but the fleet has 4"),
    ],
)
def test_keys_of_the_other_mode_are_named(rounds: dict[str, Any], said: str) -> None:
    with pytest.raises(BadScenario, match=said):
        build({**SMALL, "rounds": {"max": 2, **rounds}})
