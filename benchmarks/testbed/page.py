"""docs/fidelity.md: the table, the bars, and where the model is known to be wrong."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from benchmarks.testbed.bench import Outcome
from benchmarks.testbed.cases import BARS, found

PAGE = Path(__file__).parents[2] / "docs" / "fidelity.md"
SHARED = "## Flows that share a link\n"  # which benchmarks/fidelity_shared.py writes
ROUNDS = "## Rounds, end to end\n"  # the last part, which benchmarks/fidelity_rounds.py writes

HEAD = """# Predicted against measured seconds

Real TCP of the Linux kernel between two network namespaces, compared with predictions that use no result of the
measurement. The tables of this part are about `network: {{model: tcp}}` (`network/links/tcp.py`,
`network/sharing/fluid.py`, `network/links/trace.py`); those of `windows`, the default, follow below. Made by

```
sudo .venv/bin/python -m benchmarks.fidelity
```

on {host}; {repetitions} repetitions each. A transfer is a download on a new connection without TLS: seconds from just
before `connect()` until the device has read the last byte. The prediction has two round trips (TCP's and the request's)
before the first byte, slow start as a cap, and headers of 52 bytes a segment.

- *Without latency* the namespaces are joined by a veth behind htb with a burst of 15 kB and a droptail queue of 100 kB.
  htb counts Ethernet's 14 bytes too, 66 in all for each segment, and the prediction grants it its burst. `gso_max_segs
  1` keeps TCP from handing over super-packets, of which htb would let up to 64 kB go at once.
- *With latency*, and for *traces*, packets go through a relay in user space between two TUN devices: half the round
  trip each way, then a droptail queue (four times what the link holds in a round trip, at least 100 kB; 500 kB for
  traces; other sizes are in the row) and the link: a constant rate, or the 1500-byte opportunities of a Mahimahi file
  from the named second on.
- The flows of one row are opened at one instant. *Error* is predicted over measured, less 1, of the makespan (the last
  finish, median of the repetitions); *finishes* are the errors of every single flow in every repetition: the median of
  their sizes, and the worst.
- `tcp_no_metrics_save` is set; everything else is the kernel's default.
"""

WRONG = """


## Where the model is known to be wrong

- **Flows that share a link**, under `model: tcp`. Only for equal flows that begin together, with one round trip and
  deep queues, is the last finish predicted well. With mixed round trips, starts, sizes or shallower queues the
  predicted finish times are optimistic. Single finishes are further off, because TCP is not fair on short flows (the
  worst of *finishes* above). Rounds that close at the first answers or at a deadline carry that error. `model:
  windows`, the default, has queues and windows: see "Flows that share a link" below.
- **Queues that drop.** The fluid model shares equally, fills the link, and has no losses except those of the scenario.
  A cubic flow that lost much recovers slowly when the others have gone: 4 x 5 MB through 50 Mbit/s at 50 ms took 3.7 to
  4.4 s, and 3.5 predicted, with a queue of once or twice what the link holds; with four times, when nothing is dropped,
  3.51 to 3.58 s.
- **A payload that just fills the windows of a few round trips** (100 kB are 70 segments, which is 10 + 20 + 40): if one
  segment misses its window, it costs a round trip more.
- **Random loss.** A loss rate bounds the long-run mean of a window. A short transfer meets few losses and is mostly in
  slow start, so it may be far faster or slower. bbr is assumed to ignore losses.
- **Sharing by round-trip time** (weight 1/RTT) applies to cubic only. What a full queue adds to each round trip is left
  out unless `buffer_kb` of the shared link gives it: flows of 20 and 100 ms share as 5 to 1, and behind a queue of 100
  ms as 1.67 to 1. Such a queue is assumed to be always full; of several queues on one way the longest counts. It
  affects the shares alone, not delays, slow start and windows.
- **Devices on one Wi-Fi** have equal airtime and, on full links behind it, equal weights: the mean of theirs. Both
  directions share the air: two devices on radios of 20 Mbit/s that move 5 MB at once, one down and one up, take 4 s
  each, as with fair queues at the access point; one that takes turns as one station for all its downloads favours
  uploads. Collisions and the airtime of acknowledgements are left out.
- **Slow start on a link whose rate jumps** (mmWave, and Mahimahi files with their spikes of a millisecond). The model's
  windows grow with time, not with acknowledgements, so a window is too large after an outage, and a cap clips a spike
  for which packets would have been waiting. That matters for small payloads at a bad moment. No mmWave trace is
  measured here: a relay in user space cannot carry its rates faithfully.
- **A warm connection that sends a large window at once** into a shallow queue (cubic): 1.24 s, measured once, for 1 MB
  that takes 0.75 s on a new connection.

Not measured here: single uploads, TLS, connections kept alive with latency, more than one bottleneck, and real radios.
"""


def write(transfers: str | None = None, shared: str | None = None, rounds: str | None = None) -> None:
    """Writes the one part of the page that was measured, and leaves the others as they are."""
    before, _, last = (PAGE.read_text() if PAGE.exists() else "").partition(ROUNDS)
    first, _, middle = before.partition(SHARED)
    parts = [(first if transfers is None else transfers).rstrip() + "\n"]
    for heading, old, new in ((SHARED, middle, shared), (ROUNDS, last, rounds)):
        text = (old if new is None else new).strip()
        parts += [f"{heading}\n{text}\n"] if text else []
    PAGE.write_text("\n".join(parts))


def host() -> str:
    """A description of the computer on which the page was measured."""
    return f"Linux {platform.release()}, {os.cpu_count()} cores"


def page(outcomes: Sequence[Outcome], repetitions: int) -> str:
    """The part on transfers."""
    parts = [HEAD.format(host=host(), repetitions=repetitions), "\n## The bars\n", bars(outcomes)]
    for group, members in groupby(outcomes, key=lambda outcome: outcome.case.group):
        parts += [f"\n## {group[0].upper()}{group[1:]}\n", table(list(members))]
    return "\n".join(parts) + WRONG


def bars(outcomes: Sequence[Outcome]) -> str:
    """A line for each bar."""
    lines = ["| transfers | what | found | at most |", "|---|---|---|---|"]
    for bar in BARS:
        figure = found(bar, outcomes)
        said = "not measured" if figure is None else f"{figure:.2%}"
        lines.append(f"| {bar.group} | {bar.what} | {said} | {bar.most:.0%} |")
    return "\n".join(lines)


def table(outcomes: Sequence[Outcome]) -> str:
    """A line for each transfer."""
    lines = [
        "| transfer | congestion control | predicted s | measured s | error | finishes: median, worst | dropped |",
        "|---|---|---|---|---|---|---|",
    ]
    return "\n".join([*lines, *map(line, outcomes)])


def line(outcome: Outcome) -> str:
    """A line with the predicted and the measured seconds of one transfer."""
    spans = sorted(map(max, outcome.measured))
    finishes = outcome.finish_errors
    cells = (
        outcome.case.label,
        outcome.congestion,
        f"{max(outcome.predicted):.3f}",
        f"{outcome.makespan:.3f} ({spans[0]:.3f}-{spans[-1]:.3f})",
        f"{outcome.error:+.1%}",
        f"{statistics.median(map(abs, finishes)):.1%}, {max(finishes, key=abs):+.1%}",
        str(statistics.median_high(outcome.dropped)) if outcome.dropped else "",
    )
    return f"| {' | '.join(cells)} |"
