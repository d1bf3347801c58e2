"""Configurations of one algorithm: a sample of the scenario's grid, then neighbours of the best, then finer ones."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise, product, zip_longest
from typing import Any

import numpy as np

from scenarios.schema.entries import Entry
from scenarios.schema.tuning import Choice, Tune

Configuration = tuple[tuple[str, Choice], ...]  # (option, value) in the order of the grid
Valid = Callable[[Configuration], bool]
TRAINING = "training"
FINER = 2.0  # ratio between neighbours of a refined grid; smaller steps are not halved


@dataclass(frozen=True)
class Dimension:
    """One option, and its values in the grid, as given."""

    option: str  # its path in the entry: strength, training.lr
    values: tuple[Choice, ...]

    @property
    def factor(self) -> float | None:
        """The largest ratio of neighbours in the grid; None for a single value, or if a value is not a positive
        number."""
        if any(isinstance(value, (bool, str)) or not value > 0 for value in self.values):
            return None
        rising = sorted(float(value) for value in self.values)
        return max((high / low for low, high in pairwise(rising)), default=None)

    def beside(self, value: Choice) -> list[Choice]:
        """The grid's next values above and below; beyond its edge, one step further.  For words, all others."""
        factor = self.factor
        if factor is None or isinstance(value, (bool, str)):
            return [other for other in self.values if other != value]
        above = min((v for v in self.values if v > value), key=float, default=_times(value, factor))  # type: ignore[operator]
        below = max((v for v in self.values if v < value), key=float, default=_times(value, 1 / factor))  # type: ignore[operator]
        return [above, below] if below != value else [above]

    def near(self, value: Choice) -> list[Choice]:
        """The value's double and half, if the grid's steps are longer."""
        if self.factor is None or self.factor <= FINER or isinstance(value, (bool, str)):
            return []
        return [_times(value, FINER), _times(value, 1 / FINER)]


def _times(value: float, factor: float) -> Choice:
    """The product in six digits; a whole number stays one, and at least 1."""
    return max(1, round(value * factor)) if isinstance(value, int) else float(f"{value * factor:.6g}")


@dataclass(frozen=True)
class Space:
    """The configurations that may be tried for one algorithm."""

    label: str
    dimensions: tuple[Dimension, ...]
    valid: Valid = lambda _: True
    grid_only: bool = False  # only values of the grid are tried

    @property
    def grid(self) -> list[Configuration]:
        """All valid configurations of the scenario's grid."""
        names = [each.option for each in self.dimensions]
        found = (tuple(zip(names, values, strict=True)) for values in product(*(d.values for d in self.dimensions)))
        return [each for each in found if self.valid(each)]

    def coarse(self, count: int, rng: np.random.Generator, known: Sequence[Configuration] = ()) -> list[Configuration]:
        """A sample of the grid in which each value of each option occurs about equally often; at most the whole grid.

        `known`: settings of training that are good for another algorithm.  The sample combines each of them with each
        value of the algorithm's own options; if these are too many, they take half of the sample.
        """
        anchored = by_turns(map(self._anchored, known))
        if len(anchored) > count:
            anchored = anchored[: max(1, count // 2)]
        if count >= len(grid := self.grid):
            return list(dict.fromkeys([*anchored, *grid]))[:count]
        chosen = list(dict.fromkeys([*anchored, *self._balanced(count - len(anchored), rng)]))
        left = [each for each in grid if each not in chosen]
        order = rng.permutation(len(left))
        return chosen + [left[number] for number in order[: count - len(chosen)]]

    def _anchored(self, known: Configuration) -> list[Configuration]:
        """Each combination of the algorithm's own options with these settings of training, the grid's middle first.

        Empty if the algorithm has no such settings.
        """
        given = dict(training(known))
        if not given.keys() <= {each.option for each in self.dimensions} or not given:
            return []
        values = [(given[d.option],) if d.option in given else d.values for d in self.dimensions]
        names = [each.option for each in self.dimensions]
        rows = sorted(product(*values), key=lambda row: _off_centre(row, values))
        found = (tuple(zip(names, row, strict=True)) for row in rows)
        return [each for each in found if self._may_be_tried(each)]

    def _balanced(self, count: int, rng: np.random.Generator) -> list[Configuration]:
        """A Latin hypercube (McKay et al. 1979) on the grid, without duplicates and invalid configurations."""
        columns = []
        for each in self.dimensions:
            times = -(-count // len(each.values))
            columns.append([each.values[n] for n in rng.permutation(np.tile(np.arange(len(each.values)), times))])
        names = [each.option for each in self.dimensions]
        rows = [
            tuple(zip(names, row, strict=True)) for row in zip(*(column[:count] for column in columns), strict=True)
        ]
        return [each for each in dict.fromkeys(rows) if self.valid(each)]

    def around(self, best: Configuration, tried: Collection[Configuration]) -> list[Configuration]:
        """Untried neighbours with one changed option: on the grid, or if none is left, closer ones."""
        return self._changed(best, tried, Dimension.beside) or self._changed(best, tried, Dimension.near)

    def _changed(
        self, best: Configuration, tried: Collection[Configuration], others: Callable[[Dimension, Choice], list[Choice]]
    ) -> list[Configuration]:
        values, edges = dict(best), self.edges(best, [best, *tried])
        found: list[Configuration] = []
        for dimension in sorted(self.dimensions, key=lambda each: _turn(each.option, edges)):
            found += [_with(best, dimension.option, other) for other in others(dimension, values[dimension.option])]
        return [each for each in dict.fromkeys(found) if each not in tried and self._may_be_tried(each)]

    def _may_be_tried(self, new: Configuration) -> bool:
        return self.valid(new) and (not self.grid_only or new in self.grid)

    def edges(self, best: Configuration, tried: Collection[Configuration]) -> list[str]:
        """Options whose best value is the largest or smallest one tried, if larger or smaller ones exist."""
        found = []
        for dimension, (name, value) in zip(self.dimensions, best, strict=True):
            if dimension.factor is None:
                continue
            seen = self.values(name, tried)
            low, high = min(seen, key=float), max(seen, key=float)
            beyond = [other for other in dimension.beside(value) if other < value == low or other > value == high]  # type: ignore[operator]
            if any(self.valid(_with(best, name, other)) for other in beyond):
                found.append(name)
        return found

    def further(self, option: str, tried: Collection[Configuration]) -> list[str]:
        """The grid's values of an option, as text, that are larger or smaller than all values tried."""
        (values,) = (each.values for each in self.dimensions if each.option == option)
        seen = self.values(option, tried)
        return [_shown(value) for value in values if not min(seen) <= value <= max(seen)]

    def values(self, option: str, tried: Collection[Configuration]) -> list[Any]:
        """The values of one option that were tried, each once."""
        return list(dict.fromkeys(dict(each)[option] for each in tried))


def _turn(option: str, edges: Collection[str]) -> tuple[bool, bool]:
    """A sorting key of options to change: the algorithm's own first, then training's; in both, edges first."""
    return option.startswith(f"{TRAINING}."), option not in edges


def _off_centre(row: Sequence[Choice], values: Sequence[Sequence[Choice]]) -> float:
    """The distance of a row of values from the grid's middle, in steps."""
    return sum(abs(each.index(value) - (len(each) - 1) / 2) for value, each in zip(row, values, strict=True))


def _with(configuration: Configuration, option: str, value: Choice) -> Configuration:
    return tuple((name, value if name == option else old) for name, old in configuration)


def space_of(entry: Entry, tune: Tune, valid: Valid = lambda _: True) -> Space:
    """The space of one algorithm: the grid's `training.KEY`, KIND.OPTION, and LABEL.OPTION, which wins."""
    found: dict[str, tuple[Choice, ...]] = {}
    for whose in (TRAINING, entry.key, entry.name):
        for path, values in tune.grid.items():
            owner, _, option = _split(path, (TRAINING, entry.key, entry.name))
            if owner == whose:
                found[f"{TRAINING}.{option}" if owner == TRAINING else option] = values
    dimensions = (Dimension(option, _numbers(option, values, valid)) for option, values in found.items())
    return Space(entry.name, tuple(dimensions), valid, tune.grid_only)


def _numbers(option: str, values: tuple[Choice, ...], valid: Valid) -> tuple[Choice, ...]:
    """The values as floats, unless the option takes only whole numbers: strengths 1 and 10 are like 0.1."""
    if any(isinstance(value, (bool, str)) for value in values):
        return values
    if all(isinstance(value, int) for value in values) and not valid(((option, values[0] + 0.5),)):  # type: ignore[operator]
        return values
    return tuple(float(value) for value in values)


def _split(path: str, owners: Sequence[str]) -> tuple[str, str, str]:
    """The owner at the beginning of the path, and the rest; names may contain dots."""
    for owner in sorted(owners, key=len, reverse=True):
        if path.startswith(f"{owner}."):
            return owner, ".", path[len(owner) + 1 :]
    return "", "", path


def applied(entry: Entry, configuration: Configuration, name: str | None = None) -> Entry:
    """The entry with these options, under another name if one is given."""
    options: dict[str, Any] = dict(entry.options)
    for option, value in configuration:
        outer, _, inner = option.partition(".")
        if inner:
            options[outer] = {**(options.get(outer) or {}), inner: value}
        else:
            options[option] = value
    return entry.model_copy(update={"options": options, "name": name or entry.name})


def by_turns(lists: Iterable[Sequence[Configuration]]) -> list[Configuration]:
    """The first item of each list, then the second of each, and so on, without duplicates."""
    return list(dict.fromkeys(each for turn in zip_longest(*lists) for each in turn if each is not None))


def training(configuration: Configuration) -> Configuration:
    """The configuration's options of training."""
    return tuple((option, value) for option, value in configuration if option.startswith(f"{TRAINING}."))


def words(configuration: Configuration) -> str:
    """`lr = 0.1, strength = 5`; training's options without their prefix."""
    said = (f"{name.removeprefix(f'{TRAINING}.')} = {_shown(value)}" for name, value in configuration)
    return ", ".join(said) or "as it is"


def _shown(value: Choice) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value).lower() if isinstance(value, bool) else str(value)
