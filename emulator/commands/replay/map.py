"""`fedlapse map`: which algorithm is the first to get there, over a grid of links and speeds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from emulator.commands.options import Format, FormatOption
from emulator.record.folders import home
from emulator.replay.findings import ASSUMPTION
from emulator.replay.grid import MapCell
from emulator.results.resampling import bounded
from emulator.results.units import counted
from emulator.sessions.computing import RESULTS, SCENARIO
from emulator.sessions.mapping import Drawn, Ranges, called, draw
from emulator.sessions.replay_runs import ReplayChoice, Replaying
from emulator.terminal.lines import say
from emulator.terminal.reliance import soundness_told

REASONS = 3  # reasons for inexact cells that are printed
DOUBTS: dict[str, Callable[[MapCell], bool]] = {
    "tie": lambda cell: cell.tie,
    "the seeds disagree": lambda cell: not cell.agree and not cell.tie,
    "no algorithm reaches it": lambda cell: cell.winner is None and cell.known,
    "unknown": lambda cell: not cell.known,
    "accuracies are assumed": lambda cell: cell.assumed,
}

Out = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR", help="Folder for map.html, map.png and map.json. Default: RUN.", rich_help_panel=RESULTS
    ),
]


def map_(
    *,
    ranges: Ranges,
    target: Annotated[
        str | None,
        typer.Option(
            metavar="TARGET",
            help="Such as 'accuracy 0.9', or 'all rounds'. Default: the hardest target that was reached.",
            rich_help_panel=SCENARIO,
        ),
    ] = None,
    recorded: ReplayChoice,
    out: Out = None,
    replaying: Replaying,
    format: FormatOption = Format.text,
) -> None:
    """Map which algorithm is fastest over a grid of links.

    Finished runs are replayed, without training, at each point of the grid; without a range it has uplinks of 0.1 to
    100 Mbit/s and latencies of 5 to 500 ms. Cells in which the seeds disagree are marked. Exit codes: 0; 1 a worker was
    killed, or an algorithm failed; 2 bad input; 130 Ctrl-C.

    \b
    Example:
      fedlapse map runs/campus-0001 --uplink 1..50Mbit/s --latency 10..200ms --points 9
    """
    if recorded.train:
        replaying.have_workers_ready()
    with soundness_told([home(recorded.run)]):
        found = draw(ranges, recorded, replaying, target=target, out=out)
        played = found.played
        if not played.whole:
            shown = f"{len(found.cells)} of {found.total} cells are drawn"
            left = shown if found.cells else "no cell was done, and nothing is written"
            say(f"fedlapse: {played.why}; {left}", err=True)
        if found.cells and format is Format.json:
            typer.echo(found.text, nl=False)
        elif found.cells:
            say("\n".join([*_text(found), *filter(None, [played.trained])]))
        if played.code:
            raise typer.Exit(played.code)


def _text(found: Drawn) -> Iterator[str]:
    batch, cells, total = found.batch, found.cells, found.total
    played = f"{total} cells"
    if len(cells) < total:
        played = f"the {len(cells)} of {total} cells that were replayed"
    goal = called(batch, found.goal)
    yield f"{batch.scenario.name}: which algorithm is first to {goal}, in {played}, network model {batch.network}"
    yield from (f"  {why}" for why in found.fallen)
    for label in batch.labels:
        yield _wins(label, [each for each in cells if each.first == label])
    for what, holds in DOUBTS.items():
        if number := sum(map(holds, cells)):
            why = ": the first two differ by less than 1 %, or not significantly" if what == "tie" else ""
            yield f"  {what} in {number}{why}"
    if len(batch.labels) > 2 and any(each.tie for each in cells):
        yield f"  to compare two of them: -a NAME -a NAME, such as -a {batch.labels[-2]} -a {batch.labels[-1]}"
    reasons = Counter(each.why for each in cells if each.why)
    for reason, count in reasons.most_common(REASONS):
        yield f"    in {count}: {reason}"
    if len(reasons) > REASONS:
        yield f"    and {counted(len(reasons) - REASONS, 'other reason')} in map.json"
    if any(each.assumed for each in cells):
        yield f"    assumed: {ASSUMPTION}"
    if any(each.why for each in cells) and not (batch.source.anyway or batch.source.train):
        yield "    --train continues, and trains what differs"
        yield f"    --anyway continues: {ASSUMPTION}"
    yield f"map: {found.out / 'map.html'}"


def _wins(label: str, won: Sequence[MapCell]) -> str:
    """The number of cells that an algorithm wins, and its largest lead."""
    known = [(each.ratio, each.bound) for each in won if each.ratio is not None]
    ratio, bound = max(known, key=lambda each: each[0], default=(None, None))
    most = f", up to {bounded(f'{ratio:.2f}x', bound)} as fast as the next" if ratio is not None else ""
    return f"  {label} in {len(won)}{most}"
