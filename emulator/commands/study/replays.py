"""Replays of a study's runs on many links, each made once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console

from emulator.commands.lines import say
from emulator.commands.replay.play import play_all
from emulator.commands.stopping import uninterrupted
from emulator.commands.trials import Trials, Unfinished
from emulator.record.digest import digest
from emulator.record.targets import Target
from emulator.replay.batch import Batch, Order, Source
from emulator.replay.conditions import Condition
from emulator.replay.findings import Result
from emulator.studies.stamps import Kept, Stamps, key, stamps

CHUNK = 4000  # replays after which what is known is kept; some minutes


@dataclass(frozen=True)
class Replays:
    """What replays the runs in folders, and keeps when their rounds end."""

    trials: Trials
    kept: Kept
    quiet: bool
    read: dict[Source, tuple[str, Batch]] = field(default_factory=dict)  # digests, and runs

    def of(
        self, folder: Path, wanted: Sequence[Condition], labels: Sequence[str] = (), until: Target | None = None
    ) -> list[Stamps]:
        """When the rounds of the runs end in each setting.  Raises Unfinished.

        `labels`: of these runs alone; `until`: of the rounds up to that in which a run reached this target.
        """
        source = Source(folder, only=tuple(labels), targets=(), until=until)
        if source not in self.read:
            self.read[source] = digest(folder), Batch(source)
        record, batch = self.read[source]
        names = [key(each, f"{record} {','.join(labels)} {until.name if until else ''}") for each in wanted]
        new = {name: each for name, each in zip(names, wanted, strict=True) if name not in self.kept.known}
        if new:
            self._make(batch, new)
        return [self.kept.known[name] for name in names]

    def _make(self, batch: Batch, new: dict[str, Condition]) -> None:
        """A chunk of settings after the other."""
        rounds = {(script.label, script.seed): len(script.rounds) for script in batch.scripts}
        runs, names = len(batch.scripts), list(new)
        step = max(1, CHUNK // runs)
        for first in range(0, len(names), step):
            some = names[first : first + step]
            results = self._played(batch, [Order(run, new[name]) for name in some for run in range(runs)])
            self.kept.add({name: stamps(results[n * runs : (n + 1) * runs], rounds) for n, name in enumerate(some)})
            if len(some) > 1:  # the file takes a moment
                with uninterrupted():
                    self.kept.write()
            if not self.quiet and first + len(some) < len(names):
                say(f"fedlapse: replays in {first + len(some)} of {len(names)} settings", err=True)

    def _played(self, batch: Batch, orders: Sequence[Order]) -> Sequence[Result]:
        played = play_all(batch, orders, self.trials.settings.workers, console=Console(stderr=True, quiet=self.quiet))
        if not played.whole:
            say(f"fedlapse: {played.why}", err=True)
            raise Unfinished(played.code)
        return played.results
