"""Results as flat records, one for each row of a table, for programs, data frames and files.

Every record has `label` and `seed`, so tables of several runs can be joined.  Rounds count from 1, as in reports.
"""

from __future__ import annotations

import csv
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from typing import IO, Any

from emulator.record.call import version
from emulator.record.events import (
    Asked,
    Closed,
    ComputeCut,
    ComputeEnded,
    ComputeStarted,
    Event,
    Opened,
    TransferCut,
    TransferEnded,
    TransferStarted,
)
from emulator.record.targets import Target, reached, value_of
from emulator.results.results import Results, Row
from emulator.results.results import targets as targets_of
from emulator.results.summary import FATES, joules
from scenarios.builders.roster import Roster


@dataclass(frozen=True)
class RoundRow:
    """A round of a run, a row of the table of rounds.  Seconds are virtual; the six parts of the round's time are those
    of its critical path, the path of the device whose reply closed it."""

    label: str
    seed: int
    round: int  # from 1
    time_s: float  # when its global model was ready
    accuracy: float | None  # on the test set; None: not evaluated
    validation: float | None  # on held-out examples of the devices
    loss: float | None
    initial: float | None  # mean accuracy over devices of the global model that was sent
    personalised: float | None  # after one local training, mean over devices
    bytes_down: int
    bytes_up: int
    wasted_bytes: int
    asked: int  # devices
    counted: int
    late: int
    lost: int
    refused: int
    joules: float | None  # energy of the asked devices; None: not known
    setup_s: float
    down_s: float
    compute_s: float
    up_s: float
    server_s: float
    wait_s: float
    values: Mapping[str, float | None]  # by name: the task's other metrics on the test set


@dataclass(frozen=True)
class Happened:
    """An event of a run, a row of the table of its timeline."""

    label: str
    seed: int
    t_s: float
    event: str  # open, down.start, down.end, compute.start, ..., close
    round: int | None  # from 1
    device: str | None
    details: str  # the line, as JSON


@dataclass(frozen=True)
class TransferRow:
    """A transfer of a message or of a part of it, a row of the table of transfers."""

    label: str
    seed: int
    round: int  # from 1
    device: str
    way: str  # down | up
    start_s: float
    end_s: float | None  # None: the record ended during the transfer
    bytes: int  # that were transferred; 0 if the record ended during the transfer
    whole: bool  # False: cut off


@dataclass(frozen=True)
class DeviceRow:
    """A device of the fleet in a run, a row of the table of devices: sums over the completed rounds, zeros if it was
    never asked."""

    label: str
    seed: int
    name: str
    group: str
    profile: str
    asked: int  # rounds
    counted: int  # rounds
    bytes_down: int  # including transfers that were cut
    bytes_up: int
    compute_s: float
    transfer_s: float  # both ways, with latency and set-up
    wait_s: float | None  # the rest of the rounds in which it was asked, including time offline; None: not recorded
    joules: float | None  # in these rounds; None: not known


@dataclass(frozen=True)
class TargetRow:
    """A target of a run, a row of the table of targets: what the run took to reach it.  Its numbers are None if the run
    never did."""

    label: str
    seed: int
    metric: str
    value: float
    hold: int  # evaluations in a row
    reached: bool
    time_s: float | None
    rounds: int | None
    bytes_down: int | None  # of all devices
    bytes_up: int | None
    joules: float | None  # of the asked devices; None also if it is not known


@dataclass(frozen=True)
class SettingsRow:
    """The settings of a run, a row of the table of settings; each setting is a column of its own."""

    label: str
    seed: int
    values: Mapping[str, Any]  # by path, as in training.lr; those that differ from the default, and lr, epochs, batch


METRICS = ("accuracy", "validation", "loss", "initial", "personalised")
PARTS = ("setup_s", "down_s", "compute_s", "up_s", "server_s", "wait_s")
TABLES: dict[str, type[Any]] = {
    "targets": TargetRow,
    "settings": SettingsRow,
    "rounds": RoundRow,
    "devices": DeviceRow,
    "transfers": TransferRow,
    "events": Happened,
}
NO_SETTINGS = {"name", "seeds", "published", "protocol", "expect", "tuned", "tune", "study", "small"}
APART = {"fleet", "algorithms"}  # keys whose settings get other names
ALWAYS = ("lr", "epochs", "batch")


def rounds(results: Results) -> Iterator[RoundRow]:
    for label, seeds in results.runs.items():
        for seed in seeds:
            yield from rounds_of(label, seed, results)


def rounds_of(label: str, seed: int, results: Results) -> list[RoundRow]:
    """Returns the rounds of one run."""
    others = [name for name in results.scenario.metrics if name not in METRICS]
    return [_round(label, seed, row, others) for row in results.runs[label][seed]]


def _round(label: str, seed: int, row: Row, others: Sequence[str]) -> RoundRow:
    known: dict[str, Any] = {name: row.get(name) for name in METRICS}
    known |= {fate: row[fate] for fate in FATES} | {part: _sum(row["critical"][part]) for part in PARTS}
    return RoundRow(
        label=label,
        seed=seed,
        round=row["round"] + 1,
        time_s=row["time_s"],
        bytes_down=sum(row["bytes"].get("down", {}).values()),
        bytes_up=sum(row["bytes"].get("up", {}).values()),
        wasted_bytes=int(_sum(row["wasted_bytes"])),
        joules=joules([row]),
        values={name: value_of(row, name) for name in others},
        **known,
    )


def _sum(value: Any) -> float:
    return float(sum(value.values()) if isinstance(value, dict) else value)


def _timelines(results: Results) -> Iterator[tuple[str, int, Iterable[Event]]]:
    for label, seeds in results.runs.items():
        for seed in seeds:
            yield label, seed, results.events(label, seed)


def events(results: Results) -> Iterator[Happened]:
    for label, seed, timeline in _timelines(results):
        for event in timeline:
            line = event.plain
            number, device = line.get("round"), line.get("device")
            at = (float(line["t"]), str(line["event"]), None if number is None else number + 1, device)
            yield Happened(label, seed, *at, json.dumps(line, sort_keys=True))


def transfers(results: Results) -> Iterator[TransferRow]:
    for label, seed, timeline in _timelines(results):
        open_: dict[tuple[str, str], TransferStarted] = {}
        for event in timeline:
            match event:
                case TransferStarted():
                    open_[event.device, event.way] = event
                case TransferEnded():
                    if start := open_.pop((event.device, event.way), None):
                        yield _transfer(label, seed, start, event.t, start.nbytes, whole=True)
                case TransferCut():
                    if start := open_.pop((event.device, event.way), None):
                        yield _transfer(label, seed, start, event.t, event.nbytes, whole=False)
                case _:
                    pass
        yield from (_transfer(label, seed, start, None, 0, whole=False) for start in open_.values())


def _transfer(
    label: str, seed: int, start: TransferStarted, end: float | None, carried: int, *, whole: bool
) -> TransferRow:
    return TransferRow(label, seed, start.round + 1, start.device, start.way, start.t, end, carried, whole)


def devices(results: Results) -> Iterator[DeviceRow]:
    fleet = Roster(tuple((group.name or group.profile, group.count) for group in results.scenario.fleet))
    for label, seed, timeline in _timelines(results):
        did = activities(results.rows(label, seed), timeline)
        for name in fleet:
            group = results.scenario.fleet[fleet.place(name)[0]]
            yield DeviceRow(
                label, seed, name, group.name or group.profile, group.profile, *astuple(did.get(name, Activity()))
            )


def targets(results: Results) -> Iterator[TargetRow]:
    aims = targets_of(results.scenario)
    for label, seeds in results.runs.items():
        for seed, rows in seeds.items():
            yield from (_target(label, seed, rows, each) for each in aims)


def _target(label: str, seed: int, rows: Sequence[Row], target: Target) -> TargetRow:
    said, row = (target.metric, target.value, target.hold), reached(rows, target)
    if row is None:
        return TargetRow(label, seed, *said, False, None, None, None, None, None)
    so_far = [earlier for earlier in rows if earlier["round"] <= row["round"]]
    down, up = (sum(sum(each["bytes"].get(way, {}).values()) for each in so_far) for way in ("down", "up"))
    return TargetRow(label, seed, *said, True, row["time_s"], row["round"] + 1, down, up, joules(so_far))


def settings(results: Results) -> Iterator[SettingsRow]:
    """Yields a row for each run.  Whoever reads results runs no code of algorithms, so an algorithm's preset is shown
    by its name."""
    scenario = results.scenario
    said = scenario.model_dump(mode="json", exclude_defaults=True, exclude=NO_SETTINGS | APART)
    named = [(group.name or group.profile, group) for group in scenario.fleet]
    fleet = {name: group.model_dump(mode="json", exclude_defaults=True, exclude={"name"}) for name, group in named}
    for entry in scenario.algorithms:
        training = scenario.training.model_dump(include={*ALWAYS, *said.get("training", {})})
        own = {key: value for key, value in entry.options.items() if key != "training"}
        training |= entry.options.get("training") or {}
        values = dict(_flat({**said, "training": training, "fleet": fleet, "algorithm": entry.key, "options": own}))
        yield from (SettingsRow(entry.name, seed, values) for seed in results.runs.get(entry.name, {}))


def _flat(said: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Yields the values of nested mappings by path; a list is one value, as JSON."""
    for key, value in said.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", json.dumps(value) if isinstance(value, list | tuple) else value


READERS: Mapping[str, Callable[[Results], Iterator[Any]]] = {
    "targets": targets,
    "settings": settings,
    "rounds": rounds,
    "devices": devices,
    "transfers": transfers,
    "events": events,
}


def columns(of: Sequence[Any], table: str) -> dict[str, list[Any]]:
    """Returns records of this table as columns, by field name; without records every column is empty.  A setting that
    has numbers and other values in one table is text in all its rows, because a column of a frame has one type."""
    names = [field.name for field in fields(TABLES[table]) if field.name != "values"]
    found = {name: [getattr(each, name) for each in of] for name in names}
    paths = dict.fromkeys(path for each in of for path in getattr(each, "values", ()))
    return found | {path: _alike([each.values.get(path) for each in of]) for path in paths}


def _alike(values: Sequence[Any]) -> list[Any]:
    kinds = {type(value) for value in values if value is not None}
    if kinds <= {int, float}:
        return [value if value is None or len(kinds) == 1 else float(value) for value in values]
    return list(values) if len(kinds) == 1 else [None if value is None else str(value) for value in values]


def write_csv(of: Sequence[Any], table: str, file: IO[str]) -> None:
    """Writes records of this table as CSV with a line of headings; unknown values are empty cells."""
    found = columns(of, table)
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(found)
    writer.writerows(["" if value is None else value for value in row] for row in zip(*found.values(), strict=True))


@dataclass
class Activity:
    """One device's totals over a run; seconds are virtual."""

    asked: int = 0  # rounds
    counted: int = 0  # rounds
    bytes_down: int = 0
    bytes_up: int = 0
    compute_s: float = 0.0
    transfer_s: float = 0.0
    wait_s: float | None = 0.0  # None: the record does not tell
    joules: float | None = 0.0  # None: not known

    def ask(self, name: str, row: Mapping[str, Any] | None) -> None:
        """Adds a round in which the device `name` was asked; `row` is the round's row in the record, None if the device
        is asked again for a version, whose row has the sums."""
        self.asked += 1
        if row is None:
            return
        *_, idle = row.get("seconds", {}).get("devices", {}).get(name, (None,))
        self.wait_s = _plus(self.wait_s, idle)
        self.joules = _plus(self.joules, row.get("joules", {}).get(name))

    def transfer(self, start: TransferStarted, stop: TransferEnded | TransferCut) -> None:
        """Adds a transfer.  If it was cut, only the bytes that were transferred count."""
        nbytes = stop.nbytes if isinstance(stop, TransferCut) else start.nbytes
        self.transfer_s += stop.t - start.t
        self.bytes_down += nbytes if start.way == "down" else 0
        self.bytes_up += nbytes if start.way == "up" else 0


def activities(rows: Iterable[Mapping[str, Any]], timeline: Iterable[Event]) -> Mapping[str, Activity]:
    """Returns the totals of each device that was asked, by device name.  A round without a row was not completed, and
    is skipped."""
    over = {row["round"]: row for row in rows}
    found: dict[str, Activity] = defaultdict(Activity)
    started: dict[tuple[str, str], Any] = {}  # by device, and down, up or compute
    for event in timeline:
        if version(event.round) not in over:
            continue
        match event:
            case Opened() | Asked():
                for name in event.asked:
                    found[name].ask(name, over.get(event.round))
            case Closed():
                for call in event.calls:
                    found[call.device].counted += 1
            case TransferStarted():
                started[event.device, event.way] = event
            case ComputeStarted():
                started[event.device, "compute"] = event
            case TransferEnded() | TransferCut():
                found[event.device].transfer(started.pop((event.device, event.way)), event)
            case ComputeEnded() | ComputeCut():
                found[event.device].compute_s += event.t - started.pop((event.device, "compute")).t
            case _:
                pass
    return found


def _plus(so_far: float | None, more: float | None) -> float | None:
    return None if so_far is None or more is None else so_far + more
