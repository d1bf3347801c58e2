"""Results as lists of records, as frames, and as charts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args, overload

from fedlapse.errors import Error

if TYPE_CHECKING:
    from emulator.results import records
    from emulator.results.results import Results

Table = Literal["rounds", "events", "transfers", "devices"]
Backend = Literal["pandas", "polars", "pyarrow"]


@overload
def load(out: str | Path) -> Loaded: ...
@overload
def load(out: str | Path, frames: Backend) -> Framed: ...
@overload
def load(out: str | Path, frames: Backend | None) -> Loaded | Framed: ...
def load(out: str | Path, frames: Backend | None = None) -> Loaded | Framed:
    """Returns the results in a folder that `compare` or `run` wrote, with their tables as lists of records, or as
    frames of the library `frames`.

    Raises Error if the folder holds no results, if they are damaged, and if the library is not installed.
    """
    from emulator.results.results import read
    from emulator.results.soundness import missing, soundness

    library = frames and installed(frames)
    try:
        found, sound = read(Path(out)), soundness(Path(out))
    except (ValueError, OSError) as error:
        raise Error(str(error)) from None
    if sound.damaged:
        raise Error(f"{out}: {'; '.join(sound.notes)}")
    notes = (*sound.notes, *missing(found))
    return Framed(found, notes, library) if library else Loaded(found, notes)


def installed(backend: Backend) -> Backend:
    """Returns the name of the library.  Raises Error if the name is unknown, or if the library or narwhals is not
    installed."""
    if backend not in get_args(Backend):
        raise Error(f"there is no library {backend!r}; there are {', '.join(get_args(Backend))}")
    for name in ("narwhals", backend):
        try:
            import_module(name)
        except ImportError:
            more = " pyarrow" if backend == "pyarrow" else ""
            raise Error(f"{name} is not installed; pip install 'fedlapse[frames]'{more}") from None
    return backend


@dataclass(frozen=True, repr=False)
class Loaded:
    """The results of a command: `rounds`, `events`, `transfers` and `devices` are lists of records with fields and
    units."""

    results: Results
    notes: Sequence[str]  # reasons not to rely on these results as they are, such as stopped runs; usually none
    backend: Backend = "pandas"  # library of the frames

    def __repr__(self) -> str:
        runs = sum(len(seeds) for seeds in self.results.runs.values())
        parts = f"{', '.join(self.results.runs)}; {runs} runs", *self.notes
        return (
            f"<{self.results.folder}: {'; '.join(parts)}. verdict, rounds, events, transfers, devices, frame(), plot()>"
        )

    @property
    def rounds(self) -> list[records.RoundRow]:
        return self._records("rounds")

    @property
    def events(self) -> list[records.Happened]:
        return self._records("events")

    @property
    def transfers(self) -> list[records.TransferRow]:
        return self._records("transfers")

    @property
    def devices(self) -> list[records.DeviceRow]:
        return self._records("devices")

    def _records(self, table: Table) -> list[Any]:
        from emulator.results.records import READERS

        if table not in self._read:
            try:
                self._read[table] = list(READERS[table](self.results))
            except (ValueError, LookupError, TypeError) as error:
                raise Error(f"{self.results.folder}: its timeline cannot be read: {error}") from None
        return self._read[table]

    @cached_property
    def _read(self) -> dict[Table, list[Any]]:
        return {}

    @property
    def verdict(self) -> str:
        """The verdict on the algorithms, its reasons and the next steps, as lines of text."""
        from emulator.wording.conclusion import answered, summed_up, told

        summary = self.results.summary
        if "verdict" not in summary:  # the command did not finish
            summary = summed_up(self.results, {}, {}, interrupted=True)
        return "\n".join([*answered(summary), *told(summary, self.results.folder)])

    @property
    def summary(self) -> dict[str, Any]:
        """The content of summary.json: time, rounds and bytes to each target, by algorithm."""
        return dict(self.results.summary)

    def frame(self, table: Table, backend: Backend | None = None) -> Any:
        """Returns one of the four tables as a frame of this library, by default `self.backend`.  Raises Error for an
        unknown table or a library that is not installed."""
        from emulator.results.records import TABLES, columns

        if table not in TABLES:
            raise Error(f"there is no table {table!r}; there are {', '.join(TABLES)}")
        library = installed(backend or self.backend)
        import narwhals

        return narwhals.from_dict(columns(self._records(table), table), backend=library).to_native()

    def plot(self, name: str = "accuracy-time") -> Any:
        """Returns the report's chart of this name as an Altair chart, which notebooks show.  Raises Error for an
        unknown name."""
        from emulator.report.page import charts

        known = charts([self.results])
        if name not in known:
            raise Error(f"there is no chart {name!r}; there are {', '.join(known)}")
        return known[name]


class Framed(Loaded):
    """Results whose tables are frames of one library instead of lists."""

    @cached_property
    def rounds(self) -> Any:
        return self.frame("rounds")

    @cached_property
    def events(self) -> Any:
        return self.frame("events")

    @cached_property
    def transfers(self) -> Any:
        return self.frame("transfers")

    @cached_property
    def devices(self) -> Any:
        return self.frame("devices")
