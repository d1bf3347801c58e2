"""Shows the progress of a command's runs on stderr, in simulated and in real time."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from statistics import fmean
from types import TracebackType
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from emulator.record.targets import Target, value_of

if TYPE_CHECKING:
    from emulator.play.stage import Row
    from emulator.record.run import Run

Seen = tuple[float, float]  # (real seconds since the command began, value)

BARS = "▁▂▃▄▅▆▇█"
FLAT = 0.05  # minimum span of accuracy over the height of a sparkline, so that noise does not look like progress
POINTS = 10  # points in a sparkline
FEWEST = 3  # evaluated rounds that a slope needs
RECENT = 5  # evaluated rounds that determine a slope
LINES = 12
NO_OTHERS: Mapping[str, int] = {}
PACED = 2  # rounds of each run before which the pace is not known
MEASURED = 4  # last rounds of a run whose pace predicts the rest
KNOWN = 0.02  # of the longest of these rounds: shorter ones were in the ledger, and say nothing about those to train
BAR = 20  # characters
SHORTEST = 1e-3  # s, a round
EVERY = 5.0  # s between two lines in a file
SHORTER: tuple[frozenset[str], ...] = (  # parts that lines leave out, for narrower and narrower terminals
    frozenset(),
    frozenset({"speed"}),
    frozenset({"speed", "bars"}),
    frozenset({"speed", "bars", "real"}),
)


def sparkline(values: Sequence[float]) -> str:
    """Draws the last 10 values as bars, scaled from the least to the greatest."""
    last = values[-POINTS:]
    if not last:
        return ""
    low, span = min(last), max(max(last) - min(last), FLAT)
    return "".join(BARS[min(int((value - low) / span * len(BARS)), len(BARS) - 1)] for value in last)


def eta(seen: Sequence[Seen], value: float) -> float | None:
    """Predicts the seconds from the last entry of `seen` until its metric reaches `value`, along the least-squares
    slope of the last 5 entries.

    Returns 0 if the last entry has reached the value and only needs to hold it, and None if the slope is not positive
    or there are fewer than 3 entries.
    """
    last = seen[-RECENT:]
    if len(last) < FEWEST:
        return None
    mean_t, mean_v = (sum(numbers) / len(last) for numbers in zip(*last, strict=True))
    spread = sum((t - mean_t) ** 2 for t, _ in last)
    slope = sum((t - mean_t) * (v - mean_v) for t, v in last) / spread if spread else 0.0
    return max(0.0, value - last[-1][1]) / slope if slope > 0 else None


def clock_face(seconds: float) -> str:
    """Formats seconds as hours, minutes and seconds: `0:41:07`."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"


def about(seconds: float) -> str:
    """Formats an estimate of seconds: `~40 s`, `~4 min`, `~3 h`."""
    if seconds < 59.5:
        return f"~{seconds:.0f} s"
    return f"~{seconds / 60:.0f} min" if seconds < 5370 else f"~{seconds / 3600:.0f} h"


@dataclass
class RunProgress:
    """The progress of one run: its last row and the recent values of its metrics."""

    row: Row
    real: float  # s, arrival of that row
    targets: list[Target]  # not reached yet, easiest first
    max_rounds: int
    seen: dict[str, tuple[Seen, ...]] = field(default_factory=dict)  # metric -> its last values
    ends: tuple[float, ...] = ()  # s, arrival of the last rows
    main: str = "accuracy"  # the task's first metric
    lower: bool = False  # True: lower is better for it
    tops: dict[str, float] = field(default_factory=dict)  # best values so far of the metrics that may be shown
    streaks: dict[Target, tuple[int, float]] = field(default_factory=dict)  # last values that reach it, since when (s)

    @property
    def shown(self) -> str:
        """The name of the metric to show: the task's first, or validation if the test set is not evaluated."""
        return "validation" if "validation" in self.seen and self.main not in self.seen else self.main

    @property
    def best(self) -> float | None:
        return self.tops.get(self.shown)

    def take(self, row: Row, real: float) -> None:
        """Takes a new row, which arrived at `real`, s.

        Replaces containers instead of changing them, because the display reads them in another thread.
        """
        self.row, self.real, self.ends = row, real, (*self.ends, real)[-MEASURED - 1 :]
        better = min if self.lower else max
        for metric in {self.main, "validation", *(target.metric for target in self.targets)}:
            if (value := value_of(row, metric)) is not None:
                self.seen = {**self.seen, metric: (*self.seen.get(metric, ()), (real, value))[-POINTS:]}
                self.tops = {**self.tops, metric: better(self.tops.get(metric, value), value)}
        self.targets = [target for target in self.targets if not self._holds(target, row)]

    def _holds(self, target: Target, row: Row) -> bool:
        """Returns true if the target is reached with this row.  Reading all rows again for this would take too long."""
        if (value := value_of(row, target.metric)) is None:
            return False
        times, since = self.streaks.get(target, (0, row["time_s"]))
        if not target.met(value):
            self.streaks.pop(target, None)
            return False
        self.streaks[target] = times + 1, since
        return times + 1 >= target.hold and row["time_s"] - since >= target.hold_s

    def pace(self, since: float) -> float | None:
        """Returns the real seconds that a round takes: the mean of the last ones that were trained, or `since` if the
        round under way takes that long already; None after a single round."""
        took = [end - start for start, end in pairwise(self.ends)]
        trained = [each for each in took if each >= KNOWN * max(took)]
        return max(fmean(trained), since, SHORTEST) if took else None

    def ahead(self, real: float) -> str:
        """Returns the next target and the estimated real time until it is reached: `0.85 in ~4 min real`.  `real`:
        s, now."""
        if not self.targets:
            return ""
        target = self.targets[0]
        sign = -1 if target.lower else 1  # a slope that rises is one towards the target
        seconds = eta([(t, sign * value) for t, value in self.seen.get(target.metric, ())], sign * target.value)
        name = target.level if target.metric == self.main else target.name
        return f"{name} in {'-' if seconds is None else f'{about(max(0.0, seconds - (real - self.real)))} real'}"

    def curve(self, bars: bool) -> str:
        """Returns the metric, its best value and its curve: `acc 0.71 (best 0.73) ▁▃▆█`; without `bars` no curve."""
        values = [value for _, value in self.seen.get(self.shown, ())]
        if not values:
            return ""
        top = values[-1] if self.best is None else self.best
        best = f" (best {top:.2f})" if round(top, 2) != round(values[-1], 2) else ""
        name = "acc" if self.main == "accuracy" else self.main
        return f"{name} {values[-1]:.2f}{best}" + (f" {sparkline(values)}" if bars else "")


class Progress:
    """The display of a command's runs: a line for each run on a terminal; elsewhere one dated line for all, every 5 s
    at most.

    `labels`: the rounds of a run of each algorithm, which may differ from `max_rounds`.
    `early`: runs may end before their last round.  `until`: virtual seconds after which no round begins, if given.
    `at_once`: the most runs that are played at the same time.  `last`: as many rounds as a run's last one takes.
    `main`, `lower`: the task's first metric, and True if lower is better.  With `quiet`, no rounds are shown, only
    messages.  Colours follow NO_COLOR (rich does).
    """

    def __init__(
        self,
        targets: Sequence[Target],
        max_rounds: int,
        *,
        labels: Mapping[str, int] = NO_OTHERS,
        runs: int = 1,
        early: bool = False,
        until: float | None = None,
        at_once: int = sys.maxsize,
        last: float = 1.0,
        quiet: bool = False,
        console: Console | None = None,
        main: str = "accuracy",
        lower: bool = False,
        clock: Callable[[], float] = time.monotonic,
        today: Callable[[], datetime] = lambda: datetime.now().astimezone(),
    ) -> None:
        self.console = Console(stderr=True) if console is None else console
        self.targets = sorted(targets, key=lambda target: target.hardness)
        self.main, self.lower = main, lower
        self.max_rounds, self.runs, self.quiet = max_rounds, runs, quiet
        self.early, self.until, self.at_once, self.last = early, until, at_once, last
        self.clock, self.today = clock, today
        self.began = clock()
        self.written = self.began  # s by the clock; time of the last line
        self.title = ""  # title of these runs, if a command plays several groups
        self.paces: dict[Run, RunProgress] = {}
        self.labels = labels
        self.live: Live | None = None

    def __enter__(self) -> Progress:
        if self.console.is_terminal and not self.console.is_dumb_terminal and not self.quiet:
            # stdout may be a file, which must not contain this text
            self.live = Live(console=self.console, get_renderable=self.frame, redirect_stdout=False)
            self.live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.live:
            self.live.stop()
            self.live = None

    def begin(self, title: str) -> None:
        """Starts a new group of runs with this title."""
        self.title, self.began, self.paces = title, self.clock(), {}

    def tell(self, run: Run, row: Row) -> None:
        """Updates the display with the row of a round that has ended."""
        real = self.clock() - self.began
        # the latest run last; a new dict, because the display is reading the old one
        paces = {other: pace for other, pace in self.paces.items() if other != run}
        most, known = self.labels.get(run.label, self.max_rounds), self.paces.get(run)
        paces[run] = known or RunProgress(row, real, self.targets, most, main=self.main, lower=self.lower)
        paces[run].take(row, real)
        self.paces = paces
        if not (self.live or self.quiet) and self.clock() - self.written >= EVERY:
            self.written = self.clock()
            self._write(f"{self.today().isoformat(timespec='seconds')} {self._plain(run, row, real)}")

    def say(self, text: str) -> None:
        """Prints a message; on a terminal it stands above the lines of the runs."""
        if self.live:
            self.console.print(Text(text), soft_wrap=True)
        else:
            self._write(text)

    def frame(self) -> Group:
        """Draws a line for each run, in order.  If there are too many for the terminal, draws those that changed
        last."""
        paces = self.paces
        if not paces:
            since = f"{clock_face(self.clock() - self.began)} real"
            return Group(*self._title, Text(f"starting the workers and the first rounds ... {since}", style="dim"))
        overall = [Text(self._overall(), no_wrap=True)] if self.runs > 1 else []
        room = max(1, min(LINES, self.console.height - 2 - len(self._title) - len(overall)))
        latest = list(paces)[-room:]
        order = {label: place for place, label in enumerate(self.labels)}
        latest.sort(key=lambda run: (order.get(run.label, len(order)), run.seed))
        runs = {run: paces[run] for run in latest}
        for without in SHORTER:
            width = max((len(_name(run)) for run in runs), default=0)
            lines = []
            for run, pace in runs.items():
                line = Text(no_wrap=True, overflow="ellipsis")
                line.append(f"{_name(run):<{width}}", style="bold")
                lines.append(line.append("  " + " · ".join(filter(None, self._parts(pace, without)))))
            if all(len(line) <= self.console.width for line in lines):
                break
        rest = len(paces) - len(latest)
        if rest:
            lines.append(Text(f"and {rest} more run{'s' * (rest > 1)}", style="dim"))
        return Group(*self._title, *lines, *overall)

    def _overall(self) -> str:
        """Returns the line for all runs together: `all  ━━━━━━━━────────────  96 of 240 rounds · ~4 min left`."""
        ended, total = self._ended(), self._most()
        filled = BAR * ended // total
        most = "at most " if self.early else ""
        rest = f" · {left} real left" if (left := self.time_left()) else ""
        return f"all  {'━' * filled}{'─' * (BAR - filled)}  {ended} of {most}{total} rounds{rest}"

    def time_left(self) -> str:
        """Returns the real time left as text, `at most ~4 min`; "" if it is not known, or under half a second."""
        left = self.left(self.clock() - self.began)
        return f"{'at most ' if self.early else ''}{about(left)}" if left and left >= 0.5 else ""

    def left(self, real: float) -> float | None:
        """Returns the real seconds until all rounds of all runs are played, if each run under way keeps its pace.

        None before two rounds of each run are over, or of as many runs as are played at the same time.  `real`: s, now.
        """
        rest, paces = self._most() - self._ended(), self.paces
        least = min(PACED, self.max_rounds)
        paced = [pace for pace in paces.values() if pace.row["round"] + 1 >= least]
        if rest == 0 or len(paced) < min(self.runs, self.at_once):
            return 0.0 if rest == 0 else None
        playing = [pace for pace in paced if self._playing(pace)] or paced[-1:]
        known = [(real - pace.real, each) for pace in playing if (each := self._pace(pace, real)) is not None]
        if not known:
            return None
        ended = sum(not self._playing(pace) for pace in paces.values())
        more = (self.last - 1) * (self.runs - ended)  # of the last rounds
        return max(0.0, rest + more - sum(since / each for since, each in known)) / sum(1 / each for _, each in known)

    def round_of_all(self) -> float | None:
        """Returns the real seconds until each run under way has completed one more round; None if no pace is known
        yet."""
        real = self.clock() - self.began
        known = [self._pace(pace, real) for pace in self.paces.values() if self._playing(pace)]
        return max((each for each in known if each is not None), default=None)

    def _pace(self, pace: RunProgress, real: float) -> float | None:
        """Returns the real seconds that a round of the run takes, of which its last one takes several times as many."""
        final = pace.row["round"] + 2 == pace.max_rounds
        return pace.pace((real - pace.real) / (self.last if final else 1.0))

    def _playing(self, pace: RunProgress) -> bool:
        return bool(pace.row["round"] + 1 < pace.max_rounds)

    def _most(self) -> int:
        """Returns the most rounds that all runs together can have.

        If rounds stop after `until` virtual seconds, each run's rounds are taken to last as long as those before.  Runs
        that have not begun count as the mean of the others.
        """
        if self.until is None or not self.paces:
            return (
                sum(self.labels.values()) * self.runs // len(self.labels)
                if self.labels
                else self.max_rounds * self.runs
            )
        known = []
        for pace in self.paces.values():
            ended, length = int(pace.row["round"]) + 1, pace.row["time_s"]
            most = min(pace.max_rounds, math.ceil(ended * self.until / length)) if length else ended
            known.append(max(ended, most))
        return sum(known) + math.ceil(sum(known) / len(known)) * (self.runs - len(known))

    def _ended(self) -> int:
        """Returns how many rounds have ended, over all runs."""
        return sum(pace.row["round"] + 1 for pace in self.paces.values())

    @property
    def _title(self) -> list[Text]:
        return [Text(self.title, no_wrap=True, overflow="ellipsis")] if self.title else []

    def _parts(self, pace: RunProgress, without: Set[str]) -> list[str]:
        ended = not self._playing(pace)
        real = pace.real if ended else self.clock() - self.began
        return [
            f"{pace.row['round'] + 1:>{len(str(pace.max_rounds))}}/{pace.max_rounds} rounds",
            f"{clock_face(pace.row['time_s'])} simulated",
            "" if "real" in without else f"{clock_face(real)} real",
            "" if "speed" in without else _speed(pace.row["time_s"], pace.real),
            pace.curve(bars="bars" not in without),
            "" if ended else pace.ahead(real),
        ]

    def _plain(self, run: Run, row: Row, real: float) -> str:
        """Returns the line for a file: the progress of all runs together, and of the run that has just ended a
        round."""
        metric = self.paces[run].shown
        parts = [
            self.title,
            f"{self._ended()} of {'at most ' if self.early else ''}{self._most()} rounds",
            f"{clock_face(real)} real",
            f"{left} left" if (left := self.time_left()) else "",
            f"{run.label} seed {run.seed}: {row['round'] + 1}/{self.paces[run].max_rounds} rounds",
            f"{clock_face(row['time_s'])} simulated",
            _speed(row["time_s"], real),
            "" if (value := value_of(row, metric)) is None else f"{metric} {value:.3f}",
        ]
        return " · ".join(part for part in parts if part)

    def _write(self, text: str) -> None:
        """Writes a line directly to the file: rich would wrap the line at an assumed width."""
        file: Any = self.console.file
        file.write(text + "\n")
        file.flush()


def _name(run: Run) -> str:
    return f"{run.label} s{run.seed}"


def _speed(simulated: float, real: float) -> str:
    if real <= 0:
        return ""
    speed = simulated / real
    return f"{speed:.0f}x" if speed >= 10 else f"{speed:.1f}x"
