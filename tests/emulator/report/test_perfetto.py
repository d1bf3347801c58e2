"""A trace for Perfetto: fields as the trace event format asks, and durations that are the record's.

The format: "Trace Event Format" by the Chromium project.  A complete event (X) has name, cat, ts, dur, pid, tid, args,
and slices of a thread nest or follow each other; metadata (M) names processes and threads in args.name.
"""

import json
from collections import defaultdict
from itertools import pairwise

import pytest

from emulator.report.perfetto import perfetto
from emulator.results.results import read
from tests.all_of import all_of
from tests.emulator.report.test_report import RUNS, written


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    """Four runs of two rounds of 4 s: of each two devices download, compute and upload, one to the end at 1 s each."""
    return json.loads(perfetto([written(tmp_path_factory.mktemp("trace") / "out", RUNS)]))


def slices(trace):
    return [entry for entry in trace["traceEvents"] if entry["ph"] == "X"]


def test_each_run_is_a_process_and_each_device_a_thread(trace):
    names = {(each["pid"], each["tid"]): each["args"]["name"] for each in metadata(trace, "thread_name")}
    processes = {each["pid"]: each["args"]["name"] for each in metadata(trace, "process_name")}
    assert processes == {1: "fedavg, seed 1", 2: "fedavg, seed 2", 3: "mine, seed 1", 4: "mine, seed 2"}
    assert {names[1, tid] for pid, tid in names if pid == 1} == {"server", "phone-mid-1", "phone-mid-2"}
    assert {(each["pid"], each["tid"]) for each in slices(trace)} <= set(names)


def metadata(trace, name):
    return [entry for entry in trace["traceEvents"] if entry["ph"] == "M" and entry["name"] == name]


def test_slices_have_the_fields_of_the_format(trace):
    assert trace["displayTimeUnit"] in ("ms", "ns")
    assert {entry["ph"] for entry in trace["traceEvents"]} == {"X", "M"}
    for each in slices(trace):
        assert set(each) == {"ph", "name", "cat", "pid", "tid", "ts", "dur", "args"}
        assert all(isinstance(each[key], int) for key in ("pid", "tid"))
        assert each["ts"] >= 0
        assert each["dur"] >= 0
        assert each["args"]["round"] in (1, 2)


def test_times_are_in_microseconds(trace):
    """The first device's upload is cut by the close of a round, 4 s after its start; the other's takes 1 s."""
    first = [each for each in slices(trace) if each["pid"] == 1 and each["args"]["round"] == 2]
    found = {(each["tid"], each["name"]): (each["ts"], each["dur"], "cut" in each["args"]) for each in first}
    assert found == {
        (2, "download"): (4_000_000, 1_000_000, False),
        (2, "compute"): (5_000_000, 1_000_000, False),
        (2, "upload"): (6_000_000, 2_000_000, True),
        (3, "download"): (4_000_000, 1_000_000, False),
        (3, "compute"): (5_000_000, 1_000_000, False),
        (3, "upload"): (6_000_000, 1_000_000, False),
    }


@pytest.mark.slow
def test_durations_of_a_run_sum_to_its_record(play):
    """All seconds of devices are useful or wasted; all seconds of the server are on the path of a round."""
    run = play("fedcl", rounds={"max": 2})
    found = slices(json.loads(perfetto([read(run.folder.parent)])))
    sums, threads = defaultdict(float), defaultdict(list)
    for each in found:
        sums[each["name"]] += each["dur"] / 1e6
        threads[each["tid"]].append(each)
    used = sum(row["seconds"][use] for row in run.rounds for use in ("useful", "wasted"))
    assert sums["download"] + sums["compute"] + sums["upload"] == pytest.approx(used)
    assert sums["compute"] == pytest.approx(sum(sum(line["seconds"].values()) for line in run.of("compute.start")))
    assert sums["server"] == pytest.approx(sum(sum(row["critical"]["server_s"].values()) for row in run.rounds))
    for track in threads.values():  # none begins before the one before it has ended
        ordered = sorted(track, key=lambda each: each["ts"])
        assert all_of(one["ts"] + one["dur"] <= other["ts"] + 1e-3 for one, other in pairwise(ordered))
