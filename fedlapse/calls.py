"""The commands as functions, in the caller's process."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, overload

from emulator.record.folders import home
from emulator.record.given import given_by
from emulator.record.writing import told
from emulator.results.soundness import soundness
from emulator.sessions.asked import only, pace_of, trackers_of
from emulator.sessions.computing import Computing, Playing
from emulator.sessions.in_process import called
from emulator.sessions.options import options as options_of
from emulator.terminal.errors import FAILED, Unfinished, one_line
from emulator.terminal.lines import say
from emulator.terminal.reading import told_while_read
from fedlapse.errors import Error
from fedlapse.loaded import Backend, Framed, Loaded, installed, load
from scenarios.load import given
from scenarios.load import load as load_file
from scenarios.schema.scenario import Scenario
from scenarios.text.faults import BadScenario, placed

if TYPE_CHECKING:
    from emulator.sessions.ending import Ended
    from emulator.sessions.replaying import Played

Given: TypeAlias = str | Path | Mapping[str, Any] | Scenario
Folder: TypeAlias = str | Path
SIGNALLED = 128  # higher exit codes mean that a signal ended the command


@overload
def compare(
    scenario: Given = ...,
    *changes: str,
    out: Folder | None = ...,
    force: bool = ...,
    small: bool = ...,
    seed: int | None = ...,
    rounds: int | Mapping[str, Any] | None = ...,
    track: str | Sequence[str] = ...,
    live: int | None = ...,
    frames: None = ...,
    **options: Any,
) -> Loaded: ...
@overload
def compare(
    scenario: Given = ...,
    *changes: str,
    out: Folder | None = ...,
    force: bool = ...,
    small: bool = ...,
    seed: int | None = ...,
    rounds: int | Mapping[str, Any] | None = ...,
    track: str | Sequence[str] = ...,
    live: int | None = ...,
    frames: Backend,
    **options: Any,
) -> Framed: ...
def compare(
    scenario: Given = "quickstart",
    *changes: str,
    out: Folder | None = None,
    force: bool = False,
    small: bool = False,
    seed: int | None = None,
    rounds: int | Mapping[str, Any] | None = None,
    track: str | Sequence[str] = (),
    live: int | None = None,
    frames: Backend | None = None,
    **options: Any,
) -> Loaded | Framed:
    """Plays a scenario as `fedlapse compare` does, and returns the results; progress goes to stderr.

    `scenario`: a file, a name that comes with fedlapse, a mapping, or a Scenario; `changes`: PATH=VALUE; `frames`: as
    in `load`.  Of all others, those named like a key of scenarios change it, as `training={"lr": 0.1}`; the rest are
    options of the command, such as `workers=2, force=True, track=["csv:logs"]`.  Raises Error
    if the command would end with an error.  If it is interrupted, each run first completes its round and its files;
    then it raises KeyboardInterrupt.
    """
    if frames is not None:
        installed(frames)  # before hours of training
    with _call():
        from emulator.sessions.one_scenario import play_scenario

        changes, options = _changed(changes, options)
        (playing,) = options_of(options, Playing)
        playing.have_workers_ready()
        made = _scenario(scenario, changes, small, seed, rounds)
        with placed(made.source):
            trackers = trackers_of(_listed(track))
            ended = play_scenario(
                made, playing, out=_path(out), force=force, given=given_by(made.source), track=trackers, live=live
            )
        _tell(ended)
    return load(ended.results.folder, frames=frames)


def run(
    scenario: Given,
    *changes: str,
    algorithm: str,
    world: Literal["virtual", "sockets"] = "virtual",
    speedup: float | None = None,
    out: Folder | None = None,
    force: bool = False,
    small: bool = False,
    seed: int | None = None,
    rounds: int | Mapping[str, Any] | None = None,
    track: str | Sequence[str] = (),
    **options: Any,
) -> Loaded:
    """Plays one algorithm of a scenario, by its label, as `fedlapse run` does, and returns the results; otherwise like
    `compare`."""
    with _call():
        from emulator.sessions.one_scenario import play_scenario

        changes, options = _changed(changes, options)
        (playing,) = options_of(options, Playing)
        playing.have_workers_ready()
        made = only(_scenario(scenario, changes, small, seed, rounds), algorithm)
        pace, trackers = pace_of(world, speedup), trackers_of(_listed(track))
        with placed(made.source):
            ended = play_scenario(
                made, playing, out=_path(out), force=force, given=given_by(made.source), track=trackers, speedup=pace
            )
        _tell(ended)
    return load(ended.results.folder)


def check(
    scenario: Given = "quickstart",
    *changes: str,
    workers: int | None = None,
    device: str = "cpu",
    small: bool = False,
    seed: int | None = None,
    rounds: int | Mapping[str, Any] | None = None,
    **more: Any,
) -> dict[str, Any]:
    """Returns the forecast of a scenario, as in `fedlapse check --format json`; warnings go to stderr.  Raises Error
    for an invalid scenario."""
    with _call():
        from emulator.sessions.checking import planned

        changes, more = _changed(changes, more)
        (computing,) = options_of({"workers": workers, "device": device, **more}, Computing)
        made = _scenario(scenario, changes, small, seed, rounds)
        with placed(made.source):
            plan = planned(made, computing.workers, computing.device)
        if plan.failing:
            raise BadScenario("\n".join(plan.failing.values()))
        for warning in plan.warnings:
            say(f"fedlapse: {warning}", err=True)
        return plan.plain()


def tune(
    scenario: Given,
    *changes: str,
    out: Folder | None = None,
    force: bool = False,
    small: bool = False,
    rounds: int | Mapping[str, Any] | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Searches settings for each algorithm; returns the content of `fedlapse tune --format json`.  Raises as
    `compare`."""
    with _call(ValueError):
        from emulator.sessions.tuning import Tuning

        changes, options = _changed(changes, options)
        (playing,) = options_of(options, Playing)
        playing.have_workers_ready()
        made = _scenario(scenario, changes, small, None, rounds)
        with placed(made.source):
            found = Tuning(made, playing).into(_path(out), force)
        return {"out": str(found.out), **found.plain}


def study(
    scenario: Given,
    *changes: str,
    exploratory: bool = False,
    out: Folder | None = None,
    force: bool = False,
    small: bool = False,
    **options: Any,
) -> dict[str, Any]:
    """Follows a study's protocol; returns the content of `fedlapse study --format json`.  Raises as `compare`."""
    with _call(ValueError):
        from emulator.sessions import regimes

        changes, options = _changed(changes, options)
        (playing,) = options_of(options, Playing)
        playing.have_workers_ready()
        made = _scenario(scenario, changes, small, None, None)
        with placed(made.source):
            found = regimes.study(made, playing, _path(out), force, exploratory)
        for text in found.warnings:
            say(f"fedlapse: {text}", err=True)
        return {"out": str(found.out), **found.plain}


def replay(
    run: Folder,
    *,
    fleet: Given | None = None,
    events: bool = False,
    out: Folder | None = None,
    force: bool = False,
    **options: Any,
) -> dict[str, Any]:
    """Replays finished runs on other links or devices; returns the content of `fedlapse replay --format json`.

    Example: `replay("runs/farm-0001", down=["10Mbit/s", "trace.csv"], symmetric=True)`.  `fleet`: a scenario, given as
    in `compare`, whose devices, links and server are used.  Raises as `compare`.
    """
    with _call(ValueError, computes=bool(options.get("train"))):
        from emulator.sessions.replay_runs import ReplayChoice, Replaying, ReplayLinks
        from emulator.sessions.replay_runs import replay as replayed

        _sound(Path(run))
        links, recorded, replaying = options_of({**options, "run": run}, ReplayLinks, ReplayChoice, Replaying)
        found = replayed(links, recorded, replaying, events=events, out=_path(out), force=force, fleet=_fleet(fleet))
        _whole(found.played)
        return found.plain


def map_(
    run: Folder, *, fleet: Given | None = None, target: str | None = None, out: Folder | None = None, **options: Any
) -> dict[str, Any]:
    """Finds the fastest algorithm at each point of a grid of links; returns the content of map.json.

    Example: `map("runs/farm-0001", uplink="0.1..100Mbit/s")`.  `fleet` is as in `replay`.  Raises as `compare`.
    """
    with _call(ValueError, computes=bool(options.get("train"))):
        from emulator.sessions.mapping import Ranges, draw
        from emulator.sessions.replay_runs import ReplayChoice, Replaying

        _sound(Path(run))
        ranges, recorded, replaying = options_of({**options, "run": run}, Ranges, ReplayChoice, Replaying)
        found = draw(ranges, recorded, replaying, target=target, out=_path(out), fleet=_fleet(fleet))
        _whole(found.played)
        drawn: dict[str, Any] = json.loads(found.text)
        return drawn


def audit(*runs: Folder) -> dict[str, dict[str, Any]]:
    """Returns, by folder, the audit of its run, as in `fedlapse audit --format json`.  Raises Error for a folder that
    holds no run."""
    with _call(ValueError, computes=False):
        from emulator.sessions.auditing import audited_in

        return {str(folder): asdict(each) for folder, each in audited_in(map(Path, runs)).items()}


def export(run: Folder, *, format: Literal["csv", "parquet"] = "csv", out: Folder | None = None) -> Path:
    """Writes the tables, a file for each; returns their folder.  Raises Error
    if the results are damaged or cannot be read."""
    with _call(ValueError, computes=False):
        from emulator.sessions.exporting import ExportFormat, exported

        _sound(Path(run))
        return exported(Path(run), ExportFormat(format), _path(out))


def cite(run: Folder) -> str:
    """Returns what a paper should say of a run, as `fedlapse cite` prints it.  Raises Error if the results are damaged
    or cannot be read."""
    with _call(ValueError, computes=False):
        from emulator.results.results import read
        from emulator.wording.references import cited

        _sound(Path(run))
        return "\n\n".join(cited(read(Path(run))))


@contextmanager
def _call(*also: type[Exception], computes: bool = True) -> Iterator[None]:
    """A context for one call: errors that the command line would print in a line, and those of the types `also`, become
    Error; a stop from outside becomes KeyboardInterrupt."""
    try:
        with called(computes):
            yield
    except Error:
        raise
    except BadScenario as error:
        raise Error(str(error)) from None
    except OSError as error:
        raise Error(told(error)) from None
    except Unfinished as end:
        if end.code <= SIGNALLED:
            raise Error("\n".join(end.lines)) from None
        for line in end.lines:
            say(f"fedlapse: {line}", err=True)
        raise KeyboardInterrupt from None
    except also as error:
        raise Error(one_line(error)) from None


def _scenario(
    said: Given, changes: Sequence[str], small: bool, seed: int | None, rounds: int | Mapping[str, Any] | None
) -> Scenario:
    more = [] if seed is None else [f"seeds=[{seed}]"]
    if rounds is not None:
        more += list(_paths("rounds", rounds if isinstance(rounds, Mapping) else {"max": rounds}))
    return _read(said, [*changes, *more], small)


def _changed(changes: Sequence[str], named: Mapping[str, Any]) -> tuple[tuple[str, ...], dict[str, Any]]:
    """Returns the changes of a scenario, with those that are named like one of its keys, and all other options."""
    keys = Scenario.model_fields.keys() & named.keys()
    more = [text for key in named if key in keys for text in _paths(key, named[key])]
    return (*changes, *more), {name: value for name, value in named.items() if name not in keys}


def _paths(path: str, value: Any) -> Iterator[str]:
    """Yields PATH=VALUE for each value in nested mappings."""
    if isinstance(value, Mapping):
        for key, of in value.items():
            yield from _paths(f"{path}.{key}", of)
    else:
        yield f"{path}={json.dumps(value)}"


def _fleet(said: Given | None) -> Scenario | None:
    return None if said is None else _read(said, (), algorithms=False)


def _read(said: Given, changes: Sequence[str], small: bool = False, algorithms: bool = True) -> Scenario:
    with told_while_read():
        if isinstance(said, str | Path):
            return load_file(str(said), changes, small, recordings=True, algorithms=algorithms)
        return given(said, changes, small, algorithms)


def _tell(ended: Ended) -> None:
    """Prints warnings.  Raises Error if a run failed or a file could not be written, Unfinished if runs were
    stopped."""
    from emulator.sessions.ending import incomplete, warn

    again = [ended.to_go_on] if ended.to_go_on else []
    if ended.unwritten:
        raise Error("\n".join([incomplete(ended), *again]))
    if ended.code == FAILED:
        raise Error("\n".join(why for each in ended.ending.failures.values() for why in each))
    if ended.code > SIGNALLED:
        raise Unfinished(ended.code, f"stopped; what was written is in {ended.results.folder}", *again)
    warn(ended)


def _whole(played: Played) -> None:
    if played.code:
        raise Unfinished(played.code, played.why or "a run failed")


def _sound(run: Path) -> None:
    """Prints what is doubtful about the results, by their seal (the digests of their files).  Raises Error if they are
    damaged."""
    folder = home(run)
    found = soundness(folder)
    if found.damaged:
        raise Error(f"{folder}: {'; '.join(found.notes)}")
    for note in found.notes:
        say(f"fedlapse: {folder}: {note}", err=True)


def _listed(said: str | Sequence[str]) -> list[str]:
    return [said] if isinstance(said, str) else [*said]


def _path(folder: Folder | None) -> Path | None:
    return None if folder is None else Path(folder)
