"""Replays of a study's runs on other links, which show where each algorithm is fastest.

A place is a point of the study's map (links and device speed) or a recorded link.  A cell is a place with its result.
"""

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
    """The runs of a study, replayed on the study's other links, at the points of its map, and on recorded links."""

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
        """`folder`: the folder of the runs.  `founds`: what the searches found.  `variants`: by algorithm, its best
        configurations, each by the label of the runs that played it.  `runs`: the runs, by that label."""
        self.scenario, self.protocol, self.tuning = scenario, protocol_of(scenario), tuning
        self.folder, self.founds, self.names, self.runs, self.replays = folder, founds, variants, runs, replays

    def variants(self, clock: str) -> dict[str, str]:
        """Returns, by algorithm, the label of the runs with its best configuration for a clock.

        `clock`: what the search minimised, such as seconds on a certain link.  The configuration for the study's own
        links is used for algorithms that were not tuned for this clock.
        """
        found = {entry.name: entry.name for entry in self.scenario.algorithms}
        for label, of in self.founds.items():
            if label not in self.protocol.own_links_only:
                best = of.best(clock if clock in of.clocks else OWN_CLOCK)
                found[label] = next(name for name, each in self.names[label].items() if each == best)
        return found

    def on_other_links(self, clock: str) -> dict[str, str]:
        """Returns the same as `variants`, without the algorithms that are compared on the study's own links alone."""
        return {
            label: name for label, name in self.variants(clock).items() if label not in self.protocol.own_links_only
        }

    def on_links(self, own: Runs) -> tuple[dict[str, Runs], list[str]]:
        """Returns the runs by link, and sentences on what is missing.

        The study's own links have the runs `own`; its other links have replays of the runs.  A sentence names each
        algorithm that is not known on a link, because its replay there is not exact.
        """
        on: dict[str, Runs] = {OWN: own}
        wanted = {name: condition(name, said) for name, said in self.protocol.links.items()}
        there = self.replays.of(self.folder, list(wanted.values()))
        unknown = []
        for (name, _), ends in zip(wanted.items(), there, strict=True):
            which = self.on_other_links(name)
            on[name], lost = analysis.elsewhere(analysis.chosen(self.runs, which), analysis.renamed(ends, which))
            unknown += [
                f"{label} is unknown on {name}: other devices would be selected or aggregated there" for label in lost
            ]
        return on, unknown

    def map(self, goal: Target) -> list[cells.Cell]:
        """Returns the cells of the study's map, one for each point, with the fastest ranked algorithm; [] without a
        map."""
        return self._on_map(goal, ())

    def duels(self, goal: Target) -> dict[tuple[str, str], list[cells.Cell]]:
        """Returns, for each pair of ranked algorithms that the study names, the map as if there were only these two;
        {} without a map."""
        return {pair: self._on_map(goal, pair) for pair in duels(self.scenario) if self.protocol.map}

    def _on_map(self, goal: Target, among: Sequence[str]) -> list[cells.Cell]:
        if self.protocol.map is None:
            return []
        grid = cells.grid(self.protocol.map)
        return self._cells([place for place, _ in grid], [each for _, each in grid], goal, among=among)

    def traces(self, goal: Target) -> tuple[list[cells.Cell], dict[tuple[str, str], list[cells.Cell]], list[str]]:
        """Returns three things about the study's recorded links: one cell for each link, with the fastest of all ranked
        algorithms; the same for each pair, as if there were only these two; and sentences on assumptions and on
        recordings that were left out."""
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
        """The setting (links, speeds and server) in which the runs were played."""
        return Batch(Source(self.folder, only=(self.scenario.algorithms[0].name,), targets=())).base

    def _cells(
        self,
        places: Sequence[Mapping[str, float | str]],
        wanted: Sequence[Condition],
        goal: Target,
        labels: Sequence[str] = (),
        among: Sequence[str] = (),
    ) -> list[cells.Cell]:
        """Returns one cell for each place, with the algorithm that reaches the target `goal` first there.

        `places`: the coordinates of each place.  `wanted`: the links and speeds at each.  `among`: the algorithms that
        compete; empty: all that are replayed.  `labels`: the algorithms to replay; empty: all ranked ones and `among`.
        Each algorithm has the configuration that is best at the place, by replays of its search.
        """
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
        """Returns the times at which the rounds of search runs end, by tried configuration, one entry for each setting
        in `wanted`.  Replays the runs of one folder together."""
        played = {each: self.tuning.names.of(*each) for each in tried}
        found: dict[Tried, list[Ends]] = {}
        for folder in dict.fromkeys(self.tuning.folders[each] for each in tried):
            here = [each for each in tried if self.tuning.folders[each] == folder]
            there = self.replays.of(folder, wanted, [[played[each] for each in here]] * len(wanted))
            found |= {each: [of.get(played[each], {}) for of in there] for each in here}
        return found

    def _by_search(self, label: str, searched: Mapping[Tried, Sequence[Ends]], count: int) -> list[str]:
        """Returns, for each of `count` settings, the label of the algorithm's configuration that is best there.

        `searched`: what `_searched` returned.  Only configurations with an exact replay of every search seed compete;
        if there are none, the best configuration on the study's own links counts.
        """
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
        """Returns the borders between the cells `drawn`: uplink rates at which the first algorithm to reach `goal`
        changes.  Replays the two algorithms on the uplinks between two cells to find them."""

        def ratio(place: Mapping[str, float], one: str, other: str) -> float:
            (made,) = self._cells([place], [cells.at_point(place)], goal, (one, other))
            return made.means[one] / made.means[other]

        return list(cells.borders(drawn, ratio))


def alike(said: Sequence[tuple[str, str]]) -> Iterator[str]:
    """Yields each sentence once, followed by the names of the recordings that it concerns.

    `said`: pairs of a sentence and the name of a recording.  Sentences that differ only in numbers become one, with
    ranges such as `41 to 48%`.
    """
    about: dict[str, list[tuple[str, str]]] = {}
    for sentence, name in said:
        about.setdefault(sentence.form if isinstance(sentence, Remark) else sentence, []).append((sentence, name))
    for of in about.values():
        sentences, names = zip(*of, strict=True)
        yield f"{together(sentences)} ({_some(list(dict.fromkeys(names)))})"


def _some(names: Sequence[str]) -> str:
    """Returns names as a list in words, at most SHOWN of them, such as `a and b` or `a, b, c and 3 others`."""
    more = len(names) - SHOWN
    return joined(names) if more <= 0 else f"{', '.join(names[:SHOWN])} and {counted(more, 'other')}"
