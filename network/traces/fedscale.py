"""The reader of FedScale's client_device_capacity: the speed of each client's computing and of its network (Lai et al.,
ICML'22)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice

from network.foreign_files import Table, bad, figure, is_pickle, shown, table
from network.traces.trace_text import FASTEST, LONGEST, TraceText

ROWS = "computation", "communication"


@dataclass(frozen=True)
class Capacity:
    """One client: `computation`, the seconds of inference for one sample, and `communication`, the rate of both
    directions in bytes/s."""

    client: str
    computation: float
    communication: float

    def compute(self, batch: int, steps: int) -> float:
        """Returns the seconds of local training, 3 * batch * steps * computation: FedScale counts a training step as
        three forward passes."""
        return 3 * batch * steps * self.computation

    def transfer(self, down: float, up: float) -> float:
        """Returns the seconds that a download of `down` bytes and an upload of `up` bytes take together."""
        return (up + down) / self.communication


def read(name: str, data: bytes) -> tuple[Capacity, ...]:
    """Returns every client of a pickle, of JSON, or of CSV with one column for each client, in the file's order.

    The file states computation in ms per sample and communication in kbit/s.  Raises BadFile.
    """
    if not is_pickle(data) and not data.lstrip().startswith(b"{"):
        return _columns(TraceText.of(name, data))
    return tuple(_capacity(name, client, entry) for client, entry in table(name, data).items())


def is_capacity(entries: Table) -> bool:
    entry = next(iter(entries.values()))
    return isinstance(entry, dict) and {"computation", "communication"} <= entry.keys()


def is_columns(source: TraceText) -> bool:
    """Returns true if the text is FedScale's CSV with one column for each client.  The first cell must be empty, and
    two of the first 100 rows must begin with `computation` and `communication`: an empty first cell alone also occurs
    in tables with an index."""
    rows = [row.partition(",")[0] for _, row in islice(source.rows(), 100)]
    return bool(rows) and not rows[0] and set(ROWS) <= set(rows)


def _capacity(name: str, client: str, entry: object) -> Capacity:
    if not isinstance(entry, dict) or not {"computation", "communication"} <= entry.keys():
        raise bad(name, None, f"client {shown(client)} is not a mapping with computation and communication")
    computation = figure(name, entry["computation"], f"computation of client {shown(client)}", LONGEST * 1e3)
    communication = figure(name, entry["communication"], f"communication of client {shown(client)}", FASTEST * 8 / 1e3)
    if not communication:
        raise bad(name, None, f"the communication of client {shown(client)} is 0; it must be above")
    return Capacity(client, computation / 1e3, communication * 1e3 / 8)


def _columns(source: TraceText) -> tuple[Capacity, ...]:
    """Returns the clients of a CSV with the header `,1,2,...` (names of clients), a row `computation,...` and a row
    `communication,...`; other rows are ignored.  Raises BadFile."""
    names = "", *ROWS
    rows = {head: (line, row) for line, row in source.rows() if (head := row.partition(",")[0]) in names}
    found = [(rows[name][0], rows[name][1].split(",")[1:]) if name in rows else None for name in names]
    if found[0] is None or found[1] is None or found[2] is None:
        raise source.bad(None, "does not have the rows clients, computation and communication")
    (first, clients), (second, computation), (third, communication) = found[0], found[1], found[2]
    if not clients or not len(clients) == len(computation) == len(communication):
        raise source.bad(third, f"the rows have {len(computation)} and {len(communication)} for {len(clients)} clients")
    if len(set(clients)) < len(clients):
        raise source.bad(first, "a client is listed twice")
    capacities = []
    for client, ms, kbit in zip(clients, computation, communication, strict=True):
        rate = source.number(third, kbit, "communication", FASTEST * 8 / 1e3)
        if not rate:
            raise source.bad(third, f"the communication of client {shown(client)} is 0; it must be above")
        seconds = source.number(second, ms, "computation", LONGEST * 1e3) / 1e3
        capacities.append(Capacity(client, seconds, rate * 1e3 / 8))
    return tuple(capacities)
