"""What worker processes will need is imported while the command that will start them still reads its scenario."""

from __future__ import annotations

from contextlib import suppress

from emulator.compute import forking

IMPORTED = ("emulator.compute.executors", "emulator.lab.jobs", "torch.optim", "emulator.__main__")  # by all workers


def be_ready() -> None:
    """Starts to import these modules, where that is possible; this process goes on meanwhile, some two seconds."""
    if forking.POSSIBLE:
        with suppress(OSError):  # whoever starts the workers will say it
            forking.start(IMPORTED)
