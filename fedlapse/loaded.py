"""Results as runs, as lists of records, as frames, and as charts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from glob import glob, has_magic
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args, overload

from fedlapse.errors import Error

if TYPE_CHECKING:
    from torch import Tensor

    from emulator.results import records
    from emulator.results.results import Results
    from scenarios.schema.scenario import Scenario

Table = Literal["targets", "settings", "rounds", "devices", "transfers", "events"]
Backend = Literal["pandas", "polars", "pyarrow"]


@overload
def load(*outs: str | Path) -> Loaded: ...
@overload
def load(*outs: str | Path, frames: Backend) -> Framed: ...
@overload
def load(*outs: str | Path, frames: Backend | None) -> Loaded | Framed: ...
def load(*outs: str | Path, frames: Backend | None = None) -> Loaded | Framed:
    """Returns the results in folders that `compare` or `run` wrote, with their tables as lists of records, or as frames
    of the library `frames`.

    `outs`: one folder or several, or patterns such as `runs/sweep-*`.  Raises Error if a folder holds no results, if
    they are damaged, if no folder matches a pattern, and if the library is not installed.
    """
    from emulator.results.soundness import missing

    library = frames and installed(frames)
    found = [_read(Path(folder)) for out in outs for folder in _matching(str(out))]
    if not found:
        raise Error("load needs the folder of results")
    each = [(results.folder, note) for results, of in found for note in (*of, *missing(results))]
    notes = tuple(f"{folder}: {note}" if len(found) > 1 else note for folder, note in each)
    parts = tuple(results for results, _ in found)
    return Framed(parts, notes, library) if library else Loaded(parts, notes)


def _matching(out: str) -> list[str]:
    # Path.glob takes no absolute pattern
    found = sorted(glob(out)) if has_magic(out) and not Path(out).exists() else [out]  # noqa: PTH207
    if not found:
        raise Error(f"no folder matches {out}")
    return found


def _read(folder: Path) -> tuple[Results, Sequence[str]]:
    """Returns the results in a folder, and what is doubtful about them."""
    from emulator.results.results import read
    from emulator.results.soundness import soundness

    try:
        found, sound = read(folder), soundness(folder)
    except (ValueError, OSError) as error:
        raise Error(str(error)) from None
    if sound.damaged:
        raise Error(f"{folder}: {'; '.join(sound.notes)}")
    return found, sound.notes


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
class LoadedRun:
    """One run: an algorithm's label, a seed, and the results that it belongs to."""

    label: str
    seed: int
    results: Results

    def __repr__(self) -> str:
        return f"<{self.folder}: {len(self.rounds)} rounds. label, seed, folder, rounds, model()>"

    @property
    def folder(self) -> Path:
        from emulator.record.run import Run

        return self.results.folder / Run(self.label, self.seed).name

    @cached_property
    def rounds(self) -> list[records.RoundRow]:
        from emulator.results.records import rounds_of

        return rounds_of(self.label, self.seed, self.results)

    def model(self) -> dict[str, Tensor]:
        """Returns the run's last model as a state dict.  Raises Error if the run has left none."""
        from safetensors.torch import load_file

        from emulator.record.record import MODEL

        if self.results.scenario.keep_models == "none":
            raise Error("the scenario has `keep_models: none`, so its runs left no models")
        try:
            return load_file(self.folder / MODEL)
        except (OSError, ValueError) as error:
            raise Error(f"{self.folder / MODEL}: {error}") from None


@dataclass(frozen=True, repr=False)
class Loaded:
    """The results of one command or of several, such as the points of a sweep: runs, and tables of records.

    It is a sequence of runs; `found["fedavg"]` has those of an algorithm.
    """

    parts: Sequence[Results]  # one for each folder
    notes: Sequence[str]  # reasons not to rely on these results as they are, such as stopped runs; usually none
    backend: Backend = "pandas"  # library of the frames

    def __repr__(self) -> str:
        where = str(self.parts[0].folder) if len(self.parts) == 1 else f"{len(self.parts)} folders"
        said = f"{', '.join(self.labels)}; {len(self)} runs", *self.notes
        return f"<{where}: {'; '.join(said)}. verdict, {', '.join(get_args(Table))}, frame(), plot(), model()>"

    @cached_property
    def runs(self) -> list[LoadedRun]:
        """All runs, by folder, algorithm and seed."""
        return [
            LoadedRun(label, seed, part) for part in self.parts for label, seeds in part.runs.items() for seed in seeds
        ]

    def __iter__(self) -> Iterator[LoadedRun]:
        return iter(self.runs)

    def __len__(self) -> int:
        return len(self.runs)

    def __getitem__(self, label: str) -> list[LoadedRun]:
        if label not in self.labels:
            raise Error(f"there is no algorithm {label!r}; there are {', '.join(self.labels)}")
        return [each for each in self.runs if each.label == label]

    @property
    def labels(self) -> list[str]:
        return list(dict.fromkeys(each.label for each in self.runs))

    @property
    def seeds(self) -> list[int]:
        return sorted({each.seed for each in self.runs})

    def model(self, label: str, seed: int | None = None) -> dict[str, Tensor]:
        """Returns the last model of an algorithm's run as a state dict.  `seed` may be left out if the algorithm has
        one run.  Raises Error if there is no such run, or more than one."""
        found = [each for each in self[label] if seed is None or each.seed == seed]
        if len(found) != 1:
            raise Error(f"{label} has seeds {', '.join(str(each.seed) for each in self[label])}; give one of them")
        return found[0].model()

    @property
    def results(self) -> Results:
        """The results, if they are of one folder.  Raises Error if they are of several."""
        if len(self.parts) > 1:
            raise Error(f"these are the results of {len(self.parts)} folders, and have no common verdict or scenario")
        return self.parts[0]

    @property
    def scenario(self) -> Scenario:
        """The scenario that was played.  Raises Error if the results are of several folders."""
        return self.results.scenario

    @property
    def targets(self) -> list[records.TargetRow]:
        return self.records("targets")

    @property
    def settings(self) -> list[records.SettingsRow]:
        return self.records("settings")

    @property
    def rounds(self) -> list[records.RoundRow]:
        return self.records("rounds")

    @property
    def devices(self) -> list[records.DeviceRow]:
        return self.records("devices")

    @property
    def transfers(self) -> list[records.TransferRow]:
        return self.records("transfers")

    @property
    def events(self) -> list[records.Happened]:
        return self.records("events")

    def records(self, table: Table) -> list[Any]:
        """Returns one of the tables as a list of records.  Raises Error for an unknown table, and if a run's timeline
        cannot be read."""
        return [record for of in self._each(table) for record in of]

    def _each(self, table: Table) -> list[list[Any]]:
        """Returns the records of a table, a list for each folder."""
        from emulator.results.records import READERS

        if table not in READERS:
            raise Error(f"there is no table {table!r}; there are {', '.join(READERS)}")
        if table not in self._read:
            read = []
            for part in self.parts:
                try:
                    read.append(list(READERS[table](part)))
                except (ValueError, LookupError, TypeError) as error:
                    raise Error(f"{part.folder}: its timeline cannot be read: {error}") from None
            self._read[table] = read
        return self._read[table]

    @cached_property
    def _read(self) -> dict[Table, list[list[Any]]]:
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
        """Returns one of the tables as a frame of this library, by default `self.backend`.

        The frame of several folders begins with the folder of each row, and ends with the settings in which the folders
        differ.  Raises Error for an unknown table or a library that is not installed.
        """
        from emulator.results.records import columns

        found = columns(self.records(table), table)
        if len(self.parts) > 1:
            folders = [str(part.folder) for part, of in zip(self.parts, self._each(table), strict=True) for _ in of]
            found = {"folder": folders, **found, **self._changed(table)}
        library = installed(backend or self.backend)
        import narwhals

        return narwhals.from_dict(found, backend=library).to_native()

    def _changed(self, table: Table) -> dict[str, list[Any]]:
        """Returns the settings in which the runs of an algorithm differ, as columns for the rows of a table."""
        from emulator.results.records import columns

        if table == "settings":
            return {}
        of_runs = columns(self.records("settings"), "settings")
        runs = [(part, row.label, row.seed) for part, of in enumerate(self._each("settings")) for row in of]
        of_label = [[at for at, (_, label, _) in enumerate(runs) if label == mine] for mine in self.labels]
        differ = {
            path: values
            for path, values in of_runs.items()
            if path != "seed" and any(len({values[at] for at in ats}) > 1 for ats in of_label)
        }
        place = {run: at for at, run in enumerate(runs)}
        rows = [place[part, row.label, row.seed] for part, of in enumerate(self._each(table)) for row in of]
        return {path: [values[at] for at in rows] for path, values in differ.items()}

    def plot(
        self, name: str = "accuracy-time", width: float | None = None, height: float | None = None, font: str = ""
    ) -> Any:
        """Returns the report's chart of this name as an Altair chart, which notebooks show, and whose `save` writes a
        file such as fig.pdf.

        `width` and `height`, in mm, and the name of a `font` make a figure for print: that large in all, with letters
        of 8 points and without a title.  Raises Error for an unknown name.
        """
        from emulator.report.page import charts
        from emulator.report.print import printed

        known = charts(self.parts)
        if name not in known:
            raise Error(f"there is no chart {name!r}; there are {', '.join(known)}")
        return printed(known[name], width, height, font) if width or height or font else known[name]


class Framed(Loaded):
    """Results whose tables are frames of one library instead of lists."""

    @cached_property
    def targets(self) -> Any:
        return self.frame("targets")

    @cached_property
    def settings(self) -> Any:
        return self.frame("settings")

    @cached_property
    def rounds(self) -> Any:
        return self.frame("rounds")

    @cached_property
    def devices(self) -> Any:
        return self.frame("devices")

    @cached_property
    def transfers(self) -> Any:
        return self.frame("transfers")

    @cached_property
    def events(self) -> Any:
        return self.frame("events")
