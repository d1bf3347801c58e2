"""Reads and writes run.json, which names the run that a folder holds and has the facts about its algorithm that a
replay needs; reads the sizes of devices from split.json."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import get_args

from algorithms.cohort import CohortRule

RUN = "run.json"


@dataclass(frozen=True)
class Run:
    """The name of a run: the label of its algorithm, and its seed."""

    label: str
    seed: int

    @property
    def name(self) -> str:
        """The name of the run's folder: LABEL-sSEED."""
        return f"{self.label}-s{self.seed}"


@dataclass(frozen=True)
class AlgorithmFacts:
    """The properties of an algorithm that a replay and an audit need, so that they need not import it."""

    keeps_uncounted: bool  # see algorithms.algorithm.Algorithm
    any_cohort_will_do: bool
    cohort: CohortRule
    stale: Sequence[str | float] | None = None  # its weights of stale replies: kind, a, b (algorithms/staleness.py)


def text_of(run: Run, facts: AlgorithmFacts) -> str:
    """Returns the text of run.json."""
    told = {name: value for name, value in asdict(facts).items() if value is not None}
    content = {"label": run.label, "seed": run.seed, "algorithm": told}
    return json.dumps(content, indent=1, sort_keys=True) + "\n"


def read_run(folder: Path) -> tuple[Run, AlgorithmFacts]:
    """Returns the run that the folder holds, and the facts about its algorithm.

    Raises ValueError if there is no run.json, or it is damaged.
    """
    path = folder / RUN
    if not path.is_file():
        raise ValueError(f"{folder} is not the folder of a run: it has no {RUN}")
    content = path.read_bytes()
    try:
        fields = json.loads(content)
        run, facts = Run(fields["label"], fields["seed"]), AlgorithmFacts(**fields["algorithm"])
        sound = content == text_of(run, facts).encode() and _typed(run, facts)
    except (ValueError, TypeError, KeyError, RecursionError):
        sound = False
    if not sound:
        raise ValueError(f"{path} is not as `fedlapse run` writes it")
    return run, facts


def examples_of(out: Path, seed: int) -> dict[str, int]:
    """Returns {device: number of training examples} from split.json, which has only some devices of a large fleet;
    {} if there is no such file."""
    path = out / "split.json"
    if not path.is_file():
        return {}
    try:
        devices = json.loads(path.read_bytes())["seeds"][str(seed)]["devices"]
        return {name: sum(counts) for name, counts in devices.items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ValueError(f"{path} is not as `fedlapse run` writes it") from None


def _typed(run: Run, facts: AlgorithmFacts) -> bool:
    flags = facts.keeps_uncounted, facts.any_cohort_will_do
    names = isinstance(run.label, str) and type(run.seed) is int
    stale = facts.stale is None or [type(each) for each in facts.stale] == [str, float, float]
    return names and all(isinstance(flag, bool) for flag in flags) and facts.cohort in get_args(CohortRule) and stale
