"""Command lines thrown at `trace`, `replay` and `map`: an answer or a short message, never a traceback, never a hang.

FEDLAPSE_FUZZ=10000 looks for longer, as in test_fuzz.py.
"""

from __future__ import annotations

import itertools
import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from emulator.__main__ import app
from tests.conftest import SMALL, merged
from tests.runs.test_fuzz import SECONDS, WORDS, scaled, thrown

pytestmark = pytest.mark.slow

TRACES, REPLAYS, MAPS = scaled(250), scaled(100), scaled(60)
FILES = {
    "walk.csv": "time_s,down_mbit_s,up_mbit_s,latency_ms,loss\n0,12,6,20,0\n0.4,3,2,50,0.01\n0.9,0,0,50,0\n1.6,,,,\n",
    "down.csv": "time_s,down_mbit_s\n0,8\n10,16\n20,\n",
    "still.csv": "time_s,down_mbit_s,up_mbit_s\n0,8,0\n10,,\n",
    "lte.down": "1\n2\n2\n9\n",
    "lte.up": "4\n11\n",
    "log": "0 5\n1 6\n2 7\n3 8\n",
    "bad": "0 1\n1 -2\n",
    "s.yaml": json.dumps(merged(SMALL, {"name": "other", "rounds": {"max": 1}})),
}
PATHS = st.one_of(st.sampled_from([*FILES, "lte", ".", "..", "folder", "nowhere", "", "-"]), WORDS)
RATES = st.sampled_from(
    ["10Mbit/s", "0Mbit/s", "-1Mbit/s", "1e400Mbit/s", "nanMbit/s", "5 Mbit/s", "3kB/s", "9", "1..2Mbit/s"]
)
TIMES = st.sampled_from(["40ms", "0s", "-1s", "1e9s", "nan", "infs", "5", "1min", "0.001ms", "s"])
SPANS = st.sampled_from(
    [
        "1..10Mbit/s",
        "10..1Mbit/s",
        "1..1Mbit/s",
        "0..5Mbit/s",
        "5..500ms",
        "1..x",
        "..",
        "1e-9..1e9GFLOP/s",
        "2GFLOP/s",
        "0ms",
    ]
)
SIZES = st.sampled_from(["1MB", "0MB", "1B", "-1kB", "1e30GB", "6.65", "nanMB", "1.5kB"])
NUMBERS = st.sampled_from(["0", "1", "2", "-1", "nan", "inf", "1e-7", "0.2", "1e400", "x", "600", "1e9"])
FORMATS = st.sampled_from(["csv", "mahimahi", "pensieve", "sigcomm21", "oboe", "ucc", "fedscale-capacity", "x"])
WAYS = st.sampled_from(["down", "up", "both"])
FLAG = st.just(None)  # an option that takes no value


def lines(command, least, options, most=4):
    """Words of a command line: `command`, what it must have, and some options."""
    pairs = st.lists(
        st.sampled_from(sorted(options)).flatmap(lambda name: st.tuples(st.just(name), options[name])), max_size=most
    )
    flat = pairs.map(lambda said: [word for pair in said for word in pair if word is not None])
    return st.tuples(st.just(command), least, flat).map(lambda parts: [*parts[0], *parts[1], *parts[2]])


READING = {"--from": FORMATS, "--direction": WAYS}
TRACE = st.one_of(
    lines(
        ["trace", "info"], st.lists(PATHS, max_size=3), READING | {"--format": st.sampled_from(["json", "text", "x"])}
    ),
    lines(["trace", "convert"], st.lists(PATHS, min_size=2, max_size=2), READING | {"--to": FORMATS, "--force": FLAG}),
    lines(
        ["trace", "synth"],
        st.lists(st.one_of(st.sampled_from(["wifi", "3g-driving", "lte"]), WORDS), max_size=1),
        {"--seconds": NUMBERS, "--seed": NUMBERS, "--step": NUMBERS, "--direction": WAYS, "-o": PATHS, "--to": FORMATS},
    ),
    lines(
        ["trace", "transfer"],
        st.tuples(PATHS, st.just("--bytes"), SIZES),
        READING | {"--every": TIMES, "--latency": TIMES, "--model": st.sampled_from(["ideal", "tcp", "lv08"])},
    ),
)
RUN = st.sampled_from(["run", "run", "run", "run/fedavg-s1", "nowhere", "s.yaml", "."])
AGAIN = {"--latency": TIMES, "--server-rate": RATES, "--fleet": PATHS, "-a": WORDS, "--anyway": FLAG}
REPLAY = lines(
    ["replay"],
    RUN.map(lambda run: [run, "--workers", "0"]),
    AGAIN | {"--down": RATES | PATHS, "--up": RATES | PATHS, "--up-ratio": NUMBERS, "--symmetric": FLAG},
)
GRID = AGAIN | {"--uplink": SPANS, "--latency": SPANS, "--speed": SPANS, "--symmetric": FLAG, "--target": WORDS}
MAP = st.one_of(
    lines(["map", "run", "--uplink", "1..10Mbit/s"], st.just(["--workers", "0", "--points", "2"]), GRID, most=1),
    lines(["map"], RUN.map(lambda run: [run, "--workers", "0", "--points", "2"]), GRID),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Traces, and a finished run of two algorithms."""
    here = tmp_path_factory.mktemp("commands")
    for name, text in FILES.items():
        (here / name).write_text(text)
    (here / "folder").mkdir()
    (here / "folder" / "a.csv").write_text(FILES["walk.csv"])
    little = {"rounds": {"max": 1}, "algorithms": ["fedavg", "fedprox"], "seeds": [1], "evaluate": {"every": 0}}
    (here / "run.yaml").write_text(json.dumps(merged(SMALL, little)))
    done = CliRunner().invoke(
        app, ["compare", str(here / "run.yaml"), "--workers", "0", "-q", "--out", str(here / "run")]
    )
    assert done.exit_code == 0, done.output
    return here


@pytest.fixture
def throw(folder, monkeypatch):
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.delenv("FEDLAPSE_DATA", raising=False)
    numbers = itertools.count()

    def thrown_one(words):
        """Its exit code."""
        said = [word.replace("\x00", "").encode("utf-8", "replace").decode() for word in words]
        if said[0] == "replay":
            said += ["--out", f"out-{next(numbers)}"]
        began = time.process_time()
        done = CliRunner().invoke(app, said, prog_name="fedlapse")
        assert time.process_time() - began < SECONDS, said
        assert done.exception is None or isinstance(done.exception, SystemExit), (said, done.exception)
        assert done.exit_code in (0, 2), (said, done.output)
        assert "Traceback" not in done.output
        if done.exit_code == 2 and done.stderr.startswith("fedlapse"):
            assert done.stderr.count("\n") < 40, said
        for name in FILES:
            if not (folder / name).is_file() or (folder / name).read_text() != FILES[name]:
                (folder / name).write_text(FILES[name])  # --force may write it over
        return done.exit_code

    return thrown_one


@pytest.mark.parametrize(
    ("kind", "count"), [(TRACE, TRACES), (REPLAY, REPLAYS), (MAP, MAPS)], ids=["trace", "replay", "map"]
)
def test_any_command_line_is_answered_or_refused_in_words(kind, count, throw):
    codes = []

    @thrown(count)
    @given(kind)
    def shoot(words):
        codes.append(throw(words))

    shoot()
    assert len(codes) >= count
    assert {0, 2} <= set(codes)
