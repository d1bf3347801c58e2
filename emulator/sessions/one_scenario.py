"""`compare` and `run`: plays all runs of a scenario with one pool of workers, and writes the folder OUT."""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from emulator.compute.remembering import Disagreed
from emulator.forecast.deadline import check_deadline
from emulator.lab.build import built
from emulator.lab.doubts import about_data, about_model
from emulator.lab.lab import Lab
from emulator.ledger.place import default_folder
from emulator.play.progress import Progress
from emulator.play.watcher import Watcher
from emulator.record.given import Given, keep
from emulator.record.host import note, of_scenario
from emulator.record.seal import SEAL
from emulator.record.writing import replace_file
from emulator.replay.chance import chance
from emulator.replay.holding import holding
from emulator.replay.overtime import overtime
from emulator.results.results import results_of
from emulator.sessions.compiling import compile_network
from emulator.sessions.computing import Playing
from emulator.sessions.ending import REPORT, Ended, Ending, conclude
from emulator.sessions.folder import alone, folder, make_ready
from emulator.sessions.pool import AT_ONCE, Pool
from emulator.sessions.session import Manner, Sitting, host_text, play_runs, progress_of, why_ended, world
from emulator.terminal.errors import FAILED, Unfinished
from emulator.terminal.lines import busy, say
from emulator.terminal.stopping import code_of, uninterrupted
from emulator.trackers.destination import Destination
from emulator.trackers.tracking import Tracking
from scenarios.builders.assumed import assumptions
from scenarios.builders.roster import MANY
from scenarios.load import dump
from scenarios.schema.scenario import Scenario
from scenarios.text.faults import BadScenario

if TYPE_CHECKING:
    from emulator.live.server import Live


def play_scenario(
    scenario: Scenario,
    playing: Playing,
    *,
    out: Path | None = None,
    force: bool = False,
    given: Given | None = None,
    track: Sequence[Destination] = (),
    live: int | None = None,
    speedup: float | None = None,
) -> Ended:
    """Plays all runs of a scenario, and writes their results to the folder `out`; None: a new folder below runs/.

    `given`: the user's file and changes, which are copied to `out`; None: the copies in `out` stay.  `live`: the port
    of the page that shows progress, 0 for any free port; None: no page.  `speedup`: modelled seconds per real second,
    over sockets; None: virtual time.

    Raises BadScenario, mostly before anything is written, and Unfinished if the user stopped the runs within a round or
    an error ended all of them.
    """
    if speedup is not None:  # every device trains for real, in its own time
        if playing.ledger:
            raise BadScenario(
                f"--ledger {playing.ledger} is for --world virtual; over sockets every device trains for real"
            )
        playing = replace(playing, no_ledger=True)
    pool = playing.pool()
    if speedup is not None:
        _make_room(scenario, pool)
    scenario, lab = built(scenario, pool.places)
    lab = replace(lab, over_sockets=speedup is not None)
    check_deadline(lab, scenario)
    for doubt in about_model(lab):
        say(f"fedlapse: {doubt}", err=True, tone="warning")
    compile_network(scenario)
    out = folder(out, scenario.name)
    for each in track:
        if each.folder.resolve().is_relative_to(out.resolve()):
            raise BadScenario(f"--track {each.said} lies in the folder of the results, {out}; give one next to it")
    with alone(out):
        goes_on = make_ready(out, scenario, force, speedup is not None)
        manner = Manner(goes_on, speedup, playing.quiet, _at_once(scenario, pool, speedup))
        # first of all: runs over sockets cannot be resumed, and a command killed right away must be recognised as ours
        note(out, of_scenario(scenario), **(world(speedup) if speedup is not None else {}))
        if given:
            keep(out, given)
        replace_file(out / "scenario.yaml", dump(scenario))  # from here on `resume` works
        with on_a_page(scenario, live, progress_of(scenario, lab, replace(manner, quiet=True))) as page:
            return _concluded(scenario, lab, out, pool, manner, track, page)


def _concluded(
    scenario: Scenario,
    lab: Lab,
    out: Path,
    pool: Pool,
    manner: Manner,
    track: Sequence[Destination],
    live: Live | None,
) -> Ended:
    assumed, began = list(assumptions(scenario)), time.monotonic()
    again = _how_to_resume(out, pool, manner)
    try:
        with Tracking(track, scenario, out, lambda text: say(text, err=True)) as tracking:
            watchers: list[Watcher] = [live.watching, tracking] if live else [tracking]
            sitting = play_runs(scenario, lab, out, pool, replace(manner, watchers=watchers))
        replayed = _replayed(scenario, out, sitting, pool, manner.speedup)
    except KeyboardInterrupt as stop:
        raise Unfinished(code_of(stop), f"stopped; what was written is in {out}", *again) from None
    except (BrokenExecutor, Disagreed, OSError) as error:
        # a second try would disagree again
        raise Unfinished(FAILED, why_ended(error), *(() if isinstance(error, Disagreed) else again)) from None
    with uninterrupted():
        ending = Ending(
            sitting.outcomes,
            host_text(time.monotonic() - began, sitting.outcomes, sitting.session),
            sitting.session.stopped,
            assumed,
            list(about_data(lab, scenario.data.split)),
            replayed,
        )
        ended = conclude(out, ending)
        if live and (out / REPORT).is_file():
            live.report = out / REPORT
        whole = (out / SEAL).is_file()  # otherwise runs were stopped, or a file could not be written
        return replace(ended, tally=sitting.tally, to_go_on="" if whole else "".join(again))


def _replayed(scenario: Scenario, out: Path, sitting: Sitting, pool: Pool, speedup: float | None) -> Mapping[str, Any]:
    """Returns what replays of the runs say, under keys of summary.json: up to which compute errors the order of the
    verdict holds, and how much is chance on full links or, over sockets, which algorithms took longer than modelled; {}
    if there is nothing to say, or runs have not ended."""
    failed = [each for each in sitting.outcomes if each.failure]
    if sitting.unfinished or (failed and speedup is None):
        return {}
    found = results_of(out, scenario)
    if speedup is not None:
        late = overtime(found)
        for each in failed:  # it may have failed as its devices were late, which no replay knows
            if each.overruns and each.keeps:
                late[each.run.label] = max(late.get(each.run.label, 0.0), speedup / each.keeps - 1)
        return {"overtime": late} if late else {}
    workers = pool.workers if isinstance(pool.workers, int) else None
    with busy("finding how far the order holds"):
        drawn = chance(found, workers)
        said = {"holds": holding(found, workers, drawn), "chance": drawn}
    return {key: value for key, value in said.items() if value}


def _at_once(scenario: Scenario, pool: Pool, speedup: float | None) -> int:
    """Returns how many runs may be played concurrently: all of them on Ray and over sockets, where a run mostly waits;
    else AT_ONCE for each worker, and at least one of each algorithm."""
    if speedup is not None or not isinstance(pool.workers, int):
        return sys.maxsize
    return max(AT_ONCE * pool.workers, len(scenario.algorithms))


def _how_to_resume(out: Path, pool: Pool, manner: Manner) -> Sequence[str]:
    """Returns one line with the command that resumes interrupted runs; () for runs over sockets, which cannot be
    resumed."""
    if manner.speedup is not None:
        return ()
    usual = pool.ledger == default_folder(os.environ)
    where = [] if usual else ["--ledger", str(pool.ledger)] if pool.ledger else ["--no-ledger"]
    twice = "nothing trained twice" if pool.ledger else "everything trained again"
    words = ["fedlapse", "resume", *(["--force"] if manner.force else []), str(out), *where]
    return (f"to go on, with {twice}: {shlex.join(words)}",)


def _make_room(scenario: Scenario, pool: Pool) -> None:
    """Raises BadScenario if this process cannot hold one connection for each device over sockets: there are more than
    MANY devices, or the limit of open files is too low."""
    if scenario.devices > MANY:
        raise BadScenario(f"fleet: {scenario.devices} devices; over sockets it must be {MANY} at most")
    from emulator.play.over_sockets import make_room

    runs = len(scenario.algorithms) * len(scenario.seeds)
    make_room(scenario.devices, runs, pool.workers if isinstance(pool.workers, int) else 0)


if TYPE_CHECKING:
    from emulator.live.server import Live


@contextmanager
def on_a_page(scenario: Scenario, port: int | None, progress: Progress) -> Iterator[Live | None]:
    """Serves the page that shows the runs' progress until the block ends, and prints its address; yields its server.

    `port`: 0 for any free port; None: no page, and yields None.  `progress`: tells the time left.  Raises BadScenario
    if the port cannot be used.
    """
    if port is None:
        yield None
        return
    from emulator.live.server import HOST, Live
    from emulator.live.watching import Watching

    try:
        serving = Live(Watching(scenario, progress), port)
        serving.__enter__()
    except OSError as error:
        why = os.strerror(error.errno or 0).lower()
        raise BadScenario(f"--live {port}: {why} on {HOST}; without a number a free port is taken") from None
    say(f"fedlapse: live at {serving.url}", err=True)
    try:
        yield serving
    finally:
        serving.__exit__(None, None, None)  # sends its readers to the report
