"""The forecast of `check` as text for a terminal of at least 80 columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import chain
from typing import TYPE_CHECKING

from rich.console import Console, RenderableType
from rich.markup import escape
from rich.table import Table

from emulator.forecast.breakeven import FATES
from emulator.forecast.mean_round import MeanRound
from emulator.results.units import counted, duration, joined, of_bytes, of_energy, under
from emulator.wording.heat_map import heat_map
from emulator.wording.layout import columns, filled, grid, printed, short
from emulator.wording.names import CALLED

if TYPE_CHECKING:
    from emulator.forecast.effort import Effort
    from emulator.forecast.groups import FleetGroup, Span
    from emulator.forecast.plan import Course, Forecast
    from emulator.forecast.shared import FilledLink


def text(plan: Forecast) -> str:
    """Returns the whole forecast as text, without colours."""
    width = columns()
    parts: list[RenderableType] = [
        *_deadline(plan, width),
        filled(_opening(plan), width),
        *(filled(line, width) for line in chain(_travel(plan), _versions(plan), _choices(plan))),
        *_devices(plan, width),
        *([_shared(plan)] if plan.shared else []),
        _rounds(plan),
        _break_even(plan, width),
        _memory(plan),
        _host(plan, width),
        heat_map(plan.labels, width, plan.devices),
    ]
    return printed(parts, width)


def _deadline(plan: Forecast, width: int) -> Iterator[str]:
    """Yields a warning for each algorithm whose replies are too late for the deadline of a round.

    The warnings are the first lines of the forecast, because late replies affect all other figures.
    """
    for label, enough in plan.too_short.items():
        advice = f"; {enough:g} s is enough" if enough is not None else ""
        cost = plan.prices[label]
        said = f"on average {cost.late:.1f} of {short(cost.asked)} selected devices are late"
        yield filled(f"rounds.deadline_s is too short for {label}: {said}{advice}", width)


def _opening(plan: Forecast) -> str:
    first, last = next(iter(plan.prices.values())).rounds
    courses = dict[str, list[str]]()  # by course: the labels that have it
    for label, of in plan.courses.items():
        courses.setdefault(_course(of), []).append(label)
    course = "; ".join(said if len(courses) == 1 else f"{joined(of)}: {said}" for said, of in courses.items())
    mean = f"of round {first}"
    if last > first:
        rounds = f"{first} to {last}" if len(courses) == 1 else f"{first} on"
        mean = f"means of rounds {rounds}, each kind of round weighted by how often it occurs in the run"
    return (
        f"{plan.name}: {counted(plan.devices, 'device')}; {course}, {counted(plan.seeds, 'seed')}. Nothing was "
        f"trained: rounds were simulated with seed {plan.seed}, and figures are {mean}. {under(plan.network)}."
    )


def _course(of: Course) -> str:
    """Returns a phrase on how many devices are selected, which replies make a round or a version, and how many there
    are at most."""
    closing = "1 reply closes" if of.needed == 1 else f"{of.needed} replies close"
    if of.mode == "sync":
        return f"{of.asked} selected per round, {closing} it; at most {counted(of.rounds, 'round')}"
    make = "1 reply makes" if of.needed == 1 else f"{of.needed} replies make"
    return (
        f"{of.asked} at work, and {make} a version of the model, which the tables call a round; at most "
        f"{counted(of.rounds, 'version')}, counted as {counted(of.turns, 'round')} of {of.asked} replies"
    )


def _travel(plan: Forecast) -> Iterator[str]:
    """Yields what of the model travels, if not all of it does."""
    if plan.travel is None:
        return
    travels, kept, frozen, whole = (
        of_bytes([size]).full(size)
        for size in (
            *(plan.travel.travels, plan.travel.kept, plan.travel.frozen),
            plan.travel.brought * plan.devices,
        )
    )
    parts = [f"{travels} travel with each message"]
    if plan.travel.kept:
        parts.append(f"{kept} never leave a device, which keeps its own")
    if plan.travel.frozen:
        once = f"travel once to each device ({whole} to all of them), in none of the rounds below"
        parts.append(f"{frozen} are frozen, and {once if plan.travel.brought else 'are on the devices already'}")
    yield f"Of the model {'; '.join(parts)}."


def _versions(plan: Forecast) -> Iterator[str]:
    """Yields for each algorithm with asynchronous rounds how fast versions follow one another, and how stale replies
    are."""
    for label, cost in plan.prices.items():
        if plan.courses[label].mode == "sync":
            continue
        replies = f"replies are {cost.staleness or 0:.1f} versions old on average"
        yield f"{label}: {3600 / cost.seconds:.4g} versions an hour; {replies}."


def _choices(plan: Forecast) -> Iterator[str]:
    """Yields for each algorithm whose devices are not drawn at random what the rehearsal knows of that choice."""
    for label, name in plan.selections.items():
        yield (
            f"{label}: {name} chooses the devices. The rehearsal knows the seconds of earlier replies, but no losses "
            f"of a model that learns, so a run may choose others, whose rounds are shorter or longer."
        )


def _devices(plan: Forecast, width: int) -> list[Table]:
    """Returns the groups of devices with their hardware and their seconds per round, as one table, or as two tables if
    one would be wider than the terminal."""
    baseline = next(iter(plan.prices))
    varying = any(group.repeats is not None for group in plan.groups)
    seconds = f"seconds per {baseline} round for a device with its links to itself"
    seconds += ", at their peak rate" if varying else ""
    mean = "; ~ marks the mean of a varying rate" if varying else ""
    what, long = [_hardware(group) for group in plan.groups], [_seconds(group, baseline) for group in plan.groups]
    names = [(_called(group),) for group in plan.groups]
    both = _rows(f"Devices, and {seconds}{mean}", (*HARDWARE, *PARTS), names, what, long)
    if Console(width=1000).measure(both).maximum <= width:
        return [both]
    again = [(name.partition("\n")[0],) for (name,) in names]  # the first table already says when a group is online
    return [
        _rows(f"Devices{mean}", HARDWARE, names, what),
        _rows(f"{seconds[0].upper()}{seconds[1:]}", PARTS, again, long),
    ]


HARDWARE = ("GFLOP/s", "MB", "Mbit/s\ndown", "Mbit/s\nup", "ms")
PARTS = ("down", "compute", "up", "round")


def _rows(title: str, numbers: Sequence[str], *columns: Sequence[Sequence[str]]) -> Table:
    table = grid(title, "devices", numbers=numbers)
    for column in table.columns:
        column.no_wrap = True
    for parts in zip(*columns, strict=True):
        table.add_row(*chain.from_iterable(parts))
    return table


def _hardware(group: FleetGroup) -> Sequence[str]:
    varies = "" if group.repeats is None else "~"
    return (
        _span(group.flops_per_s, 1e9),
        _span(group.memory_bytes, 1e6),
        *(f"{varies}{_span(rate, 1e6 / 8)}" for rate in (group.down, group.up)),
        _span(group.latency, 1e-3),
    )


def _seconds(group: FleetGroup, baseline: str) -> Sequence[str]:
    """Returns the seconds of a group's devices in a round of the baseline, as texts: download, compute, upload, all."""
    return [_span(group.alone[baseline][part]) for part in ("down", "compute", "up", "seconds")]


def _shared(plan: Forecast) -> Table:
    """Returns a table of each shared link's traffic in a round, in MB, and the seconds that the link needs for it."""
    title = "Shared links: traffic per round, and how long it takes if nothing else limits it"
    table = grid(title, "link", "algorithm", numbers=("Mbit/s\ndown / up", "MB\ndown", "s", "MB\nup", "s"))
    for link in plan.shared:
        name, rates = escape(link.name), _shared_rates(link)
        for label, ways in link.carried.items():
            figures = [part for way in ("down", "up") for part in (ways[way].nbytes / 1e6, ways[way].seconds)]
            table.add_row(name, escape(label), rates, *map(short, figures))
            name = rates = ""
    return table


def _shared_rates(link: FilledLink) -> str:
    if link.airtime:
        return "airtime"
    return " / ".join(short((rate or 0.0) * 8e-6) for rate in (link.rates["down"], link.rates["up"]))


def _called(group: FleetGroup) -> str:
    lines = [f"{group.count} {escape(group.name)}"]
    if group.never_on:
        lines.append(f"{group.never_on} never online")
    if group.never_on < group.sometimes_off:
        shares = ((group.online_day, "a day"), (group.online_run, "a run"))
        lines += [f"online {_percent(share)} of {what}" for share, what in shares]
    return "\n".join(lines)


def _percent(share: float) -> str:
    return "over 99 %" if 0.99 < share < 1 else f"{100 * share:.0f} %"


def _rounds(plan: Forecast) -> Table:
    """Returns a table with the parts of a round of each algorithm: seconds on the path of the device whose reply closes
    the round, and the MB of all devices."""
    title = "A round: seconds of the device whose reply closes it, MB of all devices"
    table = grid(title, "algorithm", "part", "seconds", "MB", "of which")
    for heading in (2, 3):
        table.columns[heading].justify = "right"
    for label, cost in plan.prices.items():
        name = escape(label)
        for part, seconds, way, kinds in _parts(cost):
            moved = short(sum(way.values()) / 1e6) if way else ""
            table.add_row(name, part, short(seconds), moved, escape(kinds))
            name = ""
        both = sum(cost.down_bytes.values()) + sum(cost.up_bytes.values())
        if cost.counted < cost.asked:
            table.add_row(name, "replies", "", "", _fates(cost))
            name = ""
        table.add_row(name, "round", short(cost.seconds), short(both / 1e6), f"{short(cost.flops / 1e9)} GFLOP")
        if label in plan.bands:
            low, high = map(short, plan.bands[label])
            table.add_row("", "", f"{low} to {high}", "", "random variation on full links")
        if cost.joules is not None:
            unit = of_energy([cost.joules])
            table.add_row(
                "", "energy", "", "", f"{short(cost.joules / unit.size)} {unit.name}, of all selected devices"
            )
        table.add_row("", "run", duration(cost.span_s), "", _of_run(cost, plan.courses[label].rounds))
        table.add_section()
    return table


def _of_run(cost: MeanRound, rounds: int) -> str:
    """Returns a phrase on a run's rounds: how many were simulated, without training, and how long these take,
    and how many more there are."""
    played = cost.rounds[1] + 1
    rest = rounds - played
    if rest <= 0:
        return f"{counted(rounds, 'round')}, all simulated, unless a target stops the run"
    return f"{played} simulated, {duration(cost.played_s)}, and {rest} more like them, unless a target stops the run"


def _fates(cost: MeanRound) -> str:
    """Returns a phrase on how many replies of the selected devices are aggregated in a round, and how many of the
    others are late, lost or refused."""
    if cost.staleness is not None:
        earlier = cost.replies - cost.counted
        return f"{cost.replies:.3g} aggregated, {earlier:.1f} of them from devices selected in earlier rounds"
    others = [f"{getattr(cost, fate):.1f} {fate}" for fate in FATES if getattr(cost, fate)]
    return f"{cost.counted:.3g} of {cost.asked:.3g} selected are aggregated: {', '.join(others)}"


def _parts(cost: MeanRound) -> Iterator[tuple[str, float, Mapping[str, float], str]]:
    """Yields the parts of an algorithm's round: name, seconds, bytes by kind of message, and a text on the kinds.

    Leaves out parts that would be shown as 0.
    """
    least = 0.005 * cost.seconds
    parts: list[tuple[str, Mapping[str, float], Mapping[str, float]]] = [
        ("set-up", {"": cost.setup_s}, {}),
        ("down", cost.down_s, cost.down_bytes),
        ("compute", cost.compute_s, {}),
        ("up", cost.up_s, cost.up_bytes),
        ("server", cost.server_s, {}),
        ("waiting", {"": cost.wait_s}, {}),
    ]
    for part, seconds, moved in parts:
        total = sum(seconds.values())
        if moved or total >= least:
            kinds = {kind: size / 1e6 for kind, size in moved.items()} or seconds
            yield part, total, moved, _kinds(kinds, "MB" if moved else "s")


def _kinds(parts: Mapping[str, float], unit: str) -> str:
    """Returns the names of the kinds in `parts`, each with its amount in `unit` if there are several.

    Leaves out kinds whose amount would be shown as 0.
    """
    total = sum(parts.values())
    seen = {kind: value for kind, value in parts.items() if value >= 0.005 * total and value > 0}
    if len(seen) < 2:
        return next((CALLED.get(kind, kind) for kind in seen), "")
    return ", ".join(f"{CALLED.get(kind, kind)} {short(value)} {unit}" for kind, value in seen.items())


def _break_even(plan: Forecast, width: int) -> str:
    lines = list(plan.sentences.values())
    if plan.failing:
        lines.append(f"no round of {', '.join(plan.failing)} succeeds, so there is nothing to compare")
    elif len(plan.prices) == 1:
        lines.append("there is only one algorithm; add others to compare it with")
    if plan.ratios:
        lines.append(
            "(down and up are ratios of bytes, compute is one of seconds on the same devices; a round ends with the "
            "last reply that is aggregated)"
        )
    return "\n".join(["Break-even", *(filled(line, width, "  ") for line in lines)])


def _memory(plan: Forecast) -> Table:
    """Returns a table of the memory of a training device, in MB, with a row for each algorithm.

    Algorithms are not columns, because long labels in column headings would be cut until they look alike.
    """
    table = grid("Memory of a training device (without runtime and data)", "algorithm", "MB", "of which")
    table.columns[0].no_wrap, table.columns[1].justify = True, "right"
    for label, found in plan.memory.items():
        parts = {name: size / 1e6 for name, size in asdict(found).items()}
        table.add_row(escape(label), short(found.total / 1e6), _kinds(parts, "MB"))
    return table


def _host(plan: Forecast, width: int) -> str:
    effort, host = plan.effort, plan.effort.host
    runs = len(plan.prices) * plan.seeds
    take, them = ("takes", "it") if runs == 1 else ("take", "them")
    speed = f"{counted(host.workers, 'worker')} at {host.flops_per_s / 1e9:.1f} GFLOP/s each in training"
    minutes = f"about {short(effort.seconds / 60, 2)} minutes{_between(effort)}"
    taken = f"{minutes} and {effort.memory_bytes / 1e9:.1f} GB of memory"
    lines = [
        f"{counted(runs, 'run')} {take} {taken}, unless a target stops {them} earlier",
        f"over sockets, {_keeps(effort)}",
        *_alone(plan),
    ]
    told = [filled(line, width, "  ") for line in lines]
    return "\n".join([filled(f"This computer: {speed}, measured just now", width), *told])


def _alone(plan: Forecast) -> Iterator[str]:
    """Yields a line for each reason why devices are trained one by one instead of in stacks (several devices computed
    together), with its algorithms."""
    for why in dict.fromkeys(plan.alone.values()):
        labels = [label for label, its in plan.alone.items() if its == why]
        whose = "" if plan.alone.keys() == plan.prices.keys() == set(labels) else f" of {joined(labels)}"
        yield f"devices{whose} train one by one, not in stacks: {why}"


def _between(effort: Effort) -> str:
    """Returns the minutes for the runs at this computer's fastest and slowest measured speed; "" if these speeds differ
    by less than 10 %."""
    host = effort.host
    if not host.samples or host.samples[-1] < 1.1 * host.samples[0]:
        return ""
    least, most = (
        short(effort.seconds / 60 * host.flops_per_s / rate, 2) for rate in (host.samples[-1], host.samples[0])
    )
    return f" ({least} to {most} at the fastest and slowest of {len(host.samples)} measured speeds)"


def _keeps(effort: Effort) -> str:
    training, everything = effort.speedup, min(effort.speedup, effort.server_speedup)
    said = f"this computer keeps the modelled times up to about --speedup {short(everything, 2)}"
    if everything < training:
        said = f"{said} (training alone up to {short(training, 2)})"
    return f"{said}; at any speed-up, each message takes a few ms more"


def _span(span: Span, unit: float = 1.0) -> str:
    """Returns a range in multiples of `unit`, such as `0.22 to 0.35`; one value, such as `3.2`, if both ends would look
    alike."""
    low, high = (short(value / unit, 2) for value in (span.low, span.high))
    return short(span.low / unit) if span.low == span.high else low if low == high else f"{low} to {high}"
