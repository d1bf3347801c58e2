"""Scenarios thrown at `fedlapse check`: a plan or a short message, never a traceback.

FEDLAPSE_FUZZ=10000 throws so many of them, and is for a night; always they are the same.

They are made in four ways: from the JSON schema that editors use, by putting hostile values into a scenario that
is right, as raw text, and as changes on the command line.  What was found is kept in tests/scenarios/test_found.py.
"""

import contextlib
import copy
import io
import json
import os
import re
import socket
import time
from functools import lru_cache

import pytest
import typer
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.internal.conjecture import utils
from hypothesis_jsonschema import from_schema
from ruamel.yaml import YAML

from algorithms import models
from algorithms.counting.cost import Meter
from devices.data.digits import digits
from emulator.commands.check import check
from emulator.commands.options import Format
from scenarios.describe import json_schema
from tests.all_of import all_of

pytestmark = pytest.mark.slow

ALL = int(os.environ.get("FEDLAPSE_FUZZ", "225"))  # scenarios, about


def scaled(count):
    """The number in a run of ALL cases that stands for `count` in 5,000."""
    return max(5, round(count * ALL / 5000))


PARTS = {
    "seeds": 30,
    "training": 40,
    "evaluate": 20,
    "server": 30,
    "network": 40,
    "topology": 30,
    "fleet_seed": 20,
    "rounds": 100,
    "data": 120,
    "fleet": 60,
    "algorithms": 200,
    "expect": 180,
}
PARTS = {part: scaled(count) for part, count in PARTS.items()}
# Few of these get through to a plan; of some kinds not one in a hundred.
HARD = {
    "fleet": 0,
    "topology": 0,
    "algorithms": PARTS["algorithms"] // 200,
    "expect": 1,
    "server": PARTS["server"] // 5,
    "data": PARTS["data"] // 10,
    "rounds": PARTS["rounds"] // 10,
}
HOSTILE, TEXTS, CHANGES, LINKS = map(scaled, (1350, 1450, 1200, 130))
SECONDS = 20  # of the processor that one of them may take on a slow machine; most take some hundredths
LINES, COLUMNS = 61, 310  # of a message: twenty faults, each with its line and caret
GOOD = {
    "name": "good",
    "seeds": [1, 2],
    "data": {"set": "digits", "split": {"kind": "dirichlet", "alpha": 0.5}, "validation": 0.1},
    "model": "digits-cnn",
    "training": {"epochs": 1, "batch": 32, "lr": 0.1},
    "rounds": {"max": 2, "fraction": 1.0, "deadline_s": 10000, "targets": [{"value": 0.9}]},
    "evaluate": {"every": 1},
    "server": {"profile": "workstation", "link": {"up_mbit_s": 100, "down_mbit_s": 100}},
    "fleet": [
        {"profile": "pi-4", "count": 2, "link": {"up_mbit_s": 2, "down_mbit_s": 8, "latency_ms": 30}},
        {
            "name": "phones",
            "profile": "phone-mid",
            "link": {"up_mbit_s": 2, "down_mbit_s": {"choice": [1, 2]}},
            "presence": {
                "off": [[60, 90]],
                "renewal": {"mean_on_s": 1800, "mean_off_s": 600, "cv_on": 1.5},
                "night": True,
                "diurnal": {"arrive": [20] * 24, "leave": [1] * 24},
                "needs": ["charging"],
                "hour": 22.5,
            },
            "jitter": 0.1,
            "throttling": True,
            "wakeup": True,
            "speed_gflop_s": {"lognormal": {"median": 2, "sigma": 0.5}},
        },
        {"name": "walkers", "profile": "phone-low", "link": {"trace": {"down": "walk.csv"}, "latency_ms": 9}},
        {"name": "home", "profile": "pi-4", "link": {"up_mbit_s": 2, "down_mbit_s": 8, "via": ["ap", "cell"]}},
        {"name": "drivers", "profile": "phone-low", "link": {"radio": "3g-driving"}},
    ],
    "network": {"model": "tcp", "congestion": "cubic", "tls": 1},
    "topology": {
        "ap": {"airtime": True, "behind": "dsl"},
        "dsl": {"up_mbit_s": 3, "down_mbit_s": 9},
        "cell": {"trace": {"down": ["walk.csv"], "up_ratio": 0.5, "up_source": "a guess"}},
    },
    "algorithms": ["fedavg", {"fedcl": {"strength": 0.5}, "name": "mine"}],
    "expect": [{"label": "fedavg", "reach": 0.9}],
}
LITTLE = GOOD | {"rounds": {"max": 1}, "algorithms": ["fedavg"], "fleet": GOOD["fleet"][:2]}
assert sum(PARTS.values()) + HOSTILE + TEXTS + CHANGES + LINKS >= ALL
TRACE = "time_s,down_mbit_s,up_mbit_s,latency_ms\n0,12,6,20\n0.4,3,2,50\n0.9,0,0,50\n1.1,20,9,30\n1.6,,,\n"


def more(elements):
    """hypothesis lately took away `more`, with which hypothesis-jsonschema 0.23.1 draws objects."""
    if not elements._iterated:
        elements.turns = iter(elements.__enter__())
    return next(elements.turns, "ended") is None


if not hasattr(utils.many, "more"):
    utils.many.more = more


class Range:
    """Gives scenarios to `check`, and counts them."""

    def __init__(self, folder):
        self.folder, self.thrown, self.through = folder, 0, 0

    def throw(self, scenario, changes=(), format=Format.text):
        """One scenario (plain values, text or bytes): is the answer a plan, or else a message as it should be?"""
        text = json.dumps(scenario) if isinstance(scenario, dict) else scenario
        file = self.folder / "fuzz.yaml"
        file.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"))
        out, err = io.StringIO(), io.StringIO()
        began = time.process_time()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), pytest.raises(typer.Exit) as left:
            check(what=[str(file), *changes], workers=1, format=format)
        assert time.process_time() - began < SECONDS
        self.thrown += 1
        if left.value.exit_code == 0:
            self.through += 1
            assert format is Format.text or json.loads(out.getvalue(), parse_constant=pytest.fail)
            assert "\x1b" not in out.getvalue()
        else:
            assert (left.value.exit_code, out.getvalue()) == (2, "")
            self.judge(err.getvalue())

    def judge(self, message):
        """Is it short, and can it be read?"""
        lines = message.removesuffix("\n").split("\n")
        assert lines[0].startswith("fedlapse: ")
        assert lines[0].removeprefix("fedlapse: ").strip()
        assert len(lines) <= LINES
        assert all_of(len(line) <= COLUMNS and line.isprintable() for line in lines), message
        assert not re.search(r"Traceback|<class|object at 0x|recursion|pydantic", message), message


@pytest.fixture
def shooting(monkeypatch, tmp_path):
    """A range that is fast and alone: no network, little measuring, data that are read once."""

    def offline(*_arguments, **_options):
        raise OSError("no network here")

    monkeypatch.chdir(tmp_path)
    (tmp_path / "walk.csv").write_text(TRACE)
    monkeypatch.delenv("FEDLAPSE_DATA", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(socket.socket, "connect", offline)
    monkeypatch.setattr(socket, "getaddrinfo", offline)
    monkeypatch.setattr("devices.data.tv.datasets", offline)  # it would make folders at paths that are drawn
    monkeypatch.setattr("devices.data.digits.digits", lambda: read_once())
    monkeypatch.setattr("emulator.forecast.host.SECONDS", 0.0)
    monkeypatch.setattr("emulator.pricing.costs.meter_of", meter)
    return Range(tmp_path)


@lru_cache
def read_once():
    return digits()


@lru_cache
def meter_of(design, shape):
    return Meter(models.build(design, seed=0), shape, models.cross_entropy)


def meter(_model, form, *_others):
    """One for all scenarios: counting the operations is most of what a plan of a little scenario takes."""
    shape = form[1]
    return meter_of("mlp" if shape[-1] == 28 else "digits-cnn", shape)


def thrown(count):
    """The settings under which so many examples are drawn, always the same."""
    return settings(
        max_examples=count, derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck)
    )


# From the schema: parts of a scenario as it describes them, put into one that is right.


def schema_of(part):
    """The schema of a part of a scenario, with as much work as a test can take."""
    whole = copy.deepcopy(json_schema(own=False))
    known = whole["definitions"]
    known["Draw"] |= {"minProperties": 1, "maxProperties": 1}
    known["Group"]["properties"]["count"] |= {"maximum": 2}
    known["Group"]["properties"]["profile"] = {"enum": ["pi-4", "phone-mid", "phone-low", ""]}
    known["Server"]["properties"]["profile"] = {"enum": ["pi-4", "workstation", "nothing"]}
    known["Links"]["required"] = ["up_mbit_s", "down_mbit_s"]  # next to nothing that is drawn is a file, or a radio
    for key in ("trace", "radio", "via"):
        del known["Links"]["properties"][key]
    for part_of_links in ("Link", "Shared"):
        known[part_of_links]["required"] = ["up_mbit_s", "down_mbit_s"]
        for key in ("trace", "radio"):
            known[part_of_links]["properties"].pop(key)
    del known["Presence"]["properties"]["trace"]
    known["Expect"]["properties"]["label"] = {"enum": ["fedavg", "mine", ""]}
    known["Data"]["properties"]["set"] = {"enum": ["digits", "digits", "mnist", "json:loads", "x"]}
    whole["properties"]["fleet"]["maxItems"] = 2
    whole["properties"]["seeds"]["maxItems"] = 3
    whole["properties"]["algorithms"]["maxItems"] = 2
    return {**whole["properties"][part], "definitions": known}


DRAWS = ("Draw", "Lognormal", "Uniform")


def test_links_of_any_kind_are_planned_or_refused_in_words(shooting):
    every = json_schema(own=False)["definitions"]
    known = {name: every[name] for name in ("Links", "Shared", "Link", "Traces", "Recorded", *DRAWS)}

    def of(part):
        return st.tuples(st.just(part), from_schema(known[part] | {"definitions": known}))

    @thrown(LINKS)
    @given(st.one_of([of(part) for part in ("Links", "Shared", "Link")]))
    def throw(said):
        part, link = said
        places = {
            "Links": {"fleet": [{"profile": "pi-4", "count": 2, "link": link}], "topology": {"ap": {"airtime": True}}},
            "Shared": {"topology": {**GOOD["topology"], "cell": link}},
            "Link": {"server": {"link": link}},
        }
        shooting.throw(LITTLE | places[part], format=Format.json)

    throw()
    assert shooting.thrown >= LINKS


@pytest.mark.parametrize("part", PARTS)
def test_what_the_schema_allows_is_planned_or_refused_in_words(part, shooting):
    @thrown(PARTS[part])
    @given(from_schema(schema_of(part)))
    def throw(value):
        shooting.throw(LITTLE | {part: value}, format=Format.json)

    throw()
    assert shooting.thrown >= PARTS[part]
    assert shooting.through >= HARD.get(part, PARTS[part] // 3)


# Hostile values in a scenario that is right.

NUMBERS = st.sampled_from([float("nan"), float("inf"), -float("inf"), -1, 0, -0.0, 0.5, 1, 2, 3, 1e-9, 1e-300, 1e300])
HUGE = st.sampled_from([2**31, 2**63, 2**64, 10**30, -(10**30), 10**400, 1_000_001])
WORDS = st.sampled_from(
    [
        *("", " ", ".", "..", "../..", "/", "~nobody/x", "a\nb", "\x1b[31mred", "\x00", "\u202e", "\ud800", "é" * 50),
        *("[bold]x[/bold]", "[/]", "{}", "%s %n", "null", "true", "1e5", ".nan", "x" * 5000, "fedavg", "pi-4", "mlp"),
        *(
            "os:system",
            "json:loads",
            "math:pi",
            "sys:exit",
            ":",
            "a:",
            ":b",
            "a:b:c",
            "no.such:thing",
            "torch.nn:Flatten",
        ),
        *(
            "torch.nn:Module",
            "builtins:object",
            "algorithms.fedcl:FedCL",
            "algorithms.models:digits_cnn",
            "a b:c",
            ".:x",
        ),
        *("walk.csv", "lte-driving", "cell", "ap", "csv"),
        *("devices.data.digits:digits", "dirichlet", "iid", "finish", "validation", "personalised", "constructor"),
    ]
)
MILD = st.one_of(st.integers(1, 3), st.floats(0.01, 1), st.integers(10_000, 20_000), st.booleans(), st.none())
DEEP = st.integers(1, 60).map(lambda depth: json.loads("[" * depth + "]" * depth))
VALUES = st.one_of(
    NUMBERS,
    HUGE,
    WORDS,
    DEEP,
    st.none(),
    st.booleans(),
    st.integers(-5, 5),
    st.floats(0, 1),
    st.text(max_size=20),
    st.lists(st.one_of(NUMBERS, WORDS, st.none()), max_size=3),
    st.dictionaries(WORDS, st.one_of(NUMBERS, WORDS, st.none()), max_size=2),
    st.sampled_from(
        [
            {"lognormal": {"median": 1e6, "sigma": 5}},
            {"uniform": {"low": 0, "high": 1e6}},
            {"kind": "dirichlet", "alpha": 1e-6},
            {"kind": "dirichlet", "alpha": 1e6},
            {"off": [[0, float("inf")]]},
            {"off": [[0, 1], [0.5, 1e9]]},
            {"fedcurv": None},
            [[0, 1], [2, float("inf")]],
        ]
    ),
)


def places(node, path=()):
    """All paths in plain values, from the root down to each value."""
    yield path
    inner = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in inner:
        yield from places(value, (*path, key))


@st.composite
def spoiled(draw):
    """GOOD with one to four things wrong, or not."""
    scenario = copy.deepcopy(GOOD)
    for _ in range(draw(st.sampled_from([1, 1, 1, 2, 4]))):
        *around, last = draw(st.sampled_from([path for path in places(scenario) if path]))
        inside = scenario
        for step in around:
            inside = inside[step]
        harm = draw(st.sampled_from(["replace", "replace", "replace", "rename", "drop", "drop", "twice"]))
        if harm == "replace":
            inside[last] = copy.deepcopy(draw(st.one_of(VALUES, MILD)))
        elif harm == "drop":
            del inside[last]
        elif isinstance(inside, list):
            inside.append(copy.deepcopy(inside[last]))
        else:
            inside[draw(st.one_of(WORDS, st.sampled_from(["name", "cuont", "overhead_ms", "ask"])))] = inside.pop(last)
    return scenario


def test_hostile_values_in_a_good_scenario_are_planned_or_refused_in_words(shooting):
    @thrown(HOSTILE)
    @given(spoiled())
    def throw(scenario):
        shooting.throw(as_yaml(scenario))

    throw()
    assert shooting.thrown >= HOSTILE
    assert shooting.through >= HOSTILE // 25


def as_yaml(value):
    """Plain values in YAML's flow style, on one line; infinite ones and NaN as YAML spells them."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"? {as_yaml(key)}\n: {as_yaml(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(as_yaml, value)) + "]"
    if isinstance(value, float):
        return {"nan": ".nan", "inf": ".inf", "-inf": "-.inf"}.get(str(value), repr(value))
    return json.dumps(value)


# Raw text.


def block(value):
    text = io.StringIO()
    YAML(typ="safe", pure=True).dump(value, text)
    return text.getvalue()


PIECES = st.sampled_from(
    [
        *("name: x\n", "fleet:\n", "  - ", "- ", "  ", "\t", "\n", ": ", "? ", "[", "]", "{", "}", ",", "#", "'", '"'),
        *("&a ", "*a", "<<: *a\n", "!!int ", "!!python/name:os.system ", "!!binary ", "!!set ", "!x ", "%YAML 1.1\n"),
        *(
            "%TAG ! tag:x,2026:\n",
            "---\n",
            "...\n",
            "|\n",
            ">-\n",
            "\ufeff",
            "\x00",
            "\x85",
            "\u2028",
            "\\",
            "~",
            ".inf",
        ),
        *("0o7", "0x", "1_000", "2026-11-21T10:00:00Z", "=", "<<", "count: 1\n", "profile: pi-4\n", "é", "\U0001f600"),
    ]
)
BOMB = "a0: &a0 [x, x, x, x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 9))


@st.composite
def texts(draw):
    """Possible contents of a file: a mix of YAML's signs, pieces of a correct scenario, bytes."""
    good = block(GOOD)
    kind = draw(st.sampled_from([*("soup", "cut", "sown", "swapped", "bytes", "text") * 4, "bomb"]))
    if kind == "soup":
        return "".join(draw(st.lists(PIECES, max_size=25)))
    if kind == "bytes":
        return draw(st.binary(max_size=60))
    if kind == "text":
        return draw(st.text(max_size=60))
    at = draw(st.integers(0, len(good)))
    if kind == "cut":
        return good[:at]
    if kind == "bomb":
        return good + BOMB if draw(st.booleans()) else BOMB + good[:at]
    piece = draw(st.one_of(PIECES, st.text(max_size=3)))
    return good[:at] + piece + good[at + (draw(st.integers(0, 9)) if kind == "swapped" else 0) :]


def test_any_text_is_planned_or_refused_in_words(shooting):
    @thrown(TEXTS)
    @given(texts())
    def throw(text):
        shooting.throw(text)

    throw()
    assert shooting.thrown >= TEXTS
    assert shooting.through >= TEXTS // 40


# Changes on the command line.

STEPS = sorted({str(step) for path in places(GOOD) for step in path})
PATHS = st.one_of(
    st.sampled_from([".".join(map(str, path)) for path in places(GOOD) if path]),
    st.lists(st.one_of(st.sampled_from(STEPS), WORDS), min_size=1, max_size=5).map(".".join),
    st.sampled_from(["algorithms.fedavg.training.lr", "fleet.pi-4.count", "fleet.phones.name", "algorithms.mine.key"]),
)
TYPED = st.one_of(MILD.map(as_yaml), VALUES.map(as_yaml), PIECES, st.text(max_size=10))


def test_any_change_is_planned_or_refused_in_words(shooting):
    good = json.dumps(GOOD)

    @thrown(CHANGES)
    @given(st.lists(st.tuples(PATHS, TYPED).map("=".join), max_size=3))
    def throw(changes):
        shooting.throw(good, changes)

    throw()
    assert shooting.thrown >= CHANGES
    assert shooting.through >= CHANGES // 60
