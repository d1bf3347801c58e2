"""The error that an algorithm's own code has failed.

It has a file of its own, so that evaluations, whose results do not depend on guards, need not import guarded.py.
"""

from __future__ import annotations

from scenarios.text.faults import BadScenario, in_one_line


class Faulty(BadScenario):
    """An algorithm's own code has failed: its label, the place (", round 0, device pi-4-0"), and the error.

    The arguments are these three parts, because SimPy and pickle rebuild exceptions from them.
    """

    def __init__(self, label: str, where: str, said: str) -> None:
        super().__init__(f"{label}{where}: {said}")
        self.args = label, where, said

    def __str__(self) -> str:
        label, where, said = self.args
        return in_one_line(f"{label}{where}: {said}")

    def under(self, seed: int) -> Faulty:
        """Returns a copy whose message also names the seed of the run."""
        label, where, said = self.args
        return Faulty(label, f", seed {seed}{where}", said)
