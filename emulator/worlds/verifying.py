"""Does some of a ledger's jobs again: the same bits must come out."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from emulator.ledger.facts import Fact
from emulator.ledger.ledger import Ledger
from emulator.ledger.results import FORMS, refs
from emulator.record.run import Run
from emulator.study.build import study_of
from emulator.study.store import Ref
from emulator.worlds.remembering import Remembering, remembering
from scenarios.load import BadScenario, parse

JOBS = {job.__name__: job for job in FORMS}


@dataclass(frozen=True)
class Verified:
    """What came of it: jobs done again, those with other bits, and scenarios that cannot be built here any more."""

    done: int
    wrong: Sequence[str]
    unbuilt: Sequence[str]


def verify(ledger: Ledger, fraction: float, workers: int) -> Verified:
    """Does this share of the jobs again, the same share each time for the same facts."""
    drawn: defaultdict[str, list[Fact]] = defaultdict(list)
    everything: defaultdict[str, list[Fact]] = defaultdict(list)
    for fact in _facts(ledger):
        everything[fact.study].append(fact)
        if _draw(fact.key) < fraction:
            drawn[fact.study].append(fact)
    done, wrong, unbuilt = 0, [], []
    for study, facts in drawn.items():
        try:
            built = study_of(parse(ledger.facts.scenario(study) or "", "a scenario of the ledger"))
        except (BadScenario, OSError) as error:
            unbuilt.append(f"scenario {study[:16]}: {error}")
            continue
        with remembering(built, ledger, workers, study, own=False) as pool:
            _know(pool, everything[study])
            for fact in facts:
                done += 1
                if not _same(pool, fact):
                    wrong.append(f"{fact.job} {fact.args}")
    return Verified(done, wrong, unbuilt)


def _facts(ledger: Ledger) -> Iterator[Fact]:
    for key, _ in list(ledger.facts.keys()):
        if fact := ledger.facts.get(key):
            yield fact


def _draw(key: str) -> float:
    """From 0 to 1, as if by chance."""
    return int.from_bytes(hashlib.sha256(key.encode()).digest()[:8]) / 2**64


def _know(pool: Remembering, facts: Sequence[Fact]) -> None:
    """Tells the executor which job makes each message, in the order in which runs do them: so no message is made, by
    detours, from itself."""
    for fact in sorted(facts, key=_place):
        job = JOBS[fact.job]
        result = FORMS[job][1](fact.result)
        pool.keys.note(result)
        pool.made_by(job, _args(pool, fact), result)


def _args(pool: Remembering, fact: Fact) -> tuple[Any, ...]:
    """Its arguments.  Their messages stay, once they are made, for as long as somebody has them."""
    args = read_args(fact.args)
    for ref in refs(args):
        pool.store.hold(ref)
    return args


def _place(fact: Fact) -> tuple[int, int]:
    """The round, and within it the order of jobs."""
    return next((arg for arg in fact.args if isinstance(arg, int)), -1), list(JOBS).index(fact.job)


def _same(pool: Remembering, fact: Fact) -> bool:
    job = JOBS[fact.job]
    result = pool.computed(job, _args(pool, fact)).result()
    return bool(FORMS[job][0](result) == fact.result)


def read_args(plain: Sequence[Any]) -> tuple[Any, ...]:
    """A job's arguments, from what remembering.plain_args made of them."""
    return tuple(_read(each) for each in plain)


def _read(plain: Any) -> Any:
    match plain:
        case {"run": [label, seed]}:
            return Run(label, seed)
        case {"ref": [digest, nbytes]}:
            return Ref(digest, nbytes)
        case dict():
            return {name: _read(value) for name, value in plain.items()}
        case list():
            return tuple(_read(each) for each in plain)
        case _:
            return plain
