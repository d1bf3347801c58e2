"""Results as lists of records, as frames, and as charts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from fedlapse.errors import Error

if TYPE_CHECKING:
    from emulator.results import records
    from emulator.results.results import Results

Table = Literal["rounds", "events", "transfers", "devices"]
Backend = Literal["pandas", "polars", "pyarrow"]


def load(out: str | Path) -> Loaded:
    """The results in a folder that `compare` or `run` wrote.  Raises Error if it holds none, or is damaged."""
    from emulator.results.results import read
    from emulator.results.soundness import missing, soundness

    try:
        found, sound = read(Path(out)), soundness(Path(out))
    except (ValueError, OSError) as error:
        raise Error(str(error)) from None
    if sound.damaged:
        raise Error(f"{out}: {'; '.join(sound.notes)}")
    return Loaded(found, (*sound.notes, *missing(found)))


@dataclass(frozen=True)
class Loaded:
    """What a command left: `rounds`, `events`, `transfers` and `devices` are lists of records with fields and units."""

    results: Results
    notes: Sequence[str]  # why they cannot be relied on as they are, such as runs that were stopped; mostly none

    @cached_property
    def rounds(self) -> list[records.Round]:
        from emulator.results import records

        return list(records.rounds(self.results))

    @cached_property
    def events(self) -> list[records.Happened]:
        from emulator.results import records

        return self._readable(records.events)

    @cached_property
    def transfers(self) -> list[records.Transfer]:
        from emulator.results import records

        return self._readable(records.transfers)

    @cached_property
    def devices(self) -> list[records.Device]:
        from emulator.results import records

        return list(records.devices(self.results))

    def _readable(self, of: Any) -> list[Any]:
        try:
            return list(of(self.results))
        except (ValueError, LookupError, TypeError) as error:
            raise Error(f"{self.results.folder}: its timeline cannot be read: {error}") from None

    @property
    def verdict(self) -> str:
        """The answer, why, and what to do next: a line each."""
        from emulator.results.conclusion import summed_up, told

        summary = self.results.summary
        if "sentence" not in summary:  # the command did not come to its end
            summary = summed_up(self.results, {}, {}, interrupted=True)
        return "\n".join(told(summary, self.results.folder))

    @property
    def summary(self) -> dict[str, Any]:
        """As summary.json has it: time, rounds and bytes to each target, by algorithm."""
        return dict(self.results.summary)

    def frame(self, table: Table, backend: Backend = "pandas") -> Any:
        """One of the lists as a frame of this library.  Raises Error for others, or if it is not installed."""
        from emulator.results.records import TABLES, columns

        for what, given, known in (("table", table, TABLES), ("library", backend, get_args(Backend))):
            if given not in known:
                raise Error(f"there is no {what} {given!r}; there are {', '.join(known)}")
        try:
            import narwhals

            return narwhals.from_dict(columns(getattr(self, table), table), backend=backend).to_native()
        except ImportError as error:
            raise Error(f"{error.name or backend} is not installed; pip install 'fedlapse[frames]' {backend}") from None

    def plot(self, name: str = "accuracy-time") -> Any:
        """A chart of the report by its name, an Altair chart, which notebooks show.  Raises Error for no such chart."""
        from emulator.report.page import charts

        known = charts([self.results])
        if name not in known:
            raise Error(f"there is no chart {name!r}; there are {', '.join(known)}")
        return known[name]
