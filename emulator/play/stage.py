"""Assembles the parts of one run (record, traffic, devices), and holds its outcome."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Any

from emulator.conversation.device import Attendant, Home, Notes
from emulator.conversation.processor import Bench
from emulator.conversation.traffic import Traffic
from emulator.conversation.trainings import Trainings
from emulator.conversation.underway import Play
from emulator.lab.faulty import Faulty
from emulator.lab.lab import Lab
from emulator.play.conduct import Conduct
from emulator.pricing.charges import Charges
from emulator.record.record import Record
from emulator.record.run import Run
from emulator.results.caveats import TraceRepeats
from emulator.worlds.interface import Parcel, World

Row = Mapping[str, Any]


@dataclass
class Outcome:
    """The rows of a run, and how it ended."""

    run: Run
    rows: list[Row] = field(default_factory=list, repr=False)  # without repr, because asyncio formats results
    failure: str | None = None  # reason why the run could not continue, with the run's name
    why: str | None = None  # the reason without the run's name
    fault: Faulty | None = None  # the algorithm's own error, if that is the reason
    unwritten: OSError | None = None  # error that left the record or the model incomplete
    interrupted: bool = False  # stopped before its end
    looped: TraceRepeats = (0, "")
    overruns: list[float] = field(default_factory=list)  # sockets: s by which real training outlasted its charge
    keeps: float = inf  # sockets: the largest speed-up without an overrun
    strangers: int = 0  # sockets: requests without a device's token, which were refused
    kept: list[Home] = field(default_factory=list, repr=False)  # memories of an interrupted run, for the ledger

    def give_up(self, why: Exception) -> None:
        """Notes the error that keeps the run from going on as the reason of its failure."""
        self.failure, self.why = f"{self.run.label}, seed {self.run.seed}: {why}", str(why)

    def blame(self, fault: Faulty) -> None:
        """Notes the algorithm's own mistake as the reason of the run's failure."""
        self.fault = fault.under(self.run.seed)
        self.failure = self.why = str(self.fault)

    @property
    def length(self) -> float:
        """The length of the run so far, in virtual seconds."""
        return float(self.rows[-1]["time_s"]) if self.rows else 0.0


class Stage:
    """The parts of one run, in virtual time or over sockets: its record, its traffic and its devices."""

    def __init__(self, world: World, lab: Lab, run: Run, conduct: Conduct, record: Record, costs: Charges) -> None:
        self.world, self.lab, self.run, self.conduct = world, lab, run, conduct
        self.record, self.costs = record, costs
        self.traffic = Traffic(world, self.record, lab.placed(run.seed), lab.fleet, conduct.rules.transfers)
        self.notes: Notes = {}
        self.trainings = Trainings(world, lab, run, conduct.evaluated)
        self.attendants: dict[str, Attendant] = {}  # the devices that were ever asked

    def attendant(self, name: str) -> Attendant:
        if name not in self.attendants:
            profile = self.lab.fleet[name].profile
            bench = Bench(self.world, self.record, profile, self.conduct.rules.computing)
            own = self.world, self.costs, bench, self.notes, self.trainings
            self.attendants[name] = Attendant(name, *own)
        return self.attendants[name]

    def close(self, outcome: Outcome) -> None:
        """Ends the run: closes its record, and drops the devices' memories.  If the run was interrupted, moves them to
        `outcome`.

        Devices and lines refer to each other, and the garbage collector rarely runs if objects are few and large.  So
        without this the memories would fill the disk with messages over the runs of a study.
        """
        self.record.shut()
        self.trainings.close()
        if outcome.interrupted:
            outcome.kept = [attendant.home for attendant in self.attendants.values()]
        nothing = Home()
        for attendant in self.attendants.values():
            attendant.home = nothing

    def plan(self, play: Play, parcels: Mapping[str, Parcel]) -> None:
        """Submits the trainings of a round that is about to send these messages, by device."""
        homes = {name: self.attendant(name).home.informed(parcel.header) for name, parcel in parcels.items()}
        inputs = {name: home.inputs(parcels[name]) for name, home in homes.items()}
        self.trainings.plan(play.round.number, inputs)
