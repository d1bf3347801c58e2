"""Replays of a study's runs: on other links, on the points of its map, and on recorded links."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from emulator.analysis import analysis, cells
from emulator.analysis.cells import GUESSED
from emulator.analysis.protocol import duels, protocol_of, ranked
from emulator.record.targets import Target
from emulator.replay.batch import Batch, Source
from emulator.replay.conditions import Condition, Uplink, links_from
from emulator.results.comparison import OWN
from emulator.results.observed import Runs
from emulator.results.units import counted, joined
from emulator.sessions.replays import Replays
from emulator.sessions.tuning import Tuning
from emulator.tuning.elsewhere import condition
from emulator.tuning.results import Founds
from emulator.tuning.scores import retimed, scores
from emulator.tuning.search import OWN as OWN_CLOCK
from emulator.tuning.space import Configuration
from network.links.remark import Remark, together
from scenarios.schema.scenario import Scenario

Tried = tuple[str, Configuration]  # an algorithm's label, and a configuration that was tried
Ends = Mapping[int, tuple[float, ...] | None]  # by seed: times at which rounds end, s; None: no exact replay
SHOWN = 3  # recordings that a line on an assumption names


class Places:
    """The runs of a study on other links, on the points of its map, and on recorded links."""

    def __init__(
        self,
        scenario: Scenario,
        tuning: Tuning,
        folder: Path,
        founds: Founds,
        variants: Mapping[str, Mapping[str, Configuration]],
        runs: Runs,
        replays: Replays,
    ) -> None:
        """`folder`: of the runs; `variants`: each algorithm's configurations, by the label that plays them."""
        self.scenario, self.protocol, self.tuning = scenario, protocol_of(scenario), tuning
        self.folder, self.founds, self.names, self.runs, self.replays = folder, founds, variants, runs, replays

    def variants(self, clock: str) -> dict[str, str]:
        """The label of each algorithm's best configuration for this clock, or else for the study's own links."""
        found = {entry.name: entry.name for entry in self.scenario.algorithms}
        for label, of in self.founds.items():
            if label not in self.protocol.own_links_only:
                best = of.best(clock if clock in of.clocks else OWN_CLOCK)
                found[label] = next(name for name, each in self.names[label].items() if each == best)
        return found

    def on_other_links(self, clock: str) -> dict[str, str]:
        """The variants of all algorithms except those that are compared on the study's own links alone."""
        return {
            label: name for label, name in self.variants(clock).items() if label not in self.protocol.own_links_only
        }

    def on_links(self, own: Runs) -> tuple[dict[str, Runs], list[str]]:
        """The runs on the study's own links and, by replay, on its other links; and a sentence for each run without a
        known result on a link."""
        on: dict[str, Runs] = {OWN: own}
        wanted = {name: condition(name, said) for name, said in self.protocol.links.items()}
        there = self.replays.of(self.folder, list(wanted.values()))
        unknown = []
        for (name, _), ends in zip(wanted.items(), there, strict=True):
            which = self.on_other_links(name)
            on[name], lost = analysis.elsewhere(analysis.chosen(self.runs, which), analysis.renamed(ends, which))
            unknown += [f"{label} is not known on {name}: a decision there comes out otherwise" for label in lost]
        return on, unknown

    def map(self, goal: Target) -> list[cells.Cell]:
        """The fastest algorithm at each point of the study's grid."""
        return self._on_map(goal, ())

    def duels(self, goal: Target) -> dict[tuple[str, str], list[cells.Cell]]:
        """The map for each of the study's pairs alone."""
        return {pair: self._on_map(goal, pair) for pair in duels(self.scenario) if self.protocol.map}

    def _on_map(self, goal: Target, among: Sequence[str]) -> list[cells.Cell]:
        if self.protocol.map is None:
            return []
        grid = cells.grid(self.protocol.map)
        return self._cells([place for place, _ in grid], [each for _, each in grid], goal, among=among)

    def traces(self, goal: Target) -> tuple[list[cells.Cell], dict[tuple[str, str], list[cells.Cell]], list[str]]:
        """The cells of all recorded links, among all algorithms and for each pair alone, and the assumptions about
        recordings."""
        found: list[Condition] = []
        left: list[str] = []
        for name in self.protocol.traces:
            try:
                found += links_from([name], Uplink(ratio=self.protocol.up_ratio), tell=left.append)
            except (ValueError, OSError) as error:
                left.append(f"{name} is left out: {error}")
        if not found:
            return [], {}, left
        at = [{"trace": each.name, "uplink": GUESSED if each.guessed else "recorded"} for each in found]
        between = {pair: self._cells(at, found, goal, among=pair) for pair in duels(self.scenario)}
        assumed = alike([(said, each.name) for each in found for said in each.about(self.base)])
        return self._cells(at, found, goal), between, [*left, *assumed]

    @cached_property
    def base(self) -> Any:
        """The setting in which the runs were played."""
        return Batch(Source(self.folder, only=(self.scenario.algorithms[0].name,), targets=())).base

    def _cells(
        self,
        places: Sequence[Mapping[str, float | str]],
        wanted: Sequence[Condition],
        goal: Target,
        labels: Sequence[str] = (),
        among: Sequence[str] = (),
    ) -> list[cells.Cell]:
        """The cells of these places.  `labels`: replayed algorithms, by default all ranked ones; `among`: compared
        algorithms, by default all replayed ones."""
        labels = labels or list(dict.fromkeys([*ranked(self.scenario), *among]))
        own = self.variants(OWN_CLOCK)
        best = [{label: own[label] for label in labels} for _ in wanted]
        several = [label for label, names in self.names.items() if len(names) > 1 and label in labels]
        searched = self._searched([(label, each) for label in several for each in self.names[label].values()], wanted)
        for label in several:
            for chosen, name in zip(best, self._by_search(label, searched, len(wanted)), strict=True):
                chosen[label] = name
        there = self.replays.of(self.folder, wanted, [list(each.values()) for each in best], until=goal)
        which = [{label: each[label] for label in among or labels if label in each} for each in best]
        return analysis.cells(places, there, which, self.runs, goal)

    def _searched(self, tried: Sequence[Tried], wanted: Sequence[Condition]) -> dict[Tried, list[Ends]]:
        """The times at which rounds of these search runs end in each setting; the runs of a folder are replayed
        together."""
        played = {each: self.tuning.names.of(*each) for each in tried}
        found: dict[Tried, list[Ends]] = {}
        for folder in dict.fromkeys(self.tuning.folders[each] for each in tried):
            here = [each for each in tried if self.tuning.folders[each] == folder]
            there = self.replays.of(folder, wanted, [[played[each] for each in here]] * len(wanted))
            found |= {each: [of.get(played[each], {}) for of in there] for each in here}
        return found

    def _by_search(self, label: str, searched: Mapping[Tried, Sequence[Ends]], count: int) -> list[str]:
        """The labels of an algorithm's best configuration in each of `count` settings."""
        names = {each: name for name, each in self.names[label].items()}
        trials = {each: self.founds[label].finals[each][OWN_CLOCK] for each in names}
        seeds = sorted(self.scenario.tune.seeds) if self.scenario.tune else []
        there = {each: searched[label, each] for each in names}
        found = []
        for number in range(count):
            pool = {
                each: [
                    retimed(made, ends)
                    for made, seed in zip(trials[each], seeds, strict=True)
                    if (ends := there[each][number].get(seed)) is not None
                ]
                for each in names
            }
            known = {each: curves for each, curves in pool.items() if len(curves) == len(seeds)}
            ranks = scores(known)
            best = min(ranks, key=lambda each: ranks[each].rank) if ranks else self.founds[label].best()
            found.append(names[best])
        return found

    def borders(self, drawn: Sequence[cells.Cell], goal: Target) -> list[cells.Border]:
        """The uplinks at which the fastest algorithm changes."""

        def ratio(place: Mapping[str, float], one: str, other: str) -> float:
            at = cells.at_point(*(place[axis] for axis in cells.AXES))
            (made,) = self._cells([place], [at], goal, (one, other))
            return made.means[one] / made.means[other]

        return list(cells.borders(drawn, ratio))


def alike(said: Sequence[tuple[str, str]]) -> Iterator[str]:
    """Each sentence once, with the recordings that it concerns; sentences that differ only in numbers become one: `41
    to 48%`."""
    about: dict[str, list[tuple[str, str]]] = {}
    for sentence, name in said:
        about.setdefault(sentence.form if isinstance(sentence, Remark) else sentence, []).append((sentence, name))
    for of in about.values():
        sentences, names = zip(*of, strict=True)
        yield f"{together(sentences)} ({_some(list(dict.fromkeys(names)))})"


def _some(names: Sequence[str]) -> str:
    """`a`, `a and b`, or `a, b and 3 others`."""
    more = len(names) - SHOWN
    return joined(names) if more <= 0 else f"{', '.join(names[:SHOWN])} and {counted(more, 'other')}"
