"""Fleets of any size: names are numbered, and devices are made on demand.

A device depends only on its name and its scenario, so it can be made at any time, in any order and process, and be
dropped and made again.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cached_property
from typing import Any, TypeVar

Thing = TypeVar("Thing")

MANY = 10_000  # devices above which each draws its examples on demand; also the number of cached devices
EACH = 4_000  # devices up to which summaries cover each one; larger fleets are sampled
SOME = 1_000


class Roster(Collection[str]):
    """The names of a fleet, sorted: a kind and a number, such as `pi-4-07`, for each (kind, count) in `kinds`.

    If a kind occurs twice, its numbers continue from the first entry to the second.
    """

    def __init__(self, kinds: tuple[tuple[str, int], ...]) -> None:
        self.kinds = kinds
        self.totals: dict[str, int] = {}
        self.starts: dict[str, tuple[list[int], list[tuple[int, int]]]] = {}  # within the kind; and kind, within all
        before = 0
        for at, (kind, count) in enumerate(kinds):
            within, places = self.starts.setdefault(kind, ([], []))
            within.append(self.totals.get(kind, 0))
            places.append((at, before))
            self.totals[kind] = within[-1] + count
            before += count
        self.size = before

    @cached_property
    def all(self) -> tuple[str, ...]:
        return tuple(sorted(self._name(kind, n) for kind, total in self.totals.items() for n in range(total)))

    @cached_property
    def sample(self) -> tuple[str, ...]:
        """A sample of the names: all, if there are at most EACH; otherwise about SOME, evenly spread over each kind,
        and at least one of each."""
        if self.size <= EACH:
            return self.all
        shares = {kind: max(1, SOME * total // self.size) for kind, total in self.totals.items()}
        return tuple(
            sorted(
                self._name(kind, k * self.totals[kind] // share) for kind, share in shares.items() for k in range(share)
            )
        )

    def place(self, name: str) -> tuple[int, int]:
        """Returns the index of the name's entry in `kinds`, and the device's number in the fleet, in the order of
        `kinds`. Raises KeyError for an unknown name."""
        kind, _, digits = name.rpartition("-")
        number = int(digits) if digits.isdecimal() and digits.isascii() else -1
        if not 0 <= number < self.totals.get(kind, 0) or name != self._name(kind, number):
            raise KeyError(name)
        within, places = self.starts[kind]
        which = bisect_right(within, number) - 1
        at, before = places[which]
        return at, before + number - within[which]

    def group(self, name: str) -> str:
        """Returns the kind of the device with this name. Raises KeyError for an unknown name."""
        return self.kinds[self.place(name)[0]][0]

    def _name(self, kind: str, number: int) -> str:
        return f"{kind}-{number:0{len(str(self.totals[kind] - 1))}}"

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[str]:
        return iter(self.all)

    def __contains__(self, name: object) -> bool:
        try:
            return isinstance(name, str) and self.place(name) is not None
        except KeyError:
            return False

    def __reduce__(self) -> tuple[Any, ...]:
        return Roster, (self.kinds,)  # a worker computes the rest itself


class Made(Mapping[str, Thing]):
    """A mapping that makes a value with `make(name)` when it is read, and caches the last `keep` values."""

    def __init__(self, names: Collection[str], make: Callable[[str], Thing], keep: int = MANY) -> None:
        self.names, self.make, self.keep = names, make, keep
        self.kept: dict[str, Thing] = {}

    def __getitem__(self, name: str) -> Thing:
        made = self.kept.get(name)
        if made is not None:
            return made
        made = self.make(name)
        if self.keep:
            if len(self.kept) >= self.keep:
                del self.kept[next(iter(self.kept))]  # the oldest
            self.kept[name] = made
        return made

    def __len__(self) -> int:
        return len(self.names)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def __reduce__(self) -> tuple[Any, ...]:
        return Made, (self.names, self.make, self.keep)  # without the cache


def all_names(fleet: Collection[str]) -> tuple[str, ...]:
    """Returns the names of a fleet, in its order."""
    while isinstance(fleet, Made):
        fleet = fleet.names
    return fleet.all if isinstance(fleet, Roster) else tuple(fleet)


def by_group(fleet: Collection[str]) -> dict[str, tuple[list[str], int]]:
    """Returns, for each group of devices, a sample of their names (see `sample`) and the number of all.

    In a fleet that is not a Roster, each device is a group of its own.
    """
    names = sample(fleet)
    while isinstance(fleet, Made):
        fleet = fleet.names
    if not isinstance(fleet, Roster):
        return {name: ([name], 1) for name in names}
    found: dict[str, tuple[list[str], int]] = {}
    for name in names:
        group = fleet.group(name)
        found.setdefault(group, ([], fleet.totals[group]))[0].append(name)
    return found


def sample(fleet: Collection[str]) -> tuple[str, ...]:
    """Returns a sample of a fleet's names: all, except for a large roster (see Roster.sample)."""
    while isinstance(fleet, Made):
        fleet = fleet.names
    return fleet.sample if isinstance(fleet, Roster) else tuple(fleet)
