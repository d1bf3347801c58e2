"""Replays of a study's runs on many links.  Results are kept in a file, so that no replay is made twice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, islice
from pathlib import Path

from rich.console import Console

from emulator.analysis.stamps import KeptSettings, Stamps, key, stamps
from emulator.record.digest import digest
from emulator.record.targets import Target
from emulator.replay.batch import Batch, Order, Source
from emulator.replay.conditions import Condition
from emulator.replay.findings import ReplayResult
from emulator.sessions.replaying import play_all
from emulator.terminal.errors import Unfinished
from emulator.terminal.lines import say
from emulator.terminal.stopping import uninterrupted

CHUNK = 4000  # replays between two writes of the file; some minutes


@dataclass(frozen=True)
class Replays:
    """The replays of a study, which are made when they are first asked for; the times at which rounds end are kept."""

    workers: int | None
    kept: KeptSettings
    quiet: bool
    read: dict[Source, tuple[str, Batch]] = field(default_factory=dict)  # digest and runs of each source

    def of(
        self,
        folder: Path,
        wanted: Sequence[Condition],
        labels: Sequence[Sequence[str]] = (),
        until: Target | None = None,
    ) -> list[Stamps]:
        """Returns, for each setting in `wanted`, the times at which rounds of the runs in a folder end.

        `labels`: for each setting, the labels of the runs to replay; by default all.  `until`: a replay ends with the
        round in which the run reached this target.  Raises Unfinished if the command was stopped.
        """
        several = [tuple(each) for each in labels] or [()] * len(wanted)
        source = Source(folder, only=tuple(sorted({each for of in several for each in of})), targets=(), until=until)
        if source not in self.read:
            self.read[source] = digest(folder), Batch(source)
        record, batch = self.read[source]
        goal = until.name if until else ""
        names = [key(each, f"{record} {','.join(of)} {goal}") for each, of in zip(wanted, several, strict=True)]
        asked = zip(names, wanted, several, strict=True)
        new = {name: _orders(batch, each, of) for name, each, of in asked if name not in self.kept.known}
        if new:
            self._make(batch, new)
        return [self.kept.known[name] for name in names]

    def _make(self, batch: Batch, new: dict[str, list[Order]]) -> None:
        """Replays the settings in `new` in chunks, and keeps the times of each chunk, which are written to the file
        after a chunk of several settings.  `new`: the replays by key of the setting."""
        rounds = {(script.label, script.seed): len(script.rounds) for script in batch.scripts}
        names, done = list(new), 0
        while some := _chunk(names[done:], new):
            results = iter(self._played(batch, [order for name in some for order in new[name]]))
            self.kept.add({name: stamps(list(islice(results, len(new[name]))), rounds) for name in some})
            if len(some) > 1:  # writing the file takes a moment
                with uninterrupted():
                    self.kept.write()
            done += len(some)
            if not self.quiet and done < len(names):
                say(f"fedlapse: replays in {done} of {len(names)} settings", err=True)

    def _played(self, batch: Batch, orders: Sequence[Order]) -> Sequence[ReplayResult]:
        played = play_all(batch, orders, self.workers, console=Console(stderr=True, quiet=self.quiet))
        if not played.whole:
            raise Unfinished(played.code, played.why)
        return played.results


def _orders(batch: Batch, condition: Condition, labels: Sequence[str]) -> list[Order]:
    """Returns one order for each replay in one setting: for the runs with these labels; no labels: for all runs."""
    return [Order(n, condition) for n, script in enumerate(batch.scripts) if not labels or script.label in labels]


def _chunk(names: Sequence[str], orders: Mapping[str, Sequence[Order]]) -> list[str]:
    """Returns the first of these settings (at least one, if any), as many as have at most CHUNK replays together."""
    totals = accumulate(len(orders[name]) for name in names)
    return [name for n, (name, total) in enumerate(zip(names, totals, strict=True)) if n == 0 or total <= CHUNK]
