"""The printed result of `fedlapse tune`."""

from __future__ import annotations

from emulator.results.table import Table
from emulator.terminal.lines import for_terminal
from emulator.tuning import results
from emulator.tuning.together import fixed, spaces, target_of, tune_of
from emulator.wording.terminal import printed
from scenarios.schema.scenario import Scenario


def text(scenario: Scenario, founds: results.Founds) -> str:
    """The best settings of each algorithm for each clock, and remarks on the searches."""
    tune = tune_of(scenario)
    seeds = ", ".join(map(str, tune.seeds))
    title = (
        f"{scenario.name}: time to {target_of(scenario).name}, seeds {seeds}, {tune.budget} configurations "
        f"of each algorithm, network model {scenario.network_model}"
    )
    shown = Table("", results.HEADINGS, results.rows(founds), len(results.HEADINGS))
    said = (*results.courses(founds), *results.remarks(scenario, founds))
    return "\n".join([for_terminal(title), printed([shown]), *map(for_terminal, said)])


def text_of_plan(scenario: Scenario, rungs: str) -> str:
    """Returns the plan of `tune --dry-run` as text."""
    tune = tune_of(scenario)
    seeds = ", ".join(map(str, tune.seeds))
    title = (
        f"{scenario.name}: {tune.budget} configurations of each algorithm, seeds {seeds}, time to "
        f"{target_of(scenario).name}; the better half goes on after {rungs} rounds"
    )
    lines = [title]
    for label, space in spaces(scenario).items():
        said = ", ".join(f"{each.option} {list(each.values)}" for each in space.dimensions) or "nothing to try"
        lines.append(f"  {label}: {said}; {len(space.grid)} in the grid")
    lines += [f"  {label}: keeps its settings" for label in fixed(scenario)]
    return "\n".join(map(for_terminal, lines))
