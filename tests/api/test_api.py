"""`import fedlapse`: what is loaded adds up to the record, and what is played is what the command plays."""

from __future__ import annotations

import csv
import json
import re
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import astuple, fields
from pathlib import Path
from typing import Any

import pytest

import fedlapse
from emulator.results.records import TABLES
from scenarios.load import build

pytestmark = pytest.mark.slow

TINY: dict[str, Any] = {
    "name": "tiny",
    "seeds": [1, 2],
    "fleet": [{"profile": "pi-4", "count": 3, "link": {"up_mbit_s": 4, "down_mbit_s": 4, "latency_ms": 10}}],
    "rounds": {"max": 2, "fraction": 1.0, "targets": [{"value": 0.2}]},
    "training": {"epochs": 1, "batch": 20, "lr": 0.3},
    "algorithms": ["fedavg", {"fedprox": {"mu": 0.1}}],
}
ALONE = {"workers": 0, "no_ledger": True, "quiet": True}


@pytest.fixture(scope="module", autouse=True)
def page() -> Iterator[None]:
    """report.html is a word: it takes seconds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("emulator.report.page.page", lambda results: "a page")
        yield


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> fedlapse.Loaded:
    return fedlapse.compare(TINY, out=tmp_path_factory.mktemp("api") / "out", **ALONE)


def lines(found: fedlapse.Loaded, name: str) -> list[dict[str, Any]]:
    files = sorted(found.results.folder.glob(f"*-s*/{name}"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def test_there_is_a_record_for_each_line(found: fedlapse.Loaded) -> None:
    assert len(found.rounds) == len(lines(found, "rounds.jsonl")) == 8
    assert len(found.events) == len(lines(found, "events.jsonl"))
    assert {(each.label, each.seed) for each in found.rounds} == {(a, s) for a in ("fedavg", "fedprox") for s in (1, 2)}
    assert {each.round for each in found.rounds} == {1, 2}
    assert [each.name for each in found.devices] == ["pi-4-0", "pi-4-1", "pi-4-2"] * 4
    assert found.notes == ()


def test_results_are_a_sequence_of_runs(found: fedlapse.Loaded) -> None:
    assert (len(found), found.labels, found.seeds) == (4, ["fedavg", "fedprox"], [1, 2])
    assert [(run.label, run.seed) for run in found] == [(a, s) for a in ("fedavg", "fedprox") for s in (1, 2)]
    assert [run.seed for run in found["fedprox"]] == [1, 2]
    assert [row for run in found for row in run.rounds] == found.rounds
    assert found.scenario.training.lr == 0.3
    with pytest.raises(fedlapse.Error, match="there is no algorithm 'fedpox'; there are fedavg, fedprox"):
        found["fedpox"]


def test_a_model_is_that_of_the_file(found: fedlapse.Loaded) -> None:
    """Read again by the format's own rules: a header in JSON, then little-endian numbers."""
    model = found.model("fedprox", seed=2)
    raw = (found.results.folder / "fedprox-s2" / "final.safetensors").read_bytes()
    size = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + size])
    for name, value in model.items():
        begin, end = header[name]["data_offsets"]
        assert value.numpy().tobytes() == raw[8 + size + begin : 8 + size + end]
    with pytest.raises(fedlapse.Error, match="fedprox has seeds 1, 2; give one of them"):
        found.model("fedprox")


def test_targets_are_those_of_the_summary(found: fedlapse.Loaded) -> None:
    assert len(found.targets) == 4
    for row in found.targets:
        (of,) = found.summary["labels"][row.label]["targets"].values()
        at = of["seeds"][str(row.seed)]
        assert row.reached is (at is not None)
        assert (row.metric, row.value, row.hold) == ("accuracy", 0.2, 1)
        if at is None:
            assert [row.time_s, row.rounds, row.bytes_down, row.bytes_up, row.joules] == [None] * 5
        else:
            assert row.bytes_down is not None
            assert row.bytes_up is not None
            total = row.bytes_down + row.bytes_up
            assert {"time_s": row.time_s, "rounds": row.rounds, "bytes": total, "joules": row.joules} == at
    assert any(row.reached for row in found.targets)


def test_settings_are_those_of_the_scenario(found: fedlapse.Loaded) -> None:
    first = found.settings[0].values
    assert [first[f"training.{name}"] for name in ("lr", "epochs", "batch")] == [0.3, 1, 20]
    assert (first["algorithm"], first["fleet.pi-4.count"], first["fleet.pi-4.link.up_mbit_s"]) == ("fedavg", 3, 4.0)
    assert [row.values.get("options.mu") for row in found.settings] == [None, None, 0.1, 0.1]


def test_several_folders_are_loaded_together(found: fedlapse.Loaded, tmp_path: Path) -> None:
    polars = pytest.importorskip("polars", reason="NO POLARS: frames are not tested")
    one = {**TINY, "seeds": [1], "algorithms": ["fedavg"]}
    for number, lr in enumerate((0.1, 0.2)):
        fedlapse.compare(one, training={"lr": lr}, rounds={"max": 1}, out=tmp_path / f"sweep-{number}", **ALONE)
    both = fedlapse.load(tmp_path / "sweep-*")
    assert [(run.folder.parent.name, run.seed) for run in both] == [("sweep-0", 1), ("sweep-1", 1)]
    assert [row.values["training.lr"] for row in both.settings] == [0.1, 0.2]
    frame = both.frame("rounds", "polars")
    assert frame["training.lr"].to_list() == [0.1, 0.2]
    assert [Path(folder).name for folder in frame["folder"]] == ["sweep-0", "sweep-1"]
    names = {each.name for each in fields(TABLES["rounds"])} - {"values"}  # those of other metrics
    assert set(frame.columns) == {"folder", "training.lr", *names}
    assert frame.equals(fedlapse.load(tmp_path / "sweep-0", tmp_path / "sweep-1", frames="polars").rounds)
    assert isinstance(frame, polars.DataFrame)
    assert both.plot("accuracy-time").to_dict()["title"]["text"]
    with pytest.raises(fedlapse.Error, match="these are the results of 2 folders"):
        _ = both.verdict
    with pytest.raises(fedlapse.Error, match="no folder matches .*nothing-"):
        fedlapse.load(tmp_path / "nothing-*")


def test_changes_may_be_named() -> None:
    said = fedlapse.check(TINY, training={"lr": 0.1, "epochs": 2}, rounds={"max": 7}, workers=0)
    alike = fedlapse.check(TINY, "training.lr=0.1", "training.epochs=2", "rounds.max=7", workers=0)
    other = fedlapse.check(TINY, workers=0)
    assert said | {"effort": None} == alike | {"effort": None} != other | {"effort": None}  # that is measured anew


def test_transfers_carry_the_bytes_of_the_rounds(found: fedlapse.Loaded) -> None:
    carried: Counter[tuple[str, int, int, str]] = Counter()
    for each in found.transfers:
        assert each.whole
        assert each.end_s is not None
        assert each.end_s >= each.start_s
        carried[each.label, each.seed, each.round, each.way] += each.bytes
    for row in found.rounds:
        at = (row.label, row.seed, row.round)
        assert (carried[*at, "down"], carried[*at, "up"]) == (row.bytes_down, row.bytes_up)
        parts = (row.setup_s, row.down_s, row.compute_s, row.up_s, row.server_s, row.wait_s)
        before = next((r.time_s for r in found.rounds if (r.label, r.seed, r.round) == (*at[:2], row.round - 1)), 0.0)
        assert sum(parts) == pytest.approx(row.time_s - before)


def test_of_transfers_that_are_cut_what_they_carried_counts(tmp_path: Path) -> None:
    """A deadline cuts the slow device's upload in each round."""
    slow = {"name": "slow", "profile": "phone-low", "count": 1, "link": {"up_mbit_s": 0.1, "down_mbit_s": 8}}
    changed = {**TINY, "seeds": [1], "fleet": [*TINY["fleet"], slow], "algorithms": ["fedavg"]}
    changed["rounds"] = {**TINY["rounds"], "deadline_s": 4}
    found = fedlapse.compare(changed, out=tmp_path / "out", **ALONE)
    assert any(not each.whole for each in found.transfers)
    for row in found.rounds:
        carried = [each.bytes for each in found.transfers if (each.round, each.way) == (row.round, "up")]
        assert sum(carried) == row.bytes_up
    rows = found.results.folder / "fedavg-s1" / "rounds.jsonl"
    rows.write_bytes(rows.read_bytes().replace(b"0", b"1", 1))
    with pytest.raises(fedlapse.Error, match=r"rounds\.jsonl"):
        fedlapse.load(found.results.folder)


def test_it_says_in_a_line_what_it_is(found: fedlapse.Loaded) -> None:
    text = str(found)
    assert text == repr(found)
    assert text.startswith(f"<{found.results.folder}: fedavg, fedprox; ")
    assert "plot()" in text
    assert len(text.splitlines()) == 1


def test_the_verdict_is_that_of_the_summary(found: fedlapse.Loaded) -> None:
    said = json.loads((found.results.folder / "summary.json").read_text())
    due = [*said["verdict"], *said["why"]]
    assert [line.strip() for line in found.verdict.splitlines()[: len(due)]] == due
    assert found.summary["digest"] == said["digest"]


def test_frames_have_the_same_numbers_and_concatenate(found: fedlapse.Loaded) -> None:
    polars = pytest.importorskip("polars", reason="NO POLARS: frames are not tested")
    frame = found.frame("rounds", "polars")
    assert frame["bytes_up"].sum() == sum(each.bytes_up for each in found.rounds)
    assert len(polars.concat([frame, fedlapse.load(found.results.folder).frame("rounds", "polars")])) == 16
    assert found.frame("transfers", "polars").columns[:3] == ["label", "seed", "round"]


def test_load_gives_frames_of_the_library_that_is_asked_for(found: fedlapse.Loaded) -> None:
    polars = pytest.importorskip("polars", reason="NO POLARS: frames are not tested")
    pandas = pytest.importorskip("pandas", reason="NO PANDAS: frames are not tested")
    of = found.results.folder
    for table in TABLES:
        assert isinstance(getattr(fedlapse.load(of, frames="pandas"), table), pandas.DataFrame)
        assert isinstance(getattr(fedlapse.load(of, frames="polars"), table), polars.DataFrame)
    framed = fedlapse.load(of, frames="polars")
    assert [(*row, {}) for row in framed.rounds.rows()] == [astuple(each) for each in found.rounds]
    assert framed.frame("rounds").equals(framed.rounds)
    assert isinstance(framed.frame("rounds", "pandas"), pandas.DataFrame)
    assert framed.verdict == found.verdict


def test_a_library_that_is_not_there_is_one_line(found: fedlapse.Loaded, monkeypatch: pytest.MonkeyPatch) -> None:
    for missing in ("polars", "narwhals"):
        monkeypatch.setitem(sys.modules, missing, None)
        with pytest.raises(fedlapse.Error, match=rf"^{missing} is not installed; pip install 'fedlapse\[frames\]'$"):
            fedlapse.load(found.results.folder, frames="polars")
    with pytest.raises(fedlapse.Error, match="narwhals is not installed"):
        fedlapse.compare("no-such-scenario", frames="polars")  # told before anything is played


def test_devices_add_up_to_the_rounds(found: fedlapse.Loaded) -> None:
    """Seconds of rounds.jsonl, which are counted apart from the timeline, and what summary.json has of whole runs."""
    for label, seed in {(each.label, each.seed) for each in found.rounds}:
        mine = [each for each in found.devices if (each.label, each.seed) == (label, seed)]
        rounds = [each for each in found.rounds if (each.label, each.seed) == (label, seed)]
        for name in ("asked", "counted", "bytes_down", "bytes_up"):
            assert sum(getattr(each, name) for each in mine) == sum(getattr(each, name) for each in rounds)
        text = (found.results.folder / f"{label}-s{seed}" / "rounds.jsonl").read_text()
        rows = [json.loads(line) for line in text.splitlines()]
        busy = sum(row["seconds"]["useful"] + row["seconds"]["wasted"] for row in rows)
        assert sum(each.compute_s + each.transfer_s for each in mine) == pytest.approx(busy)
        assert sum(each.wait_s or 0 for each in mine) == pytest.approx(sum(row["seconds"]["idle"] for row in rows))
    for label, said in found.summary["labels"].items():
        for name, joules in said["joules_of_devices"].items():
            each = [device.joules for device in found.devices if (device.label, device.name) == (label, name)]
            assert sum(value or 0 for value in each) / 2 == pytest.approx(joules)


def test_a_mapping_and_a_file_are_played_alike(found: fedlapse.Loaded, tmp_path: Path) -> None:
    path = tmp_path / "tiny.yaml"
    path.write_text(json.dumps(TINY))
    again = fedlapse.compare(path, out=tmp_path / "again", **ALONE)
    assert again.summary["digest"] == found.summary["digest"]


def test_changes_options_check_and_replay(found: fedlapse.Loaded, tmp_path: Path) -> None:
    plan = fedlapse.check(build(TINY), "rounds.max=1", workers=0)
    assert plan["groups"]
    said = fedlapse.replay(found.results.folder, down=["1Mbit/s", "8Mbit/s"], symmetric=True, out=tmp_path / "replay")
    assert len(said["settings"]) == 3


def test_a_fleet_to_replay_on_may_be_a_mapping(found: fedlapse.Loaded, tmp_path: Path) -> None:
    """Links of 2 Mbit/s take the same seconds whether a fleet has them or they are named as rates."""
    slow = {"up_mbit_s": 2, "down_mbit_s": 2, "latency_ms": 10}
    fleet = {**TINY, "fleet": [{**TINY["fleet"][0], "link": slow}]}
    on_fleet, on_rates = (
        fedlapse.replay(found.results.folder, **on, algorithm="fedavg", out=tmp_path / str(number))["settings"]
        for number, on in enumerate([{"fleet": fleet}, {"down": "2Mbit/s", "symmetric": True}])
    )
    assert on_fleet[0]["times_s"] == on_rates[0]["times_s"] != on_fleet[1]["times_s"]
    assert on_fleet[1]["times_s"] == on_rates[1]["times_s"]
    with pytest.raises(
        fedlapse.Error, match=r"^scenario: fleet\.0\.count: it must be greater than or equal to 1, not 0$"
    ):
        fedlapse.replay(found.results.folder, fleet={**fleet, "fleet": [{**fleet["fleet"][0], "count": 0}]})


def test_what_is_wrong_is_told_as_on_the_command_line(
    found: fedlapse.Loaded, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(fedlapse.Error) as told:
        fedlapse.compare({**TINY, "training": {"lr": -1, "batc": 3}}, workers=0)
    assert set(str(told.value).splitlines()) == {
        "scenario: training.lr: it must be greater than 0, not -1",
        "scenario: training.batc: unknown key 'batc'; did you mean batch?",
    }
    with pytest.raises(fedlapse.Error, match=r"^cannot read tiny\.yaml: No such file or directory; [^\n]*$"):
        fedlapse.compare("tiny.yaml", workers=0)
    assert capsys.readouterr().err == ""  # it is told once
    with pytest.raises(fedlapse.Error, match="holds no results"):
        fedlapse.load(tmp_path)
    with pytest.raises(fedlapse.Error, match="there is no chart 'pie'; there are "):
        found.plot("pie")
    with pytest.raises(fedlapse.Error, match="there is no table 'round'; there are targets, settings, rounds, "):
        found.frame("round")  # type: ignore[arg-type]
    with pytest.raises(fedlapse.Error, match="there is no library 'excel'; there are pandas, "):
        found.frame("rounds", "excel")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"workrs": 2}, "there is no option 'workrs'; did you mean workers?"),
        ({"workers": -1}, "workers: it must be at least 0, not -1"),
        ({"workers": 2000}, "workers: it must be at most 1024, not 2000"),
        ({"executor": "threads"}, "executor: it should be 'processes' or 'ray', not 'threads'"),
        ({"ledger": 3}, "ledger: it's not a path"),
    ],
)
def test_an_option_is_looked_at_as_on_the_command_line(options: dict[str, Any], said: str) -> None:
    with pytest.raises(fedlapse.Error) as told:
        fedlapse.compare(TINY, **options)
    assert said in str(told.value) or (said.startswith("ledger: ") and str(told.value).startswith("ledger: "))


def test_one_algorithm_is_played_as_run_does(found: fedlapse.Loaded, tmp_path: Path) -> None:
    """Its records are those of `compare`, byte for byte."""
    one = fedlapse.run(TINY, algorithm="fedprox", out=tmp_path / "one", **ALONE)
    for seed in (1, 2):
        name = f"fedprox-s{seed}/events.jsonl"
        assert (one.results.folder / name).read_bytes() == (found.results.folder / name).read_bytes()
    with pytest.raises(fedlapse.Error, match="--algorithm fedyogi: the scenario has none of that name"):
        fedlapse.run(TINY, algorithm="fedyogi", **ALONE)


def test_an_audit_and_a_map_are_those_of_the_commands(found: fedlapse.Loaded, tmp_path: Path) -> None:
    audited = fedlapse.audit(found.results.folder)
    assert len(audited) == 5  # the folder, and four runs
    assert [each["faults"] for each in audited.values()] == [[]] * 5
    drawn = fedlapse.map(found.results.folder, uplink="1..4Mbit/s", points=2, out=tmp_path)
    assert drawn == json.loads((tmp_path / "map.json").read_text())
    assert drawn["axes"]["uplink"] == pytest.approx([125_000, 500_000])


@pytest.mark.parametrize("search", [fedlapse.tune, fedlapse.study])
def test_a_search_needs_a_scenario_that_says_what_is_tried(search: Any, tmp_path: Path) -> None:
    with pytest.raises(fedlapse.Error, match="the scenario has no `(tune|study):`"):
        search(TINY, out=tmp_path / "out", **ALONE)
    assert not (tmp_path / "out").exists()


def test_what_no_round_can_meet_is_an_error() -> None:
    with pytest.raises(fedlapse.Error, match=r"^scenario: rounds\.deadline_s: it is 0\.01, but fedprox needs at least"):
        fedlapse.check({**TINY, "rounds": {"max": 2, "deadline_s": 0.01}}, workers=0)


def test_a_chart_is_that_of_the_report(found: fedlapse.Loaded) -> None:
    spec = found.plot("accuracy-time").to_dict()
    assert spec["name"] == "accuracy-time"
    assert spec["title"]["text"]
    assert isinstance(spec["width"], int)  # and not that of the report's column


@pytest.mark.parametrize(
    ("size", "points"), [({"width": 84}, (238.1, 178.6)), ({"height": 50, "font": "serif"}, (238.1, 141.7))]
)
def test_a_chart_for_print_is_as_large_as_asked(
    found: fedlapse.Loaded, tmp_path: Path, size: dict[str, Any], points: tuple[float, float]
) -> None:
    """An inch has 25.4 mm and 72 points."""
    chart = found.plot("accuracy-time", **size)
    chart.save(tmp_path / "fig.pdf")
    (box,) = re.findall(rb"/MediaBox \[0 0 ([\d.]+) ([\d.]+)\]", (tmp_path / "fig.pdf").read_bytes())
    assert tuple(map(float, box)) == pytest.approx(points, abs=0.1)
    spec = chart.to_dict()
    assert spec["config"]["axis"]["labelFontSize"] == 8
    assert spec["config"].get("font") == size.get("font")
    assert found.plot("accuracy-time").to_dict()["config"]["axis"]["labelFontSize"] == 12


def test_tables_as_files(found: fedlapse.Loaded, tmp_path: Path) -> None:
    for form in ("csv", "parquet"):
        assert fedlapse.export(found.results.folder, format=form, out=tmp_path / form) == tmp_path / form  # type: ignore[arg-type]
    with (tmp_path / "csv" / "rounds.csv").open() as file:
        read = list(csv.DictReader(file))
    assert [int(row["bytes_up"]) for row in read] == [each.bytes_up for each in found.rounds]
    polars = pytest.importorskip("polars", reason="NO POLARS: parquet is not tested")
    again = polars.read_parquet(tmp_path / "parquet" / "transfers.parquet")
    assert again["bytes"].to_list() == [each.bytes for each in found.transfers]


def test_import_is_cheap() -> None:
    code = "import sys, fedlapse; print(sorted({'torch', 'numpy', 'altair', 'polars', 'pydantic'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout == "[]\n"


def test_the_page_runs_as_it_is_read(
    tmp_path: Path, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    """docs/python.md: its block of Python, and the commands after it; of its words on results, each exists."""
    page = (Path(__file__).parents[2] / "docs" / "python.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    quick = block.replace('"seeds=[1]"', '"seeds=[1]", "training.epochs=1", "training.batch=64"')
    command = request.getfixturevalue("fedlapse")  # it plays in tmp_path
    exec(quick, {"__name__": "results"})
    assert "accuracy 0.8" in capsys.readouterr().out
    for line in re.findall(r"^\$ fedlapse (.*?)(?: +#.*)?$", page, re.MULTILINE):
        assert command(*shlex.split(line)).returncode == 0
    assert (tmp_path / "runs" / "from-python-tables" / "rounds.csv").is_file()
    for name in ("verdict", "summary", *TABLES, "frame", "plot", "notes", "labels", "seeds", "scenario", "model"):
        assert f"`{name}" in page
    for field in TABLES:
        for each in fields(TABLES[field]):
            assert f"`{each.name}`" in page, each.name
