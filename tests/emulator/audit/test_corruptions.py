"""Whatever is changed in a folder of results is noticed: two small runs, spoiled in hundreds of ways.

Each spoiled folder is judged twice: as an accident leaves it, and as a forger does, who makes the digest and the seals
anew.  The seal notices each accident.  Of what is forged the laws notice all but what UNKNOWABLE names, which only the
seal notices: what models did, texts, and amounts of work and memory that change no time.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from emulator.audit.audit import Audit, audit
from emulator.audit.format import EVENTS
from emulator.audit.results_laws import audit_results
from emulator.record.folders import run_folders
from emulator.record.lines import encode
from emulator.record.record import FILES, MODEL
from emulator.record.seal import SEAL, damage, seal_results, seal_run
from emulator.results.results import read
from emulator.wording.conclusion import summed_up
from tests.conftest import results

pytestmark = pytest.mark.slow

Json = Any
Place = tuple[str | int, ...]  # keys that lead to a value
Spoil = Callable[[bytes], bytes | None]  # a file's content to what is left of it; None: nothing
Kind = tuple[str, str, Spoil]  # what it is called, the file, how it is spoiled

RUN, OTHER = "fedcl-s1", "fedavg-s1"
LINK = {"up_mbit_s": 0.2, "down_mbit_s": 0.4, "latency_ms": 30}
NAPS = {"off": [[0.5, 0.8], [2.0, 2.3], [2.9, 3.0]]}
KINDS = ["conv", "recurrent", "positions", "operators", "convolutions", "grouped", "pointwise", "conv_floats"]
PIECE = ["phase", "flops", "steps", "floats", *KINDS]
SCENARIO: Json = {
    "model": "tests.runs.network:small",
    "network": {"model": "tcp"},
    "training": {"batch": 64},
    "rounds": {
        "max": 3,
        "fraction": 0.5,
        "ask": 4,
        "targets": [{"value": 0.1}],
        "when_off": "pause",
        "transfers": "resume",
        "stragglers": "finish",
    },
    "fleet": [
        {"profile": "phone-mid", "count": 2, "link": LINK, "presence": NAPS},
        {"profile": "pi-4", "count": 2, "link": LINK},
    ],
    "algorithms": ["fedavg", {"fedcl": {"interval": 1}}],
}
MODELS = "accuracy|loss|validation|initial|personalised(_participants)?|leverage.*|numbers.*"
UNKNOWABLE = re.compile(
    "|".join(
        [
            rf"{RUN}/run.json: algorithm.* changed",
            rf"{RUN}/events.jsonl: compute.end: update changed",  # the digest of what a device sent
            rf"{RUN}/events.jsonl: (compute|down|up|on|off)\S* exchanged",  # in one instant things have no order
            rf"{RUN}/rounds.jsonl: row: ({MODELS}) (changed|renamed)",
            rf"{RUN}/work.jsonl: pieces: pieces.({'|'.join(KINDS)}) changed",
            rf"{RUN}/work.jsonl: device: held changed",  # memory that the device has anyway
            rf"{RUN}/work.jsonl: (device|server) exchanged",  # two lines of one round
            r"host.json: (command|machine|real_seconds|overruns|folders|versions\.(?!fedlapse|numpy)).* changed",
            r"host.json: (strangers (changed|deleted)|folders changed)",
            r"((host|split|summary).json|scenario.yaml) (cut by a byte|with a byte more)",
            # another build may choose other words
            r"summary.json: (.*\.)?(text|reserved|(verdict|why|hints|how_sure)\.\*) changed",
            r"report.html (?!deleted).*",
        ]
    )
)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of results; its report is a word, as a whole page would take seconds to make, and to spoil."""
    return results(tmp_path_factory.mktemp("results") / "out", SCENARIO)


# --- kinds of corruption ------------------------------------------------------------------------------------------


def leaves(value: Json, place: Place = ()) -> Iterator[Place]:
    """Each value that holds no others."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    found = [leaf for key, each in inner for leaf in leaves(each, (*place, key))]
    yield from found or [place]


def otherwise(value: Json) -> Json:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    return f"{value}x" if isinstance(value, str) else [*value, "x"] if isinstance(value, list) else 0.5


def edited(line: Json, place: Place, edit: Callable[[Json, str | int], object]) -> Json:
    """A copy of the line, in which `edit` has changed what holds the value at that place."""
    copy = json.loads(json.dumps(line))
    holder = copy
    for key in place[:-1]:
        holder = holder[key]
    edit(holder, place[-1])
    return copy


def change(holder: Json, key: str | int) -> None:
    holder[key] = otherwise(holder[key])


def delete(holder: Json, key: str | int) -> None:
    del holder[key]


def rename(holder: Json, key: str | int) -> None:
    if isinstance(holder, dict):
        holder[f"{key}_"] = holder.pop(key)
    else:
        holder.append(holder[0])


def repeated(text: str, key: str) -> str:
    """The same object with a key that occurs twice; most readers take the second value."""
    return text.replace(f'"{key}":', f'"{key}":null,"{key}":', 1)


def said(place: Place) -> str:
    """A place in words, without names of devices: of a list any entry, but of a piece of work each has its meaning."""
    if place[0] == "pieces":
        return f"pieces.{PIECE[int(place[-1])]}"
    return ".".join("*" if isinstance(key, int) else re.sub(r"(phone-mid|pi-4)-\d", "DEVICE", key) for key in place)


def coded(body: Json) -> str:
    """A line as a record has it, without its newline."""
    return encode(body).decode().removesuffix("\n")


def in_lines(file: str, name_of: Callable[[Json], str], lines: list[str]) -> Iterator[Kind]:
    """For the longest line of each kind: copies of the file in which this line is missing, repeated, exchanged with the
    next line, or has one value changed."""
    longest: dict[str, int] = {}
    for number, text in enumerate(lines):
        name = name_of(json.loads(text))
        if name not in longest or len(text) > len(lines[longest[name]]):
            longest[name] = number
    for name, number in longest.items():

        def to(*texts: str, number: int = number) -> Spoil:
            return lambda _: "".join(f"{each}\n" for each in [*lines[:number], *texts, *lines[number + 1 :]]).encode()

        text, body = lines[number], json.loads(lines[number])
        called = f"{file}: {name}"
        yield f"{called} left out", file, to()
        yield f"{called} repeated", file, to(text, text)
        if number + 1 < len(lines):
            swapped = [*lines[:number], lines[number + 1], text, *lines[number + 2 :]]
            yield f"{called} exchanged", file, lambda _, each=swapped: "".join(f"{line}\n" for line in each).encode()
        yield f"{called} with an unknown key", file, to(coded({**body, "zzz": 1}))
        for key in body:
            yield f"{called}: {key} twice", file, to(repeated(text, key))
            yield f"{called}: {key} deleted", file, to(coded(edited(body, (key,), delete)))
        for place in {said(leaf): leaf for leaf in leaves(body) if leaf}.values():
            yield f"{called}: {said(place)} changed", file, to(coded(edited(body, place, change)))
            if len(place) > 1:
                yield f"{called}: {said(place)} renamed", file, to(coded(edited(body, place, rename)))


def in_object(file: str, text: str) -> Iterator[Kind]:
    body = json.loads(text)
    yield f"{file} with an unknown key", file, lambda _: json.dumps({**body, "zzz": 1}).encode()
    for key in body:
        yield f"{file}: {key} twice", file, lambda _, key=key: repeated(text, key).encode()
        yield f"{file}: {key} deleted", file, lambda _, key=key: json.dumps(edited(body, (key,), delete)).encode()
    for place in {said(leaf): leaf for leaf in leaves(body) if leaf}.values():
        spoiled = edited(body, place, change)
        yield f"{file}: {said(place)} changed", file, lambda _, each=spoiled: json.dumps(each).encode()


def in_bytes(file: str, size: int, other: bytes | None) -> Iterator[Kind]:
    def flipped(content: bytes, at: int) -> bytes:
        return content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]

    yield f"{file} deleted", file, lambda _: None
    yield f"{file} emptied", file, lambda _: b""
    yield f"{file} cut in half", file, lambda content: content[: size // 2]
    yield f"{file} cut by a byte", file, lambda content: content[:-1]
    yield f"{file} with a byte more", file, lambda content: content + b"\n"
    yield f"{file} with a flipped bit at the beginning", file, lambda content: flipped(content, 0)
    yield f"{file} with a flipped bit at the end", file, lambda content: flipped(content, size - 2)
    if other is not None:
        yield f"{file} of the other run", file, lambda _: other


def name_of_event(line: Json) -> str:
    return f"{line['event']} {line.get('what', '')}".strip()


def name_of_work(line: Json) -> str:
    return next(key for key in ("pieces", "device", "server") if key in line)


def kinds(out: Path) -> Iterator[Kind]:
    run, other = out / RUN, out / OTHER
    names = {"events.jsonl": name_of_event, "rounds.jsonl": lambda _: "row", "work.jsonl": name_of_work}
    for name in (*FILES, MODEL):
        content = (run / name).read_bytes()
        yield from in_bytes(f"{RUN}/{name}", len(content), (other / name).read_bytes())
        if name in names:
            lines = content.decode().splitlines()
            yield from in_lines(f"{RUN}/{name}", names[name], lines)
            whole = "".join(f"{line}\n" for line in lines[:-1]).encode()
            yield f"{RUN}/{name} without its last line", f"{RUN}/{name}", lambda _, each=whole: each
    for name in (f"{RUN}/run.json", "summary.json", "split.json", "host.json"):
        text = (out / name).read_text()
        yield from in_bytes(name, len(text.encode()), None)
        yield from in_object(name, text)
    for name in ("scenario.yaml", "report.html", SEAL, f"{RUN}/{SEAL}"):
        yield from in_bytes(name, (out / name).stat().st_size, (other / SEAL).read_bytes() if SEAL in name else None)


@pytest.fixture(scope="module")
def spoilings(sound: Path) -> list[Kind]:
    return [
        (name, file, spoil) for name, file, spoil in kinds(sound) if spoil(data := (sound / file).read_bytes()) != data
    ]


# --- who notices ----------------------------------------------------------------------------------------------------


class Forge:
    """A folder in which one thing at a time is spoiled, and mended again."""

    def __init__(self, sound: Path, out: Path) -> None:
        self.out = out
        self.kept = {path.relative_to(sound).as_posix(): path.read_bytes() for path in sound.rglob("*.*")}
        shutil.copytree(sound, out)

    def spoil(self, file: str, spoil: Spoil) -> None:
        after = spoil(self.kept[file])
        if after is None:
            (self.out / file).unlink()
        else:
            (self.out / file).write_bytes(after)

    def mend(self, file: str) -> None:
        for name in (file, "summary.json", SEAL, f"{RUN}/{SEAL}"):
            (self.out / name).write_bytes(self.kept[name])

    def seal_anew(self) -> None:
        seal_run(self.out / RUN)
        seal_results(self.out)

    def sum_up_anew(self) -> None:
        """The sums of the forged rows, if they still add up."""
        try:
            found = read(self.out)
        except (ValueError, KeyError, TypeError):
            return
        summary = summed_up(found, {}, {"assumed": [], "loops": 0, "trace": ""})
        (self.out / "summary.json").write_text(json.dumps(summary))

    def by_laws(self, file: str) -> list[str]:
        """The faults that the laws find in the forged folder."""
        self.seal_anew()
        try:
            run = audit(self.out / RUN)
            if run.faults:
                return run.faults
            if file != "summary.json":
                self.sum_up_anew()
            self.seal_anew()
            runs = {folder: run if folder.name == RUN else Audit([], None, True) for folder in run_folders(self.out)}
            found = audit_results(self.out, runs)
        except ValueError as error:
            return [str(error)]
        return [*found.faults, *(str(each.unjudged) for each in (run, found) if each.unjudged)]


@pytest.fixture
def forge(sound: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Forge:
    monkeypatch.setattr(os, "fsync", lambda _: None)  # of thousands of seals that nobody keeps
    return Forge(sound, tmp_path / "out")


def test_the_runs_hold_all_kinds_of_lines_of_synchronous_rounds_but_a_refusal(sound: Path, forge: Forge) -> None:
    lines = [json.loads(line) for run in run_folders(sound) for line in (run / "events.jsonl").read_text().splitlines()]
    assert {line["event"] for line in lines} == {*EVENTS} - {"refused", "ask"}
    assert damage(sound) == []
    assert (sound / SEAL).is_file()
    assert forge.by_laws("") == []


def test_the_seal_notices_every_accident(spoilings: list[Kind], forge: Forge) -> None:
    unnoticed = []
    for name, file, spoil in spoilings:
        forge.spoil(file, spoil)
        if (forge.out / SEAL).is_file() and not damage(forge.out):
            unnoticed.append(name)
        forge.mend(file)
    assert unnoticed == []
    assert len(spoilings) >= 200


def test_the_laws_notice_what_is_forged_and_sealed_anew(spoilings: list[Kind], forge: Forge) -> None:
    unnoticed = []
    for name, file, spoil in spoilings:
        if SEAL in file:
            continue
        forge.spoil(file, spoil)
        if not forge.by_laws(file):
            unnoticed.append(name)
        forge.mend(file)
    assert [name for name in unnoticed if not UNKNOWABLE.fullmatch(name)] == []
