"""The configurations of one algorithm that a search may try: a sample of the grid, neighbours of the best, and finer
steps."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise, product, zip_longest
from typing import Any

import numpy as np

from scenarios.schema.entries import Entry
from scenarios.schema.tuning import AUTO, Choice, Tune

Configuration = tuple[tuple[str, Choice], ...]  # (option, value) in the order of the grid
Valid = Callable[[Configuration], bool]
TRAINING = "training"
FINER = 2.0  # ratio between neighbours of a refined grid; smaller steps are not halved


@dataclass(frozen=True)
class Dimension:
    """One option, and its values in the grid, as the scenario gives them."""

    option: str  # its path in the entry: strength, training.lr
    values: tuple[Choice, ...]

    @property
    def factor(self) -> float | None:
        """The largest ratio between neighbouring values in the grid; None if there is one value, or one that is not
        a positive number."""
        if any(isinstance(value, (bool, str)) or not value > 0 for value in self.values):
            return None
        rising = sorted(float(value) for value in self.values)
        return max((high / low for low, high in pairwise(rising)), default=None)

    def beside(self, value: Choice) -> list[Choice]:
        """Returns the next larger and the next smaller value in the grid.

        Beyond the grid's edge, returns the value multiplied or divided by `factor`.  If there is no factor, returns all
        other values.
        """
        factor = self.factor
        if factor is None or isinstance(value, (bool, str)):
            return [other for other in self.values if other != value]
        above = min((v for v in self.values if v > value), key=float, default=_times(value, factor))  # type: ignore[operator]
        below = max((v for v in self.values if v < value), key=float, default=_times(value, 1 / factor))  # type: ignore[operator]
        return [above, below] if below != value else [above]

    def near(self, value: Choice) -> list[Choice]:
        """Returns the value's double and half if the grid's steps are longer than that; otherwise nothing."""
        if self.factor is None or self.factor <= FINER or isinstance(value, (bool, str)):
            return []
        return [_times(value, FINER), _times(value, 1 / FINER)]


def _times(value: float, factor: float) -> Choice:
    """Returns the product with six significant digits.  The product of a whole number is rounded to a whole number,
    at least 1."""
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
        """The valid configurations of the scenario's grid for this algorithm."""
        names = [each.option for each in self.dimensions]
        found = (tuple(zip(names, values, strict=True)) for values in product(*(d.values for d in self.dimensions)))
        return [each for each in found if self.valid(each)]

    def coarse(self, count: int, rng: np.random.Generator, known: Sequence[Configuration] = ()) -> list[Configuration]:
        """Returns a sample of the grid in which each value of each option occurs about equally often; at most the whole
        grid.

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
        """Returns each combination of the algorithm's own options with these settings of training, the grid's middle
        first.

        Empty if the grid has not all of these settings of training as options.
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
        """Returns a Latin hypercube sample of the grid (McKay et al. 1979), without duplicates and invalid
        configurations."""
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
        """Returns the untried neighbours of a configuration, which differ from it in one option.

        First those on the grid or one step beyond it; if none of these is left, those with the double or half of a
        value.
        """
        return self._changed(best, tried, Dimension.beside) or self._changed(best, tried, Dimension.near)

    def _changed(
        self, best: Configuration, tried: Collection[Configuration], others: Callable[[Dimension, Choice], list[Choice]]
    ) -> list[Configuration]:
        values, edges = dict(best), self.edges(best, [best, *tried])
        found: list[Configuration] = []
        for dimension in sorted(self.dimensions, key=lambda each: _turn(each.option, edges)):
            seen = self.values(dimension.option, [best, *tried])
            new = sorted(others(dimension, values[dimension.option]), key=lambda other: _inside(other, seen))
            found += [_with(best, dimension.option, other) for other in new]
        return [each for each in dict.fromkeys(found) if each not in tried and self._may_be_tried(each)]

    def _may_be_tried(self, new: Configuration) -> bool:
        return self.valid(new) and (not self.grid_only or new in self.grid)

    def edges(self, best: Configuration, tried: Collection[Configuration]) -> list[str]:
        """Returns the options whose best value is the largest or smallest one tried, though a larger or smaller one
        is possible."""
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
        """Returns the values of an option in the grid, as text, that are larger or smaller than all values tried."""
        (values,) = (each.values for each in self.dimensions if each.option == option)
        seen = self.values(option, tried)
        return [_shown(value) for value in values if not min(seen) <= value <= max(seen)]

    def values(self, option: str, tried: Collection[Configuration]) -> list[Any]:
        """Returns the values of one option that were tried, each once."""
        return list(dict.fromkeys(dict(each)[option] for each in tried))


def _turn(option: str, edges: Collection[str]) -> tuple[bool, bool]:
    """Returns a sorting key for the options to change: the algorithm's own come before those of training, and within
    each kind those whose best value is at an edge come first."""
    return option.startswith(f"{TRAINING}."), option not in edges


def _inside(value: Choice, seen: Sequence[Any]) -> bool:
    """Returns True unless the value is a number beyond all values seen."""
    return isinstance(value, (bool, str)) or min(seen) <= value <= max(seen)


def _off_centre(row: Sequence[Choice], values: Sequence[Sequence[Choice]]) -> float:
    """Returns the distance of a combination of values from the grid's middle: the sum of steps over all options."""
    return sum(abs(each.index(value) - (len(each) - 1) / 2) for value, each in zip(row, values, strict=True))


def _with(configuration: Configuration, option: str, value: Choice) -> Configuration:
    return tuple((name, value if name == option else old) for name, old in configuration)


def space_of(entry: Entry, tune: Tune, valid: Valid = lambda _: True) -> Space:
    """Returns the space of one algorithm, from all entries of `tune.grid` that apply to it.

    Entries are named `training.KEY`, KIND.OPTION or LABEL.OPTION; of several for one option, the last kind in this list
    wins.  An `auto` whose values are not known yet stands for the algorithm's own value, if it gives one.
    """
    found: dict[str, tuple[Choice, ...]] = {}
    for whose in (TRAINING, entry.key, entry.name):
        for path, values in tune.grid.items():
            owner, _, option = _split(path, (TRAINING, entry.key, entry.name))
            if owner == whose:
                if values == AUTO:
                    values = (entry.options[option],) if option in entry.options else ()
                if values:
                    found[f"{TRAINING}.{option}" if owner == TRAINING else option] = values
    dimensions = (Dimension(option, _numbers(option, values, valid)) for option, values in found.items())
    return Space(entry.name, tuple(dimensions), valid, tune.grid_only)


def _numbers(option: str, values: tuple[Choice, ...], valid: Valid) -> tuple[Choice, ...]:
    """Returns the values as floats, unless the option takes only whole numbers, or some value is a word or a boolean.

    So strengths given as 1 and 10 are refined as 0.1 would be.
    """
    if any(isinstance(value, (bool, str)) for value in values):
        return values
    if all(isinstance(value, int) for value in values) and not valid(((option, values[0] + 0.5),)):  # type: ignore[operator]
        return values
    return tuple(float(value) for value in values)


def _split(path: str, owners: Sequence[str]) -> tuple[str, str, str]:
    """Splits a path such as `training.lr` into the owner with which it begins, a dot, and the rest.  Names may contain
    dots.

    Returns "", "" and the path if it begins with none of `owners`.
    """
    for owner in sorted(owners, key=len, reverse=True):
        if path.startswith(f"{owner}."):
            return owner, ".", path[len(owner) + 1 :]
    return "", "", path


def applied(entry: Entry, configuration: Configuration, name: str | None = None) -> Entry:
    """Returns the entry with these options, under another name if one is given."""
    options: dict[str, Any] = dict(entry.options)
    for option, value in configuration:
        outer, _, inner = option.partition(".")
        if inner:
            options[outer] = {**(options.get(outer) or {}), inner: value}
        else:
            options[option] = value
    return entry.model_copy(update={"options": options, "name": name or entry.name})


def by_turns(lists: Iterable[Sequence[Configuration]]) -> list[Configuration]:
    """Returns the first item of each list, then the second of each, and so on, without duplicates."""
    return list(dict.fromkeys(each for turn in zip_longest(*lists) for each in turn if each is not None))


def training(configuration: Configuration) -> Configuration:
    """Returns a configuration without the options that are not of training."""
    return tuple((option, value) for option, value in configuration if option.startswith(f"{TRAINING}."))


def words(configuration: Configuration) -> str:
    """Returns a configuration as text: `lr = 0.1, strength = 5`.  Options of training lose their prefix."""
    said = (f"{name.removeprefix(f'{TRAINING}.')} = {_shown(value)}" for name, value in configuration)
    return ", ".join(said) or "as it is"


def _shown(value: Choice) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value).lower() if isinstance(value, bool) else str(value)
