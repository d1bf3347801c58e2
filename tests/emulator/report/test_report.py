"""The page that a run leaves: its numbers, its words, and that nothing in it is taken for markup."""

import csv
import io
import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path

import pytest

from emulator.record.events import events_of
from emulator.record.given import Given, keep
from emulator.report import accuracy, critical, fates, leverage, payloads, rounds, scenes, split, timeline
from emulator.report.comparison import MADE_BY, compare
from emulator.report.curves import Curve, merged, thinned
from emulator.report.figure import natural
from emulator.report.markdown import markdown
from emulator.report.page import _ticked, _written, charts, command, page, plain
from emulator.results import units
from emulator.results.results import read
from emulator.wording import tables

SCENARIO = """
name: trial
seeds: {seeds}
rounds: {{max: {rounds}, fraction: 1.0, targets: [{{metric: accuracy, value: 0.8}}]}}
fleet: [{{profile: phone-mid, count: {devices}, link: {{up_mbit_s: 1, down_mbit_s: 1}}}}]
algorithms: [{labels}]
"""
HOSTILE = "</script><script>alert(1)</script><img src=http://example.org/x>"


def row(number, accuracy, asked=2, length=4.0, **more):
    """A round of `length` seconds: a quarter down (weights and Fisher), compute, up, and waiting."""
    part = length / 4
    return {
        "round": number,
        "time_s": length * (number + 1),
        "accuracy": accuracy,
        "initial": accuracy,
        "personalised": None,
        "validation": accuracy,
        "loss": 1.0,
        "bytes": {"down": {"weights": 1000, "fisher": 500, "frame": 10}, "up": {"weights": 1000, "cut": 90}},
        "asked": asked,
        "counted": asked - 1,
        "late": 1,
        "lost": 0,
        "refused": 0,
        "wasted_bytes": 600,
        "seconds": {"useful": 3.0, "wasted": 1.0, "idle": 4.0},
        "leverage": {"median": 0.0, "p99": 0.1, "max": 1.0, "step": 0.1},
        "critical": {
            "device": "phone-mid-1",
            "setup_s": 0.0,
            "down_s": {"weights": part / 2, "fisher": part / 2},
            "compute_s": {"train": 0.75 * part, "fisher": 0.25 * part},
            "up_s": {"weights": part},
            "server_s": {},
            "wait_s": part,
        },
        **more,
    }


def events(line, names):
    """Events in which all `names` are asked; the first is cut by the close, the others reply."""
    t, length, number = line["time_s"] - 4.0, 4.0, line["round"]
    yield {"t": t, "event": "open", "round": number, "asked": names, "model": "m"}
    for name in names:
        message = {"bytes": {"weights": 90, "frame": 10}, "reply_to": None}
        work = {"phases": {"train": 1e6}, "seconds": {"train": length / 4}, "rate": 1e6}
        for share, event, more in (
            (0, "down.start", message),
            (0.25, "down.end", {}),
            (0.25, "compute.start", work),
            (0.5, "compute.end", {"update": "u"}),
            (0.5, "up.start", message),
        ):
            yield {"t": t + share * length, "event": event, "round": number, "device": name, **more}
        if name != names[0]:
            yield {"t": t + 0.75 * length, "event": "up.end", "round": number, "device": name}
    yield {"t": t + length, "event": "close", "round": number, "reason": "first", "counted": names[1:]}
    yield {"t": t + length, "event": "up.cut", "round": number, "device": names[0], "bytes": 90, "why": "closed"}


def written(out, runs, devices=2, asked=2, host=None, divided=None, summary=None):
    """Writes a folder of results by hand, and reads it."""
    out.mkdir()
    seeds = sorted({seed for of in runs.values() for seed in of})
    entries = ", ".join(f"{{fedavg: {{}}, name: {label}}}" for label in runs)
    longest = max(len(rows) for of in runs.values() for rows in of.values()) or 1
    text = SCENARIO.format(seeds=seeds, labels=entries, rounds=longest, devices=devices)
    (out / "scenario.yaml").write_text(text)
    names = [f"phone-mid-{number}" for number in range(1, asked + 1)]
    for label, of in runs.items():
        for seed, rows in of.items():
            folder = out / f"{label}-s{seed}"
            folder.mkdir()
            (folder / "rounds.jsonl").write_text("".join(json.dumps(line) + "\n" for line in rows))
            told = (json.dumps(event) + "\n" for line in rows for event in events(line, names))
            (folder / "events.jsonl").write_text("".join(told))
    for file, value in (("host.json", host), ("split.json", divided), ("summary.json", summary)):
        if value is not None:
            (out / file).write_text(json.dumps(value))
    return read(out)


@pytest.fixture
def make(tmp_path):
    return lambda runs, name="out", **more: written(tmp_path / name, runs, **more)


def curve(*accuracies, **more):
    return [row(number, value, **more) for number, value in enumerate(accuracies)]


RUNS = {"fedavg": {1: curve(0.5, 0.9), 2: curve(0.9, 0.9)}, "mine": {1: curve(0.1, 0.2), 2: curve(0.1, 0.9)}}


VERDICT = {
    "verdict": ["fedavg was first."],
    "why": ["mine: more rounds."],
    "hints": ["On other links: `fedlapse map OUT`."],
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Results that have something of everything, and their page; made once, as it takes seconds."""
    divided = {"classes": 2, "seeds": {"1": {"devices": {"phone-mid-1": [3, 0], "phone-mid-2": [0, 5]}}}}
    drawn = {"fedavg": {1: curve(0.5, 0.9, joules={"phone-mid-1": 1234.5})}, "mine": RUNS["mine"]}
    host = {"real_seconds": 77.125, "versions": {"torch": "9.9"}}
    results = written(tmp_path_factory.mktemp("whole") / "out", drawn, divided=divided, host=host, summary=VERDICT)
    return results, page([results])


class Open(HTMLParser):
    """Remembers tags, ids, and what would be loaded from elsewhere."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.loaded, self.ids = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.loaded += [
            value for name, value in attrs if name in ("src", "href") and not value.startswith(("#", "data:"))
        ]
        self.ids += [value for name, value in attrs if name == "id"]


def body(text):
    """The page without Vega, which holds strings of all sorts."""
    return re.sub(r"<script>.*?</script>", "", text, flags=re.S)


def test_a_model_stays_what_it_is_until_the_next_one_and_nothing_is_known_after_the_end():
    """Seeds 0.2, 0.6 at 1 s, 3 s (end 4 s) and 0.4, 0.8 at 2 s, 5 s (end 5 s), by hand."""
    points = merged([Curve([1, 3], [0.2, 0.6], 4), Curve([2, 5], [0.4, 0.8], 5)])
    found = [(p.x, round(p.median, 12), p.low, p.high, p.seeds, p.of) for p in points]
    assert found == [
        (1, 0.2, 0.2, 0.2, 1, 2),
        (2, 0.3, 0.2, 0.4, 2, 2),
        (3, 0.5, 0.4, 0.6, 2, 2),
        (4, 0.5, 0.4, 0.6, 2, 2),
        (5, 0.8, 0.8, 0.8, 1, 2),
    ]


def test_from_five_seeds_on_the_band_is_the_quartiles():
    points = merged([Curve([1], [value], 1) for value in (0.0, 0.1, 0.2, 0.3, 1.0)])
    assert (points[0].low, points[0].median, points[0].high) == (0.1, 0.2, 0.3)


def test_a_round_without_an_evaluation_changes_nothing():
    found = accuracy.curve([row(0, 0.3), row(1, None), row(2, 0.6)], lambda rows: [line["time_s"] for line in rows])
    assert (found.x, found.y, found.end) == ([4.0, 12.0], [0.3, 0.6], 12.0)


def test_a_median_of_five_seeds_ends_where_the_first_of_them_does():
    """Four seeds stay at 0.5 for a round; the fifth goes on to 0.9, which is no median of five."""
    played = {"a": {seed: curve(0.5) for seed in range(4)} | {4: curve(0.5, 0.9)}}
    figure = accuracy.figure(accuracy.TIME, played, {"labels": {"a": {"targets": {}}}}, [])
    assert figure.chart.description.endswith("a ends at 0.500.")


def test_thinning_keeps_both_ends_and_equal_steps():
    assert thinned(range(9), 3) == [0, 4, 8]
    assert thinned(range(3), 3) == [0, 1, 2]
    assert len(thinned(range(1000), 7)) == 7


def test_the_stacked_seconds_of_a_run_sum_to_its_end():
    for seeds in RUNS.values():
        ends = [rows[-1]["time_s"] for rows in seeds.values()]
        assert sum(critical.mean(seeds).values()) == pytest.approx(sum(ends) / len(ends), abs=1e-9)


def test_bytes_by_kind_are_all_bytes():
    """Two rounds of 1510 down and 1090 up."""
    found = payloads.mean(RUNS["mine"])
    assert sum(found.values()) == 2 * (1510 + 1090)
    assert found["upload", "cut"] == 180


def test_counted_and_wasted_bytes_are_all_bytes_of_a_run():
    """A run of two rounds: 5200 bytes, of which 1200 were wasted; devices are counted over both seeds."""
    figure = fates.wasted(RUNS)
    assert [line[:3] for line in figure.rows] == [("fedavg", "4.00", "1.20"), ("mine", "4.00", "1.20")]
    assert fates.devices(RUNS, lambda _label, _seed: ()).rows[0] == ("fedavg", "4", "4", "0", "0")


def test_what_has_nothing_in_it_is_one_sentence():
    fine = {"fedavg": {1: curve(0.5, 0.9, counted=2, late=0, wasted_bytes=0)}}
    wasted, devices = fates.wasted(fine), fates.devices(fine, lambda _label, _seed: ())
    assert (wasted.chart, wasted.rows, devices.chart, devices.rows) == (None, (), None, ())
    assert wasted.caption.startswith("No byte was wasted")
    assert devices.caption == "All 4 device-rounds were aggregated: none was late, lost or refused."


def test_leverage_is_the_median_over_seeds():
    seeds = {
        n: [row(0, 0.1, leverage={"median": 0.0, "p99": p99, "max": 1.0})] for n, p99 in enumerate((1.0, 2.0, 9.0))
    }
    assert leverage.of_rounds(seeds)[1]["p99"] == 2.0  # round 1 is the first
    assert leverage.figure({"fedavg": {1: [row(0, 0.1, leverage={})]}}) is None


def test_a_timeline_has_a_bar_for_each_thing_done_and_says_what_was_cut():
    lines = list(events(row(1, 0.5), ["a", "b"]))
    lines += [
        {"t": 8.5, "event": "off", "round": 1, "device": "a"},
        {"t": 9.0, "event": "on", "round": 1, "device": "a"},
    ]
    told = list(events_of(lines))
    scene = scenes.scenes(told, {1})[1]
    found = {(bar.device, bar.what): (bar.start, bar.stop, bar.whole) for bar in scene.bars}
    assert found == {
        ("a", "download"): (4.0, 5.0, True),
        ("a", "compute"): (5.0, 6.0, True),
        ("a", "upload"): (6.0, 8.0, False),
        ("a", "off"): (8.5, 9.0, True),
        ("b", "download"): (4.0, 5.0, True),
        ("b", "compute"): (5.0, 6.0, True),
        ("b", "upload"): (6.0, 7.0, True),
    }
    assert (scene.close, scene.closer) == (8.0, "b")
    assert scenes.scenes(told, {7}) == {}


def test_what_is_under_way_when_the_record_ends_is_cut_there():
    told = [
        *list(events(row(0, 0.5), ["a", "b"]))[:2],
        {"t": 0.75, "event": "open", "round": 1, "asked": [], "model": "m"},
    ]
    assert scenes.scenes(events_of(told), {0})[0].bars == [scenes.Bar("a", "download", 0.0, 0.75, False)]


def test_of_a_crowded_round_the_one_who_closed_it_is_shown():
    names = [f"d{number:04}" for number in range(500)]
    shown = timeline.chosen({0: scenes.Scene(0.0, names, closer="d0001")})
    assert len(shown) <= rounds.DEVICES
    assert "d0001" in shown


def test_devices_are_sorted_by_their_numbers():
    assert sorted(["a-10", "a-9", "b-1", "a-1"], key=natural) == ["a-1", "a-9", "a-10", "b-1"]
    assert sorted(["phone", "10", "phone-2", "2"], key=natural) == ["2", "10", "phone", "phone-2"]


def test_units_are_those_of_the_largest():
    assert (units.of_time([3600.0 * 10]).name, units.of_time([599.0]).name, units.of_time([600.0]).name) == (
        "h",
        "s",
        "min",
    )
    assert [units.of_bytes([size]).name for size in (999, 1000, 999_999, 1e6, 1e9)] == ["B", "kB", "kB", "MB", "GB"]
    assert units.Unit("kB", 1e3, 1).full(1_234_567) == "1,234.6 kB"
    assert units.spread({"mean": None, "low": 4.0, "high": None}, units.Unit("s", 1.0)) == "∞ [4.0, ∞]"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(41.24, "41.2 s"), (131.4, "131 s"), (726, "12.1 min"), (11_520, "192.0 min"), (36_000, "10.0 h")],
)
def test_one_time_by_itself(seconds, text):
    assert units.duration(seconds) == text


def test_the_table_says_when_a_target_was_reached_by_how_many_and_how_much_later(make):
    """fedavg: 8 s and 4 s; mine: never in 8 s, and 8 s, so 8 s at least."""
    table = tables.to_targets(make(RUNS).summary)
    assert table.rows[0][:6] == ("fedavg", "accuracy 0.8", "2 of 2", "6.00 [4.00, 8.00]", "1.00×", "1.5 [1, 2]")
    assert table.rows[1][:6] == ("mine", "accuracy 0.8", "1 of 2", "≥ 8.00 [8.00, ∞]", "≥ 1.33×", "≥ 2 [2, ∞]")
    assert table.headings[3] == "time, s"


def test_several_folders_stand_side_by_side_and_the_first_label_is_the_baseline(make):
    slow = {"fedavg": {1: curve(0.1, 0.1, 0.1, 0.9)}}
    both = compare([make({"fedavg": {1: curve(0.1, 0.9)}}, "a"), make(slow, "b")])
    assert list(both.runs) == ["a/fedavg", "b/fedavg"]
    assert both.summary["baseline"] == "a/fedavg"
    ratio = both.summary["labels"]["b/fedavg"]["targets"]["accuracy 0.8"]["ratio_to_baseline"]
    assert ratio == {"time_s": 2.0, "rounds": 2.0, "bytes": 2.0}
    assert [event.t for event in both.events("b/fedavg", 1)][-1] == 16.0


def test_folders_of_one_name_are_numbered(make, tmp_path):
    one = make(RUNS, "same")
    assert list(compare([one, one]).sources) == ["same#1", "same#2"]


@pytest.mark.slow
def test_equal_results_give_equal_pages_and_nothing_is_loaded(whole):
    results, text = whole
    assert text == page([read(results.folder)])
    reader = Open(body(text))
    assert reader.loaded == []
    assert len(set(reader.ids)) == len(reader.ids)
    assert reader.tags.count("figure") == 15
    assert "77.125" not in text
    assert "torch 9.9" in text
    assert "Useful, wasted and idle time of devices" in text
    assert '<th scope="row">phone-mid-1</th><td class="">2.47</td><td class="">–</td>' in text  # kJ of two rounds
    assert 'http-equiv="Content-Security-Policy" content="default-src \'none\'' in text


@pytest.mark.slow
def test_the_page_is_the_same_wherever_the_results_are(whole, tmp_path):
    results, text = whole
    moved = shutil.copytree(results.folder, tmp_path / "elsewhere" / "moved")
    assert page([read(moved)]) == text
    assert str(results.folder) not in text
    assert f"<code>fedlapse compare {moved}/scenario.yaml</code>" in page([read(moved)], elsewhere=True)


@pytest.mark.slow
def test_the_answer_comes_first_and_what_it_rests_on_after_the_tables(whole):
    _, text = whole
    order = [
        "fedavg was first.",
        "mine: more rounds.",
        "<code>fedlapse map .</code>",
        'id="figure-times"',
        'id="figure-seconds"',
        'id="figure-accuracy-time"',
        'id="targets"',
        "At the end of the runs</h3>",
        "<h3>Settings</h3>",
        "Compute times: ",
        "Transfer times: ",
        'id="figure-accuracy-rounds"',
        'id="figure-rounds"',
        'id="figure-timeline"',
        "All devices were online all the time.",  # a sentence in place of a chart
        'id="about"',
    ]
    assert [part for part in order if part not in text] == []
    places = [text.index(part) for part in order]
    assert places == sorted(places)
    assert 'id="chart-availability"' not in text


def test_units_stay_with_their_numbers_but_not_in_commands():
    line = _ticked("fedavg took 3 s, 51 % of it up, in 2 seeds: `map RUN --latency 5 ms`")
    assert line == "fedavg took 3\u00a0s, 51\u00a0% of it up, in 2 seeds: <code>map RUN --latency 5 ms</code>"


@pytest.mark.slow
def test_every_chart_is_valid_vega_lite(whole):
    """A page is made without looking."""
    drawn = charts([whole[0]])
    assert len(drawn) == 14
    for chart in drawn.values():
        chart.to_dict(validate=True)


def test_rounds_are_counted_from_one_in_every_chart(make):
    """No chart of two rounds has a round 0."""
    drawn = charts([make({"fedavg": {1: curve(0.5, 0.9)}})])
    found = {
        name: set(values) for name, chart in drawn.items() if (values := list(column(chart.to_dict(False), "round")))
    }
    assert found == {"rounds": {"1", "2"}, "timeline": {"1", "2"}, "leverage": {"1", "2"}}
    assert set(column(drawn["accuracy-rounds"].to_dict(False), "x")) == {"1", "2"}
    assert timeline.choices({"fedavg": {1: curve(0.5, 0.9)}})[0]["rounds"] == [1, 2]


def column(spec, name):
    """All values of this column in any data of a specification."""
    for values in (
        spec["datasets"].values() if "datasets" in spec else (layer["data"]["values"] for layer in inline(spec))
    ):
        yield from (line[name] for line in csv.DictReader(io.StringIO(values)) if name in line)


def inline(spec):
    if "values" in spec.get("data", {}):
        yield spec
    for layer in spec.get("layer", ()):
        yield from inline(layer)


@pytest.mark.slow
def test_nothing_that_a_file_says_becomes_markup(make):
    told = {"verdict": [HOSTILE], "expect": [{"ok": True, "text": HOSTILE}], "digest": HOSTILE}
    divided = {"classes": 1, "seeds": {"1": {"devices": {HOSTILE: [1]}}}}
    clean = make(RUNS)
    results = make(
        RUNS, "hostile", host={"versions": {HOSTILE: HOSTILE}}, divided=divided, summary={**clean.summary, **told}
    )
    (results.folder / "scenario.yaml").write_text(results.text + f"# {HOSTILE}\n")
    keep(results.folder, Given(f"# mine: {HOSTILE}\n".encode(), [f"name=mine  # {HOSTILE}"]))
    text = page([read(results.folder)])
    assert "The scenario as it was written</summary>" in text
    assert 'aria-label="given.yaml of trial"># mine: ' in text
    assert "<code>name=mine  # " in text
    assert "<script>alert" not in text
    tags = Open(body(text)).tags
    assert "img" not in tags
    assert "alert(1)" in text  # it is shown, as text
    assert "<img" not in markdown([read(results.folder)])


def test_a_file_that_is_long_is_not_in_the_page(make):
    results = make(RUNS)
    assert "text" not in dict(_written(results))  # nobody has written one
    keep(results.folder, Given(b"#" * 50_000))
    assert dict(_written(results)) == {"changes": [], "text": "#" * 50_000}
    keep(results.folder, Given(b"#" * 50_001))
    assert dict(_written(results))["text"] == "given.yaml has 50,001 bytes, too many for this page."


@pytest.mark.slow
def test_a_run_that_completed_no_round_still_has_a_page(make):
    text = page([make({"fedavg": {1: []}})])
    assert "No round was completed" in text
    assert "<figure" not in body(text)


@pytest.mark.slow
def test_a_page_of_many_long_runs_stays_under_one_and_a_half_megabytes(make):
    """10 algorithms x 2 seeds x 200 rounds x 30 devices, in which no two numbers are alike."""
    rows = {
        seed: [row(n, (n * 7919 % 997 + seed) / 1003, 30, length=4 + seed / 7) for n in range(200)] for seed in (1, 2)
    }
    results = make({f"algorithm-{number}": rows for number in range(10)}, devices=30, asked=30)
    text = page([results])
    assert len(text.encode()) < 1_500_000
    assert "this page holds the first seed of each algorithm and at most" in text


@pytest.mark.slow
def test_a_page_of_ten_thousand_devices_stays_under_one_and_a_half_megabytes(make):
    devices = {f"phone-mid-{number}": [number % 7] * 10 for number in range(10_000)}
    divided = {"classes": 10, "seeds": {"1": {"devices": devices}}}
    rows = {"fedavg": {1: curve(0.1, 0.5, asked=3000)}}
    text = page([make(rows, devices=10_000, asked=3000, divided=divided)])
    assert len(text.encode()) < 1_500_000
    assert f"{split.DEVICES} of 10,000 devices are shown" in text
    assert f"Of more than {rounds.DEVICES} devices, {rounds.DEVICES} are shown." in text


def test_rounds_with_a_timeline_are_a_part_of_those_with_bars():
    runs = {"a": {1: curve(*[0.5] * 3000, asked=50)}, "b": {1: curve(*[0.5] * 700, asked=50)}}
    bars, shown = rounds.kept(runs), timeline.kept(runs)
    for run, rows in shown.items():
        numbers = {line["round"] for line in rows}
        assert numbers < {line["round"] for line in bars[run]}
        assert {0, runs[run[0]][1][-1]["round"]} < numbers
    assert sum(3 * 50 * len(rows) for rows in shown.values()) <= rounds.POINTS


def test_markdown_has_the_tables_and_says_who_made_it(make):
    text = markdown([make(RUNS)])
    assert text.startswith(f"<!-- {MADE_BY} -->")
    assert "| fedavg | accuracy 0.8 | 2 of 2 | 6.00 [4.00, 8.00] | 1.00× |" in text
    tables_of = [line for line in text.splitlines() if line.startswith("|")]
    assert {line.count("|") for line in tables_of[:4]} == {10}


def test_json_has_the_summary_and_the_seconds_by_part(make):
    found = json.loads(plain([make(RUNS)]))
    assert found["labels"]["mine"]["targets"]["accuracy 0.8"]["reached"] == 1
    assert sum(found["critical_s"]["mine"].values()) == pytest.approx(8.0)
    assert found["critical_s"]["mine"]["waiting"] == 2.0


def test_the_command_that_is_shown_is_the_one_of_the_world(make):
    assert command(make(RUNS), Path("runs/a b")) == "fedlapse compare 'runs/a b/scenario.yaml'"
    sockets = make(RUNS, "sockets", host={"world": "sockets"})
    assert command(sockets, Path()) == "fedlapse run ./scenario.yaml --algorithm fedavg --world sockets"
