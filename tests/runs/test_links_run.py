"""Whole runs on links of all kinds: TCP, recordings, radios, and access points that devices share."""

import asyncio
import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.compute.executors import Processes
from emulator.forecast.rehearsal import Understudy
from emulator.lab.build import lab_of
from emulator.lab.seeds import share
from emulator.play.conduct import Conduct
from emulator.play.over_sockets import run_sockets
from emulator.play.run import run_virtual
from emulator.record.lines import read_lines
from emulator.record.run import Run
from emulator.replay.replayer import Replayer
from emulator.replay.script import read_script
from network.links.synth import presets
from scenarios.load import build, dump
from tests.all_of import all_of
from tests.conftest import SMALL, audit_run, merged
from tests.runs.lateness import with_lateness

pytestmark = pytest.mark.slow

TOPOLOGY = {
    "dsl": {"up_mbit_s": 6, "down_mbit_s": 20},
    "ap": {"airtime": True, "behind": "dsl"},
    "cell": {"up_mbit_s": 8, "down_mbit_s": 12, "buffer_kb": 60},
    "mast": {"trace": {"down": "walk.csv"}},
}
PHONES = {"profile": "phone-mid", "count": 2}
PIS = {"profile": "pi-4", "count": 3}
ON_WIFI = {"up_mbit_s": 20, "down_mbit_s": 40, "latency_ms": 15, "via": ["ap", "cell"]}
TRACE = "time_s,down_mbit_s,up_mbit_s,latency_ms\n0,12,6,20\n0.4,3,2,50\n0.9,0,0,50\n1.1,20,9,30\n1.6,,,\n"
ALONE = "time_s,down_mbit_s,latency_ms\n0,12,20\n0.4,3,50\n0.9,0,50\n1.1,20,30\n1.6,,\n"
ACHIEVED = "# kind: achieved\ntime_s,down_mbit_s\n0,9\n0.3,4\n1,\n"


@pytest.fixture
def traced(tmp_path, monkeypatch):
    """Files of traces in the folder from which runs start."""
    (tmp_path / "walk.csv").write_text(TRACE)
    (tmp_path / "alone.csv").write_text(ALONE)
    (tmp_path / "log.csv").write_text(ACHIEVED)
    (tmp_path / "lte.down").write_text("\n".join(map(str, range(1, 800))))
    (tmp_path / "lte.up").write_text("\n".join(map(str, range(2, 700, 2))))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def scenario(one, other, algorithm="fedavg", off=(), **changes):
    """Phones on the first link, Pis on the second; these may be offline."""
    fleet = [{**PHONES, "link": one}, {**PIS, "link": other, "presence": {"off": off}}]
    more = {"network": {"model": "tcp"}, "topology": TOPOLOGY, "fleet": fleet, "algorithms": [algorithm], "seeds": [1]}
    return build(merged(SMALL, merged({**more, "evaluate": {"every": 0}}, changes)))


def test_over_sockets_a_run_has_the_same_weights_and_nearly_the_same_seconds(traced, capsys):
    mixed = scenario({"trace": {"down": "walk.csv"}}, ON_WIFI | {"via": ["ap", "cell", "mast"]}, rounds={"max": 3})
    lab, run, conduct = lab_of(mixed), Run("fedavg", 1), Conduct.of(mixed)

    async def played(pool, world, name):
        return await world(lab, run, conduct, pool, traced / name / "fedavg-s1")

    with Processes(lab, 1) as pool:
        virtual = asyncio.run(played(pool, run_virtual, "virtual"))
        sockets, late = asyncio.run(with_lateness(played(pool, run_sockets, "sockets")))
    folders = [traced / name / "fedavg-s1" for name in ("virtual", "sockets")]
    assert [audit_run(folder) for folder in folders] == [[], []]
    models = [(folder / "final.safetensors").read_bytes() for folder in folders]
    assert models[0] == models[1]
    assert [row["bytes"] for row in sockets.rows] == [row["bytes"] for row in virtual.rows]
    wires = [
        sorted((line["round"], line["device"], line["event"], line["wire"]) for line in lines if "wire" in line)
        for lines in (read_lines(folder / "events.jsonl") for folder in folders)
    ]
    assert wires[0] == wires[1]
    assert len(wires[0]) == 2 * 5 * 3
    took, predicted = sockets.rows[-1]["time_s"], virtual.rows[-1]["time_s"]
    with capsys.disabled():
        print(
            f"\ntcp, topology and trace: sockets {took:.2f} s, virtual {predicted:.2f} s, "
            f"{took / predicted - 1:+.2%}, {late:.2f} s late"
        )
    if not sockets.overruns:
        assert 0.92 * predicted < took < 1.08 * predicted + late


def test_timelines_on_radios_are_the_same_for_any_number_of_workers(fedlapse, tmp_path):
    (tmp_path / "walk.csv").write_text(TRACE)
    fleet = [{**PHONES, "link": {"radio": "3g-driving"}}, {**PIS, "link": ON_WIFI}]
    mixed = merged(SMALL, {"network": {"model": "tcp"}, "topology": TOPOLOGY, "fleet": fleet})
    algorithms = ["fedavg", {"fedcl": {"interval": 2}}]
    said = {**mixed, "seeds": [1, 2], "algorithms": algorithms, "evaluate": {"every": 0}}
    (tmp_path / "s.yaml").write_text(json.dumps(said))
    found = {}
    for workers in (0, 2):
        done = fedlapse("compare", "s.yaml", "--workers", workers, "-q", "--out", f"w{workers}")
        assert done.returncode == 0, done.stderr
        out = tmp_path / f"w{workers}"
        found[workers] = {file.relative_to(out): file.read_bytes() for file in sorted(out.glob("*/*.jsonl"))}
        found[workers]["digest"] = json.loads((out / "summary.json").read_text())["digest"]
    assert len(found[0]) == 4 * 3 + 1
    assert found[0] == found[2]


LINKS = {
    "radios": ({"radio": "lte-driving"}, ON_WIFI),
    "outages": ({"radio": "3g-driving"}, {"radio": "lte-walking", "latency_ms": 5}),
    "traces": ({"trace": {"down": "walk.csv"}}, {"trace": {"down": "lte", "capacity": "cell"}, "via": "cell"}),
    "achieved": ({"trace": {"down": "log.csv", "up_ratio": 0.3}, "latency_ms": 30}, ON_WIFI),
    "mast": ({"up_mbit_s": 4, "down_mbit_s": 9, "via": "mast"}, ON_WIFI | {"via": "mast"}),
    "lossy": ({"up_mbit_s": 8, "down_mbit_s": 8, "latency_ms": 60, "loss": 0.01}, {**ON_WIFI, "model": "lv08"}),
}


@pytest.mark.parametrize("congestion", ["cubic", "bbr"])
@pytest.mark.parametrize("name", LINKS)
def test_a_replay_on_its_own_links_is_the_run_byte_for_byte(play, traced, name, congestion):
    changes = {"rounds": {"max": 3, "fraction": 0.6, "ask": 4}, "network": {"congestion": congestion}}
    said = scenario(*LINKS[name], algorithm={"fedcl": {"interval": 2}}, **changes)
    raw = said.model_dump(mode="json", exclude={"algorithms", "seeds", "name", "small"})
    run = play({"fedcl": {"interval": 2}}, **raw)
    again = build({**raw, "name": "x", "seeds": [1], "algorithms": [{"fedcl": {"interval": 2}}]})
    replayer = Replayer(again)
    replayed = replayer.replay(read_script(run.folder), replayer.own, traced / "again")
    assert (replayed.parting, replayed.assumed) == (None, 0)
    assert (traced / "again" / "events.jsonl").read_bytes() == (run.folder / "events.jsonl").read_bytes()


def test_seeds_see_other_places_of_a_recording_and_algorithms_the_same(play, traced):
    """Replays start at a random offset per device and seed."""
    raw = scenario({"trace": {"down": "walk.csv"}}, ON_WIFI).model_dump(
        mode="json", exclude={"algorithms", "seeds", "name", "small"}
    )
    ends = {
        (algorithm, seed): [
            line["t"] for line in play(algorithm, seed=seed, **raw).of("down.end", round=0, device="phone-mid-0")
        ]
        for algorithm in ("fedavg", "fedprox")
        for seed in (1, 2)
    }
    assert ends["fedavg", 1] == ends["fedprox", 1] != ends["fedavg", 2] == ends["fedprox", 2]


def test_lv08_is_simgrids_formula_in_every_transfer_of_a_run(play):
    """13.01 latencies, then the bytes at 0.97/1.05 of the rate; one device, so nobody shares."""
    link = {"up_mbit_s": 2, "down_mbit_s": 8, "latency_ms": 10}
    run = play(fleet=[{"profile": "pi-4", "link": link}], network={"model": "lv08"})
    for way, rate in (("down", 1e6), ("up", 0.25e6)):
        for start, end in zip(run.of(f"{way}.start"), run.of(f"{way}.end"), strict=True):
            seconds = 13.01 * 0.01 + sum(start["bytes"].values()) / (rate * 0.97 / 1.05)
            assert end["t"] - start["t"] == pytest.approx(seconds, rel=1e-9)
            assert not {"setup", "wire"} & start.keys()


def test_the_critical_path_has_the_set_up_by_itself(play):
    """Two cold round trips and a half go before the first download's own half; later ones find a connection."""
    link = {"up_mbit_s": 2, "down_mbit_s": 8, "latency_ms": 40}
    run = play(fleet=[{"profile": "pi-4", "link": link}], network={"model": "tcp"})
    first, second = (row["critical"] for row in run.rounds)
    assert first["setup_s"] == pytest.approx(2.5 * 0.08)
    assert second["setup_s"] == pytest.approx(0.0, abs=0.09)  # a poll at most
    assert run.of("down.start", round=0)[0]["setup"] == pytest.approx(2.5 * 0.08)


def test_an_upload_and_a_download_share_one_air_in_a_run(play):
    """Both have half of the time, whichever way they send; so the slow one waits for all that the fast one sends."""
    rates = {"fast": {"up_mbit_s": 40, "down_mbit_s": 80}, "slow": {"up_mbit_s": 8, "down_mbit_s": 0.02}}
    fleet = [
        {"name": name, "profile": "pi-4", "link": {**link, "latency_ms": 0, "via": "ap"}}
        for name, link in rates.items()
    ]
    run = play(fleet=fleet, topology={"ap": {"airtime": True}}, server={"link": {"latency_ms": 0}})
    took, alone = {}, {}
    for way, rate in (("down", "down_mbit_s"), ("up", "up_mbit_s")):
        for start, end in zip(run.of(f"{way}.start", round=0), run.of(f"{way}.end", round=0), strict=True):
            name = start["device"].removesuffix("-0")
            took[name, way] = end["t"] - start["t"]
            alone[name, way] = sum(start["bytes"].values()) * 8 / (rates[name][rate] * 1e6)
    for way in ("down", "up"):
        assert took["fast", way] == pytest.approx(2 * alone["fast", way])
    lost = alone["fast", "down"] + alone["fast", "up"]
    assert took["slow", "down"] == pytest.approx(alone["slow", "down"] + lost, rel=1e-9)
    assert took["slow", "up"] == pytest.approx(alone["slow", "up"])


# --- any links

rates = st.sampled_from([0.2, 1.0, 8.0, 300.0])
numbers = st.fixed_dictionaries({"up_mbit_s": rates, "down_mbit_s": rates})
kinds = st.one_of(
    numbers,
    st.fixed_dictionaries({"radio": st.sampled_from(sorted(presets()))}),
    st.sampled_from([{"trace": {"down": name}} for name in ("walk.csv", "lte")]),
    st.sampled_from([{"trace": {"down": "log.csv", **more}} for more in ({"symmetric": True}, {"up_ratio": 0.1})]),
)
behind = st.sampled_from([{}, {"via": "ap"}, {"via": ["cell", "dsl"]}, {"via": ["mast", "cell"]}])
further = st.fixed_dictionaries(
    {},
    optional={
        "latency_ms": st.sampled_from([0, 3, 80, 700]),
        "loss": st.sampled_from([0.001, 0.2]),
        "model": st.sampled_from(["ideal", "tcp", "lv08"]),
    },
)
links = st.one_of(
    st.tuples(kinds, further).map(lambda parts: parts[0] | parts[1]),
    st.tuples(numbers, further, behind).map(lambda parts: parts[0] | parts[1] | parts[2]),
)
networks = st.fixed_dictionaries(
    {"model": st.just("tcp")},
    optional={
        "congestion": st.sampled_from(["cubic", "reno", "bbr"]),
        "keep_alive": st.booleans(),
        "idle_reset": st.booleans(),
        "tls": st.sampled_from([0, 1, 2]),
        "window_mb": st.sampled_from([0.01, 4]),
        "ethernet": st.booleans(),
    },
)
conducts = st.sampled_from(
    [
        {"fraction": 1.0},
        {"fraction": 0.5, "ask": 4},
        {"fraction": 1.0, "deadline_s": 40.0, "stragglers": "finish"},
        {"fraction": 0.5, "ask": 5, "deadline_s": 25.0},
    ]
)
absences = st.sampled_from([[], [[0.3, 2.0]], [[1.0, 1.5], [3.0, 9.0]]])


@settings(max_examples=30, deadline=None, derandomize=True)
@given(one=links, other=links, network=networks, rounds=conducts, off=absences, seed=st.integers(0, 9))
def test_a_run_on_any_links_obeys_the_laws(tmp_path_factory, one, other, network, rounds, off, seed):
    folder = tmp_path_factory.mktemp("any")
    for name, text in (("walk.csv", TRACE), ("log.csv", ACHIEVED), ("lte.down", "1\n5\n9\n"), ("lte.up", "4\n9\n")):
        (folder / name).write_text(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        changes = {"network": network, "rounds": {"max": 3, **rounds}, "fleet_seed": seed}
        said = scenario(one, other, off=off, **changes)
        lab, run = lab_of(said), Run("fedavg", 1)
        asyncio.run(run_virtual(lab, run, Conduct.of(said), Understudy(lab, run), folder / "fedavg-s1"))
    assert audit_run(folder / "fedavg-s1") == []
    starts = [
        line
        for line in read_lines(folder / "fedavg-s1" / "events.jsonl")
        if line["event"] in ("down.start", "up.start")
    ]
    assert all_of(line.get("wire", 10**9) >= sum(line["bytes"].values()) for line in starts)


def test_a_resolved_scenario_with_all_kinds_of_links_reads_back_as_the_same(traced):
    for pair in LINKS.values():
        said = scenario(*pair)
        (traced / "s.yaml").write_text(dump(said))
        again = build({**said.model_dump(mode="json"), "algorithms": ["fedavg"]})
        assert again == said


# --- what commands say of it


def written(folder, *links, **changes):
    """s.yaml with these links, in this folder."""
    said = scenario(*links, **{"evaluate": {"every": 1}, "rounds": {"targets": [{"value": 0.1}]}, **changes})
    (folder / "s.yaml").write_text(dump(said))


def test_check_tells_assumptions_means_and_recordings_that_are_too_short(fedlapse, traced):
    walk = {"trace": {"down": "alone.csv", "up_ratio": 0.2}}
    written(traced, walk, {"radio": "lte-driving"}, rounds={"max": 60})
    done = fedlapse("check", "s.yaml", "--workers", "0")
    assert done.returncode == 0, done.stderr
    assert "phone-mid: their uplink is taken to be 0.2 x the recorded downlink" in done.stderr
    assert "phone-mid: a trace of 1.6 s starts over" in done.stderr
    assert "pi-4: a recording" not in done.stderr  # an hour
    # by hand: (12 x 0.4 + 3 x 0.5 + 20 x 0.5) / 1.6 s down, a fifth of it up; latency (20 x .4 + 50 x .7 + 30 x .5)/1.6
    plan = json.loads(fedlapse("check", "s.yaml", "--workers", "0", "--format", "json").stdout)
    (phones,) = [group for group in plan["groups"] if group["name"] == "phone-mid"]
    assert phones["down"]["low"] == phones["down"]["high"] == pytest.approx(16.3 / 1.6 * 1e6 / 8)
    assert phones["up"]["low"] == pytest.approx(16.3 / 1.6 * 1e6 / 8 * 0.2)
    assert phones["latency"]["low"] == pytest.approx(0.058 / 1.6)
    assert phones["repeats"] == pytest.approx(1.6)
    assert any("starts over" in warning for warning in plan["warnings"])
    assert re.search(r"~10.2 +~2.04 ", done.stdout)
    assert "~ marks the mean of a varying rate" in " ".join(done.stdout.split())


@pytest.mark.pages
def test_compare_stores_and_reports_what_was_assumed_and_how_often_a_recording_looped(fedlapse, traced):
    written(traced, {"trace": {"down": "alone.csv", "symmetric": True}}, ON_WIFI)
    done = fedlapse("compare", "s.yaml", "--workers", "0", "-q", "--out", "o")
    assert done.returncode == 0, done.stderr
    assert "links: phone-mid: their uplink is taken to be as fast as the recorded downlink" in done.stderr
    said = json.loads((traced / "o" / "summary.json").read_text())["links"]
    length = json.loads((traced / "o" / "fedavg-s1" / "rounds.jsonl").read_text().splitlines()[-1])["time_s"]
    names = {"phone-mid-0": "alone.csv", "phone-mid-1": "alone.csv", "mast": "walk.csv"}
    begun, name = max((1.6 * share(1, "trace", who), file) for who, file in names.items())
    assert (said["loops"], said["trace"]) == (int((length + begun) // 1.6), name)
    assert said["loops"] > 0
    page = (traced / "o" / "report.html").read_text()
    assert f"The trace {name} repeats {said['loops']} time" in page
    assert "taken to be as fast as the recorded downlink" in page
    shown = fedlapse("report", "o", "--format", "markdown").stdout
    assert "taken to be as fast" in shown
    assert f"repeats {said['loops']} time" in shown
    both = fedlapse("report", "o", "o", "--format", "markdown").stdout
    assert "o#1: phone-mid: their uplink" in both


@pytest.mark.pages
def test_a_map_of_a_folder_is_in_its_report_until_the_results_change(fedlapse, traced):
    written(traced, *LINKS["radios"])
    for algorithms in ("algorithms=[fedavg, fedprox]", "algorithms=[fedprox, fedavg]"):
        changes = (algorithms, "rounds.max=1", "--workers", "0", "-q", "--out", "o", "--force")
        assert fedlapse("compare", "s.yaml", *changes).returncode == 0
        assert 'id="figure-map"' not in (traced / "o" / "report.html").read_text()
        done = fedlapse("map", "o", "--uplink", "1..10Mbit/s", "--points", "2", "--workers", "0")
        assert done.returncode == 0, done.stderr
        assert fedlapse("report", "o", "--png").returncode == 0
        page = (traced / "o" / "report.html").read_text()
        assert 'id="figure-map"' in page
        assert 'href="#map"' in page
        assert (traced / "o" / "charts" / "map.png").read_bytes()[:4] == b"\x89PNG"


def test_a_map_moves_latencies_that_a_recording_has_too(fedlapse, traced):
    written(traced, {"trace": {"down": "walk.csv", "symmetric": True}}, {"trace": {"down": "walk.csv"}})
    assert (
        fedlapse("compare", "s.yaml", "algorithms=[fedavg, fedprox]", "--workers", "0", "-q", "--out", "o").returncode
        == 0
    )
    done = fedlapse("map", "o", "--latency", "1..400ms", "--points", "2", "--workers", "0", "--format", "json")
    near, far = (cell["times"]["fedavg"] for cell in json.loads(done.stdout)["cells"])
    assert far > near + 1.0
