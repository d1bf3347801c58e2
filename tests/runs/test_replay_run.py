"""Replays against runs: of its own scenario a run's replay is the run, and of another one it is that one's run."""

import json
from dataclasses import replace
from pathlib import Path
from shutil import copytree
from time import process_time
from typing import Any, NamedTuple

import pytest

from emulator.record.call import Call
from emulator.record.lines import read_lines
from emulator.record.record import FILES
from emulator.record.run import AlgorithmFacts, Run
from emulator.record.seal import seal_results
from emulator.record.tally import Bill
from emulator.record.targets import Target
from emulator.replay.conditions import Condition, Uplink, links_from, onto
from emulator.replay.findings import time_of, time_to
from emulator.replay.replayer import OTHERS, Replayer
from emulator.replay.script import DeviceScript, RoundScript, Script, Served, read_script
from scenarios.load import build, dump
from tests.all_of import all_of
from tests.conftest import SMALL, audit_run, merged
from tests.golden.scenarios import AWAY, FLEET, GOLDEN, LINK
from tests.runs.in_turn import IN_TURN
from tests.runs.own_pass import own_pass

pytestmark = pytest.mark.slow

DRIFT: dict[str, Any] = {
    "data": {"set": "babble", "split": {"kind": "natural"}, "validation": 0},
    "model": "lstm-tiny",
    "rounds": {"max": 4, "per_cycle": 2, "fraction": 0.5},
}

# All conducts of a round, over algorithms that send several kinds, keep memory, work on the server, and encode.
OWN: dict[str, tuple[Any, dict[str, Any]]] = {
    **GOLDEN,
    "fedcl-keeps": ({"fedcl": {"interval": 2, "fallback": "keep_last"}}, {"fleet": FLEET, "rounds": {"max": 4}}),
    "fedcl-first": ({"fedcl": {}}, {"fleet": FLEET, "rounds": {"max": 3, "fraction": 0.5, "ask": 4}}),
    "fedcurv-finish": (
        {"fedcurv": {}},
        {"fleet": AWAY, "rounds": {"max": 5, "fraction": 0.5, "ask": 3, "stragglers": "finish"}},
    ),
    "scaffold-away": ({"scaffold": {}}, {"fleet": AWAY, "rounds": {"max": 4}}),
    "goes-on": (
        {"fedcurv": {}},
        {
            "fleet": [{**group, "jitter": 0.1, "throttling": True, "wakeup": True} for group in AWAY],
            "rounds": {"max": 4, "when_off": "pause", "transfers": "resume"},
        },
    ),
    "encoded": (
        {"fedavg": {"encoding": {"up": {"weights": "top-0.1"}, "down": {"weights": "float16"}}}},
        {"fleet": FLEET, "rounds": {"max": 3}},
    ),
    "seconds": (
        {"fedprox": {}},
        {"fleet": FLEET, "rounds": {"max": 3}, "training": {"batch": 20, "seconds": 0.03, "weigh_by": "steps"}},
    ),
    "too-few": (
        "fedavg",
        {"fleet": FLEET, "rounds": {"max": 6, "deadline_s": 0.2, "min_replies": 2}},
    ),
    "drift": ("fedavg", DRIFT),
    "drift-retrained": ({"continual": {"variant": "alg1", "personal": "*"}}, DRIFT),  # every device, in some rounds
    "drift-away": (
        {"continual": {"variant": "alg0"}},
        {**DRIFT, "fleet": AWAY, "rounds": {**DRIFT["rounds"], "stragglers": "finish"}},
    ),
    "in-turn": (IN_TURN, {"fleet": AWAY, "rounds": {"max": 4, "fraction": 0.5}}),
    "small-memory": (
        "fedavg",
        {"fleet": [FLEET[0], {**FLEET[1], "memory_mb": 0.01}], "rounds": {"max": 2}},
    ),
}


class Ran(NamedTuple):
    folder: Path
    scenario: Any


@pytest.fixture(scope="module")
def ran(play):
    """Plays one algorithm of SMALL with changes, each once; its folder, which nobody changes, and scenario."""
    known: dict[str, Ran] = {}

    def run(algorithm: Any, changes: dict[str, Any]) -> Ran:
        key = json.dumps([algorithm, changes])
        if key not in known:
            scenario = build(merged(SMALL, {**changes, "algorithms": [algorithm], "seeds": [1]}))
            known[key] = Ran(play(algorithm, **changes).folder, scenario)
        return known[key]

    return run


def assert_same(one: Path, other: Path) -> None:
    """Asserts that two records are equal byte for byte."""
    for name in FILES:
        assert (one / name).read_bytes() == (other / name).read_bytes(), name


def again(ran: Ran, tmp_path: Path, condition: Condition | None = None, other: Any = None, anyway: bool = False) -> Any:
    """The replay of a run, and the folder of its record."""
    replayer, script = Replayer(ran.scenario), read_script(ran.folder)
    base = onto(replayer.own, other)[0] if other else replayer.own
    setting = condition.setting(base) if condition else base
    return replayer.replay(script, setting, tmp_path / script.name, anyway), tmp_path / script.name


@pytest.mark.parametrize("name", sorted(OWN))
def test_a_replay_of_its_own_scenario_is_the_run_byte_for_byte(ran, tmp_path, name):
    run = ran(*OWN[name])
    replayed, folder = again(run, tmp_path)
    assert_same(folder, run.folder)
    assert (replayed.parting, replayed.assumed, replayed.failure) == (None, 0, None)


def test_a_record_that_does_not_say_among_whom_an_own_rule_chose_is_not_replayed(ran, tmp_path):
    run = ran(*OWN["in-turn"])
    old = tmp_path / run.folder.name
    copytree(run.folder, old)
    lines = [{key: value for key, value in line.items() if key != "idle"} for line in read_lines(old / "events.jsonl")]
    (old / "events.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(ValueError, match="does not say which devices were idle as each round opened; run it again"):
        read_script(old)


SLOW_LINK = {"up_mbit_s": 0.5, "down_mbit_s": 3, "latency_ms": 70}


@pytest.mark.parametrize("algorithm", ["fedavg", {"fedcl": {"interval": 2}}, {"fedcurv": {}}])
def test_a_replay_on_other_links_is_the_run_on_those_links(ran, tmp_path, algorithm):
    rounds = {"rounds": {"max": 3}}
    other = ran(algorithm, {"fleet": [{**group, "link": SLOW_LINK} for group in FLEET], **rounds})
    condition = Condition("slow", down=3e6 / 8, up=0.5e6 / 8, latency=0.07)
    replayed, folder = again(ran(algorithm, {"fleet": FLEET, **rounds}), tmp_path, condition)
    assert replayed.parting is None
    assert_same(folder, other.folder)


@pytest.mark.parametrize(
    "algorithm",
    ["fedavg", {"fedcl": {"interval": 2, "fallback": "keep_last"}}, {"fedcurv": {}}, {"fedshare": {}}, own_pass()],
)
def test_a_replay_on_another_fleet_is_the_run_on_that_fleet(ran, tmp_path, monkeypatch, algorithm):
    """And needs no data."""
    names = [{**FLEET[0], "name": "a"}, {**FLEET[1], "name": "b"}]
    swapped = [
        {**names[0], "profile": "pi-4", "link": SLOW_LINK},
        {**names[1], "profile": "laptop", "memory_bandwidth_gb_s": 3.0},
    ]
    server = {"profile": "laptop", "link": SMALL["server"]["link"]}
    rounds = {"rounds": {"max": 4, "fraction": 0.5}}
    other = ran(algorithm, {"fleet": swapped, "server": server, **rounds})
    run = ran(algorithm, {"fleet": names, **rounds})
    monkeypatch.delattr("scenarios.builders.parts.dataset")
    replayed, folder = again(run, tmp_path, other=other.scenario)
    assert replayed.parting is None
    assert_same(folder, other.folder)


# Control variates and Ω stay on the devices, so that what they hold grows after the first round.
KEEPING = [{"scaffold": {}}, {"fedcl": {"interval": 2, "fallback": "keep_last"}}, {"fedcurv": {}}]


@pytest.mark.parametrize("algorithm", KEEPING, ids=str)
def test_a_device_that_runs_out_of_memory_on_another_fleet_does_so_in_the_same_round(ran, tmp_path, algorithm):
    rounds = {"rounds": {"max": 3}}
    run = ran(algorithm, {"fleet": FLEET, **rounds})
    held = [line["held"] for line in read_lines(run.folder / "work.jsonl") if line.get("device") == "pi-4-0"]
    assert len(set(held)) > 1
    small = [FLEET[0], {**FLEET[1], "memory_mb": (max(held) - 1) / 1e6}]
    other = ran(algorithm, {"fleet": small, **rounds})
    replayed, folder = again(run, tmp_path, other=other.scenario)
    first = next(line for line in read_lines(other.folder / "events.jsonl") if line["event"] == "refused")
    assert (replayed.parting.round, first["device"]) == (first["round"], "pi-4-0")
    assert first in read_lines(folder / "events.jsonl")


def test_a_deadline_that_is_missed_on_slower_links_ends_the_replay_in_that_round(ran, tmp_path):
    run = ran("fedavg", {"fleet": FLEET, "rounds": {"max": 3, "deadline_s": 20.0}})
    replayed, _ = again(run, tmp_path, Condition("slow", up=1e3))
    assert replayed.parting.round == 0
    assert replayed.parting.why.startswith("phone-mid-0")
    assert replayed.rows == []


def test_a_deadline_that_is_no_longer_missed_ends_it_too(ran, tmp_path):
    run = ran(*GOLDEN["fedcl-deadline"])
    replayed, _ = again(run, tmp_path, Condition("fast", up=1e9, down=1e9, latency=0.0))
    assert replayed.parting.why.startswith("pi-4-")


def test_anyway_it_goes_on_to_the_last_round(ran, tmp_path):
    run = ran("fedavg", {"fleet": FLEET, "rounds": {"max": 3, "deadline_s": 20.0}})
    slow = [FLEET[0], {**FLEET[1], "link": {**LINK, "up_mbit_s": 0.01}}]
    replayed, folder = again(run, tmp_path, other=build(merged(SMALL, {"fleet": slow})), anyway=True)
    assert (replayed.parting.round, replayed.failure) == (0, None)
    assert [row["counted"] for row in replayed.rows] == [2, 2, 2]
    assert [row["round"] for row in replayed.rows] == [0, 1, 2]
    assert audit_run(folder) == []


def test_other_first_replies_end_it(ran, tmp_path):
    """The pi is the slower one to upload in the record; with equal links and phones that are slow, it is not."""
    fleet = [{**FLEET[0], "count": 1, "name": "a"}, {**FLEET[1], "count": 1, "name": "b"}]
    rounds = {"max": 3, "fraction": 0.5, "ask": 2}
    run = ran("fedavg", {"fleet": fleet, "rounds": rounds})
    swapped = [
        {**fleet[0], "link": {"up_mbit_s": 0.1, "down_mbit_s": 0.1, "latency_ms": 0}},
        {**fleet[1], "link": {"up_mbit_s": 100, "down_mbit_s": 100, "latency_ms": 0}},
    ]
    other = build(merged(SMALL, {"fleet": swapped, "rounds": rounds}))
    replayed, _ = again(run, tmp_path, other=other)
    why = "b-0 is now aggregated and a-0 is no longer aggregated"
    assert (replayed.parting.round, replayed.parting.why) == (0, why)


def test_a_device_that_is_off_when_it_was_not_ends_it(ran, tmp_path):
    run = ran("fedavg", {"fleet": FLEET, "rounds": {"max": 3}})
    other = build(merged(SMALL, {"fleet": [FLEET[0], {**FLEET[1], "presence": {"off": [[0.1, 1e6]]}}]}))
    replayed, _ = again(run, tmp_path, other=other)
    assert (replayed.parting.round, replayed.parting.why) == (0, "pi-4-0 and pi-4-1 are no longer aggregated")


def test_a_roll_call_that_finds_others_ends_it(ran, tmp_path):
    run = ran("fedavg", {"fleet": FLEET, "rounds": {"max": 3}})
    other = build(merged(SMALL, {"fleet": [FLEET[0], {**FLEET[1], "presence": {"off": [[0.0, 1e6]]}}]}))
    replayed, _ = again(run, tmp_path, other=other)
    assert replayed.parting.why == (
        "pi-4-0 and pi-4-1 are no longer selected, because other devices are online and idle"
    )


def opened(folder: Path) -> list[Any]:
    return [line for line in read_lines(folder / "events.jsonl") if line["event"] == "open"]


def before(folder: Path, t: float) -> list[Any]:
    """The timeline up to this second."""
    return [line for line in read_lines(folder / "events.jsonl") if line["t"] < t]


OWN_RULES = [
    ({"continual": {"variant": "alg1", "personal": "*"}}, DRIFT),
    (IN_TURN, {"rounds": {"max": 4, "fraction": 0.5}}),
]
OWN_NAMES = ["continual", "in-turn"]


@pytest.mark.parametrize(("algorithm", "changes"), OWN_RULES, ids=OWN_NAMES)
def test_a_rule_of_its_own_asks_on_other_links_whom_it_asks_in_a_run_there(ran, tmp_path, algorithm, changes):
    slow = [{**group, "link": SLOW_LINK} for group in FLEET]
    run, other = (ran(algorithm, {**changes, "fleet": fleet}) for fleet in (FLEET, slow))
    replayed, folder = again(run, tmp_path, Condition("slow", down=3e6 / 8, up=0.5e6 / 8, latency=0.07))
    assert replayed.parting is None
    assert_same(folder, other.folder)


@pytest.mark.parametrize(("algorithm", "changes"), OWN_RULES, ids=OWN_NAMES)
def test_among_other_devices_it_is_not_known_whom_a_rule_of_its_own_asks(ran, tmp_path, algorithm, changes):
    """Devices that round 0 does not ask go offline as it ends: up to there the replay is the run on that fleet."""
    run = ran(algorithm, {**changes, "fleet": FLEET})
    first, second = opened(run.folder)[:2]
    off = {"presence": {"off": [[second["t"] - 1e-6, 1e6]]}}
    fleet = [
        group if f"{group.get('name', group['profile'])}-0" in first["asked"] else {**group, **off} for group in FLEET
    ]
    other = ran(algorithm, {**changes, "fleet": fleet})
    assert opened(other.folder)[1]["asked"] != second["asked"]
    for anyway in (False, True):
        replayed, folder = again(run, tmp_path / str(anyway), other=other.scenario, anyway=anyway)
        assert (replayed.parting.round, replayed.parting.why) == (1, OTHERS)
        assert (replayed.failure is None) != anyway
        assert before(folder, second["t"]) == before(other.folder, second["t"])
        assert len(replayed.rows) == 1
        assert time_of(replayed, 4) is None
        assert time_to(replayed, Target("accuracy", 1.0), 4) is None


def test_a_device_that_keeps_what_it_trained_must_have_trained_in_both(ran, tmp_path):
    """The pi's upload is late in both; in the replay its training is cut as well, and it would have kept Ω."""
    slow = {**FLEET[1], "link": {"up_mbit_s": 0.01, "down_mbit_s": 8, "latency_ms": 0}}
    changes = {"fleet": [FLEET[0], slow], "rounds": {"max": 2, "deadline_s": 3.0}}
    condition = Condition("slow", down=60e3)
    fallbacks = {}
    for fallback in ("keep_last", "none"):
        run = ran({"fedcl": {"interval": 2, "fallback": fallback}}, changes)
        replayer, script = Replayer(run.scenario), read_script(run.folder)
        setting = condition.setting(replayer.own)
        links = {**setting.links, **{name: replayer.own.links[name] for name in setting.links if "phone" in name}}
        fallbacks[fallback] = replayer.replay(script, replace(setting, links=links)).parting
    assert fallbacks["none"] is None
    assert "keep what they trained" in fallbacks["keep_last"].why


@pytest.fixture(scope="module")
def results(ran, tmp_path_factory):
    """An OUT folder with two algorithms and a seed."""
    out = tmp_path_factory.mktemp("out")
    changes = {"fleet": FLEET, "rounds": {"max": 3, "targets": [{"value": 0.1}]}}
    for algorithm in ("fedavg", {"fedcurv": {}}):
        run = ran(algorithm, changes)
        copytree(run.folder, out / run.folder.name)
    algorithms = ["fedavg", {"fedcurv": {}}]
    scenario = build(merged(SMALL, {**changes, "algorithms": algorithms, "seeds": [1]}))
    (out / "scenario.yaml").write_text(dump(scenario))
    seal_results(out)
    return out


def test_the_command_keeps_what_it_replayed(fedlapse, results, tmp_path):
    done = fedlapse("replay", results, "--down", "1Mbit/s", "--up-ratio", "0.5", "--out", tmp_path / "new")
    assert done.returncode == 0, done.stderr
    assert "assumed: uplink = 0.5 x downlink" in done.stdout
    said = json.loads((tmp_path / "new" / "replay.json").read_text())
    assert [each["name"] for each in said["settings"]] == ["as recorded", "1Mbit/s"]
    assert audit_run(tmp_path / "new" / "fedavg-s1") == []


def test_each_trace_is_a_row(fedlapse, results, tmp_path):
    for name, rate in (("slow", 1), ("fast", 50)):
        (tmp_path / f"{name}.csv").write_text(
            f"time_s,down_mbit_s,up_mbit_s\n0,{rate},{rate}\n10,{rate},{rate}\n20,,\n"
        )
    traces = [tmp_path / "slow.csv", tmp_path / "fast.csv"]
    done = fedlapse("replay", results, "--down", *traces, "--out", tmp_path / "new", "--format", "json")
    said = json.loads(done.stdout)
    target, _ = said["flips"]  # and all rounds
    slow, fast = (each["times_s"][target]["fedavg"]["1"] for each in said["settings"][1:])
    assert [each["name"] for each in said["settings"][1:]] == ["slow.csv", "fast.csv"]
    assert fast < said["settings"][0]["times_s"][target]["fedavg"]["1"] < slow


def test_a_trace_that_never_changes_is_that_constant_link(ran, tmp_path):
    """Offsets and loops of a constant trace change nothing."""
    run = ran("fedavg", {"fleet": FLEET, "rounds": {"max": 3}})
    (tmp_path / "flat.csv").write_text("time_s,down_mbit_s,up_mbit_s\n0,4,2\n7,4,2\n9,,\n")
    (traced,) = links_from([str(tmp_path / "flat.csv")], Uplink())
    by_trace, _ = again(run, tmp_path / "a", traced)
    by_number, _ = again(run, tmp_path / "b", Condition("flat", down=0.5e6, up=0.25e6))
    times = [[row["time_s"] for row in replayed.rows] for replayed in (by_trace, by_number)]
    assert times[0] == pytest.approx(times[1], rel=1e-9)


def test_the_map_of_a_hint_is_drawn_without_a_range(fedlapse, results, tmp_path):
    """As the verdict says it: from 0.1 to 100 Mbit/s and from 5 to 500 ms."""
    done = fedlapse("map", results, "--points", "2", "--workers", "0", "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    cells = json.loads((tmp_path / "map.json").read_text())["cells"]
    assert [cell["uplink"] for cell in cells] == pytest.approx([12.5e3, 12.5e3, 12.5e6, 12.5e6])
    assert [cell["latency"] for cell in cells] == pytest.approx([0.005, 0.5, 0.005, 0.5])


def test_the_map_is_drawn(fedlapse, results):
    done = fedlapse(
        "map", results, "--uplink", "1..10Mbit/s", "--latency", "5..50ms", "--points", "2", "--workers", "0"
    )
    assert done.returncode == 0, done.stderr
    assert (results / "map.png").read_bytes()[:4] == b"\x89PNG"
    cells = json.loads((results / "map.json").read_text())["cells"]
    assert [(cell["uplink"], cell["latency"]) for cell in cells] == [
        (125e3, 0.005),
        (125e3, 0.05),
        (1.25e6, 0.005),
        (1.25e6, 0.05),
    ]
    assert all_of(cell["times"]["fedavg"] for cell in cells)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("replay", "RUN", "--symmetric"), "add --down TRACE"),
        (("replay", "RUN", "--down", "5Mbit/s"), "is a downlink only"),
        (("replay", "RUN", "--down", "5Mbit/s", "--symmetric", "--up-ratio", "2"), "an uplink comes from one of them"),
        (("replay", "RUN", "--down", "5Mbps", "--symmetric"), "write it as 100Mbit/s"),
        (("replay", "RUN", "--down", "nowhere.csv"), "no such file"),
        (("replay", "RUN", "--server-rate", "0Mbit/s"), "out of range"),
        (("replay", "RUN", "--fleet", "nothing"), "nothing"),
        (("replay", "RUN", "-a", "fedcl"), "the scenario has none"),
        (("replay", "nowhere"), "holds no run"),
        (("map", "RUN", "--uplink", "5Mbit/s"), "a map needs a range"),
        (("map", "RUN", "--latency", "0..5ms"), "begins above 0"),
        (("map", "RUN", "--uplink", "9..1Mbit/s"), "from the smaller to the larger"),
        (("map", "RUN", "--uplink", "1..9Mbit/s", "--target", "accuracy 0.2"), "no such target"),
        (("map", "RUN", "--uplink", "1..9Mbit/s", "-a", "fedavg"), "compares two or more"),
    ],
)
def test_a_bad_command_line_is_one_line_and_exit_code_2(fedlapse, results, arguments, said):
    done = fedlapse(*(results if each == "RUN" else each for each in arguments))
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert said in done.stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [(None, "fedavg-s1 has no work.jsonl"), ('{"device":3}\n', "work.jsonl:1 is not as `fedlapse run` writes it")],
    ids=["none", "damaged"],
)
def test_work_that_the_record_does_not_say_is_told_in_one_line(fedlapse, results, tmp_path, text, said):
    copytree(results, tmp_path / "old")
    path = tmp_path / "old" / "fedavg-s1" / "work.jsonl"
    path.unlink() if text is None else path.write_text(text)
    done = fedlapse("replay", tmp_path / "old", "--fleet", results / "scenario.yaml", "--workers", "0")
    damage, last = done.stderr.splitlines()
    assert (done.returncode, said in last) == (1, True), done.stderr
    assert "fedavg-s1/work.jsonl is" in damage


def test_a_hundred_rounds_of_ten_devices_are_replayed_in_about_a_second(tmp_path):
    """100 replays must take under a minute on 2 cores: 1.2 s of one core each."""
    fleet = [{**FLEET[0], "count": 20}, {**FLEET[1], "count": 20}]
    scenario = build(merged(SMALL, {"fleet": fleet, "rounds": {"max": 100, "fraction": 0.25}}))
    replayer = Replayer(scenario)
    bill = Bill({"train": 1e8}, {"train": 0.5})
    sizes = {"weights": 100_000, "frame": 100}
    parts = {name: DeviceScript(sizes, bill, "", up=sizes) for name in replayer.own.fleet}
    row = {"numbers": {}}
    rounds = [
        RoundScript(number, (), "", server={"combine": Served(bill)}, parts=parts, row=row) for number in range(100)
    ]
    facts = AlgorithmFacts(keeps_uncounted=False, any_cohort_will_do=True, cohort="drawn")

    def first(number):
        return tuple(Call(name, number) for name in sorted(parts)[:10])

    script = Script(Run("fedavg", 1), facts, [replace(each, counted=first(each.number)) for each in rounds])
    began = process_time()
    replayed = replayer.replay(script, replayer.own, anyway=True)
    assert [row["counted"] for row in replayed.rows] == [10] * 100
    assert process_time() - began < 1.2
