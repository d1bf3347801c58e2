"""run.json: which run a folder holds, and what a replay must know of its algorithm."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import get_args

from algorithms.cohort import CohortRule

RUN = "run.json"


@dataclass(frozen=True)
class Run:
    """An algorithm's label and a seed."""

    label: str
    seed: int

    @property
    def name(self) -> str:
        """That of its folder."""
        return f"{self.label}-s{self.seed}"


@dataclass(frozen=True)
class Facts:
    """What a replay must know of an algorithm, so that it need not import it."""

    keeps_uncounted: bool  # see algorithms.algorithm.Algorithm
    any_cohort_will_do: bool
    cohort: CohortRule


def text_of(run: Run, facts: Facts) -> str:
    """The content of run.json."""
    said = {"label": run.label, "seed": run.seed, "algorithm": asdict(facts)}
    return json.dumps(said, indent=1, sort_keys=True) + "\n"


def read_run(folder: Path) -> tuple[Run, Facts]:
    """Returns which run the folder holds, and the facts of its algorithm.

    Raises ValueError if there is no run.json, or it is damaged.
    """
    path = folder / RUN
    if not path.is_file():
        raise ValueError(f"{folder} is not the folder of a run: it has no {RUN}")
    content = path.read_bytes()
    try:
        said = json.loads(content)
        found = Run(said["label"], said["seed"]), Facts(**said["algorithm"])
        sound = content == text_of(*found).encode() and _typed(*found)
    except (ValueError, TypeError, KeyError, RecursionError):
        sound = False
    if not sound:
        raise ValueError(f"{path} is not as `fedlapse run` writes it")
    return found


def _typed(run: Run, facts: Facts) -> bool:
    flags = facts.keeps_uncounted, facts.any_cohort_will_do
    names = isinstance(run.label, str) and type(run.seed) is int
    return names and all(isinstance(flag, bool) for flag in flags) and facts.cohort in get_args(CohortRule)
