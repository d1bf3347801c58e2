"""Checks a sealed record: its files equal the digests in the seal, none of it is missing, and its final model is the
one that the last round left."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from numpy import ndarray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load

from emulator.audit.event_laws import Timeline
from emulator.audit.format import Row
from emulator.messages.store import Ref
from emulator.record.call import version
from emulator.record.folders import REPLAY, untrained
from emulator.record.host import host_of
from emulator.record.record import FILES, MODEL, SECOND_NAMES
from emulator.record.run import RUN, read_run
from emulator.record.seal import OF_RUN, SEAL, Seal, broken
from network.wire import payload
from scenarios.load import recorded

WORK, HOST = "work.jsonl", "host.json"
ABOUT_ALL_RUNS = ("scenario.yaml", HOST, REPLAY)  # files of the results that the laws of a run read


def of_run(folder: Path) -> list[str]:
    """Returns a sentence for each file in the run's folder, or of those next to it that concern all runs, that differs
    from its seal."""
    run = folder.resolve()
    there = [name for name in OF_RUN if (folder / name).is_file()]
    return [*broken(folder, due=there), *broken(run.parent, {*ABOUT_ALL_RUNS, f"{run.name}/{SEAL}"})]


def ends(folder: Path, sealed: Seal | None, timeline: Timeline, rows: Sequence[Row]) -> Iterator[str]:
    """Yields a sentence for each fault at the end of a record.  Only a sealed record must be complete; `sealed` is None
    for a record without a seal."""
    if sealed is not None:
        there = [name for name in FILES if (folder / name).is_file()]
        yield from (f"form: {name} is missing" for name in FILES if name not in (*there, *sealed.files))
        cut = list(_cut(folder, there))
        yield from cut
        if sealed.failure is None and not cut and len(there) == len(FILES):
            if not (folder / WORK).stat().st_size:
                yield f"form: {WORK} is empty"
            rounds = {number: round for number, round in timeline.rounds.items() if number == version(number)}
            if not rounds:
                yield "rounds: the run has come to its end, but the record holds no round"
            for number, round in rounds.items():
                if round.stamp is None:
                    yield f"rounds: the run has come to its end, but round {number} was not closed and combined"
            if len(rows) != (due := len(rounds)):
                yield f"rows: rounds.jsonl has {len(rows)} rows, but the events are those of {due} rounds"
    try:  # a run that was killed at once has no run.json
        if (sealed is not None and sealed.failure is None) or (folder / RUN).is_file():
            read_run(folder)
    except ValueError as error:
        yield f"form: {error}"
    named = sealed is not None and MODEL in sealed.files  # then the seal says that it is missing
    yield from _model(folder, timeline, due=sealed is not None and bool(rows) and not named)


def _cut(folder: Path, names: Iterable[str]) -> Iterator[str]:
    """Yields a sentence for each of these files that ends in the middle of a line."""
    for name in names:
        if (content := (folder / name).read_bytes()) and not content.endswith(b"\n"):
            yield f"form: {name} ends in the middle of a line"


def _model(folder: Path, timeline: Timeline, due: bool) -> Iterator[str]:
    """Yields a sentence if the file of the final model breaks law I8: it must hold the model that the last round left.
    `due`: a missing file is a fault, too, unless the scenario keeps none, and except in a replay without training,
    which must have none."""
    out = folder.resolve().parent
    replay = untrained(out)
    if not (folder / MODEL).is_file():
        if due and not replay and "world" in host_of(out) and _keeps(out):
            yield f"I8: {MODEL} is missing"
        return
    if replay:
        yield f"I8: there is a {MODEL}, but this replay trained no model"
        return
    try:
        final = Ref.of(payload.encode({"weights": _saved(folder / MODEL)})).short
    except (SafetensorError, ValueError, TypeError, KeyError, AttributeError) as error:
        yield f"I8: {MODEL} holds no model: {' '.join(str(error).split())}"
        return
    if timeline.model not in (None, final):
        yield f"I8: {MODEL} is the model {final}, but the last round left {timeline.model}"


def _saved(file: Path) -> dict[str, ndarray]:
    """Reads the tensors of the final model.  If two names share one tensor, it is returned under the first.  Raises
    ValueError if the file has different values under the second name."""
    with safe_open(file, "numpy") as opened:
        second: dict[str, str] = json.loads((opened.metadata() or {}).get(SECOND_NAMES, "{}"))
    tensors = load(file.read_bytes())
    for name, first in second.items():
        if tensors.pop(name).tobytes() != tensors[first].tobytes():
            raise ValueError(f"{name} and {first} are one tensor, and have different values")
    return tensors


def _keeps(out: Path) -> bool:
    """Returns true if the scenario in OUT keeps its runs' last models, or cannot be read."""
    try:
        return recorded(out).keep_models == "last"
    except (OSError, ValueError):
        return True
