"""Repeats some of a ledger's jobs, and compares their results with those in the ledger, bit by bit."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import BrokenExecutor
from dataclasses import dataclass

from emulator.compute.executors import Cluster
from emulator.compute.origins import NoOrigin, read_args
from emulator.compute.remembering import Disagreed, Remembering, name_of_job, remembering
from emulator.compute.workers import why_broken
from emulator.lab.build import lab_of
from emulator.lab.lab import CPU
from emulator.ledger.facts import Fact
from emulator.ledger.ledger import Ledger
from emulator.ledger.results import FORMS, refs
from scenarios.load import BadScenario, parse

JOBS = {job.__name__: job for job in FORMS}


@dataclass(frozen=True)
class Verified:
    """The outcome of repeating some of a ledger's jobs."""

    same: int = 0  # jobs with the same bits as before
    wrong: Sequence[str] = ()  # jobs with other bits
    others: int = 0  # jobs that were not repeated: of other code, another machine, or unknown inputs
    unbuilt: Sequence[str] = ()  # scenarios that can no longer be built here


def verify(ledger: Ledger, fraction: float, workers: int | Cluster, places: Sequence[str] = (CPU,)) -> Verified:
    """Repeats the share `fraction` of the ledger's jobs, on the CPU or on GPUs, and compares the results.  With equal
    facts in the ledger, the same jobs are chosen each time.

    Raises ChildProcessError if a worker process is killed.
    """
    known = (ledger.facts.get(key) for key, _ in list(ledger.facts.keys()))
    facts = sorted((fact for fact in known if fact and fact.job in JOBS), key=_place)
    drawn: defaultdict[str, list[Fact]] = defaultdict(list)
    for fact in facts:
        if _draw(fact.key) < fraction:
            drawn[fact.study].append(fact)
    done, unbuilt = list[set[str]](), []
    for scenario, some in drawn.items():
        try:
            lab = lab_of(parse(ledger.facts.scenario(scenario) or "", "a scenario of the ledger"), places)
        except (BadScenario, OSError) as error:
            unbuilt.append(f"scenario {scenario[:16]}: {error}")
            continue
        try:
            with remembering(lab, ledger, workers, scenario, own=False) as pool:
                ours = _known(pool, facts)
                again = [_again(pool, fact) for fact in some if fact.key in ours]
                done += [wrong for wrong in again if wrong is not None]
        except BrokenExecutor as error:
            raise ChildProcessError(why_broken(error)) from None
    others = sum(map(len, drawn.values())) - len(done)
    wrong = sorted(set[str]().union(*done))
    return Verified(sum(not each for each in done), tuple(wrong), others, tuple(unbuilt))


def _draw(key: str) -> float:
    """Returns a pseudo-random number from 0 to 1 that depends only on the key."""
    return int.from_bytes(hashlib.sha256(key.encode()).digest()[:8]) / 2**64


def _place(fact: Fact) -> tuple[int, int]:
    """Returns a sort key for facts: the round, -1 without one, and the place of the job in the order of a round's
    jobs."""
    return next((arg for arg in fact.args if isinstance(arg, int)), -1), list(JOBS).index(fact.job)


def _known(pool: Remembering, facts: Sequence[Fact]) -> set[str]:
    """Notes which jobs made the messages of the facts, and returns the keys of those facts whose jobs this lab can
    repeat.

    It can repeat a fact's job if the job has the same key here.  A key stands for the job with its lab, code and
    machine, whichever run did it first.
    """
    ours = set()
    for fact in facts:
        job, args = JOBS[fact.job], read_args(fact.args)
        result = FORMS[job][1](fact.result)
        try:
            known = pool.inputs.known(pool.keys.key(job, args))
            if known is None or known.key != fact.key:
                continue
        except (LookupError, ValueError):  # the run does not exist here, or the job has no key
            continue
        ours.add(fact.key)
        pool.keys.note(result)
        pool.origins.note(job, args, result)
    return ours


def _again(pool: Remembering, fact: Fact) -> set[str] | None:
    """Repeats the job of a fact.  Returns the names of the jobs that gave other bits, this job or one on whose messages
    it depends; an empty set if there are none, and None if the job cannot be repeated."""
    job, args = JOBS[fact.job], read_args(fact.args)
    for ref in refs(args):  # keeps messages until the job is done
        pool.store.hold(ref)
    try:
        result = pool.computed(job, args).result()
    except Disagreed as error:
        return {str(error)}
    except NoOrigin:
        return None
    return set() if FORMS[job][0](result) == fact.result else {name_of_job(fact.job, fact.args)}
