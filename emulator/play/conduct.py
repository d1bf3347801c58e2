"""The settings of a scenario's runs: the rules of rounds, the schedule of evaluations, and when runs end early."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf

from emulator.conversation.rounds import RoundRules
from emulator.play.metrics import Schedule
from emulator.record.call import version
from emulator.record.targets import Target
from scenarios.schema.scenario import Scenario
from scenarios.schema.training import Rounds


@dataclass(frozen=True)
class Conduct:
    """The settings of a scenario's runs: the rules of rounds, the schedule of evaluations, and when runs end early."""

    rules: RoundRules
    schedule: Schedule
    stop_at: Target | None = None
    until: float | None = None  # s, after which no round begins unless one of `targets` is pending
    targets: Sequence[Target] = ()
    keeps_model: bool = True  # the record keeps the last model

    @classmethod
    def of(cls, scenario: Scenario) -> Conduct:
        """Returns the settings of the runs of a scenario, or with `scenario.under(label)` those of one algorithm."""
        rounds, evaluate, stop = scenario.rounds, scenario.evaluate, scenario.rounds.stop_at
        often = evaluate.personalise_every
        return cls(
            RoundRules(
                max=rounds.max if rounds.mode == "sync" else -(-rounds.max * scenario.asked // scenario.needed),
                needed=scenario.needed,
                ask=scenario.asked,
                deadline=rounds.deadline_s,
                min_replies=rounds.min_replies,
                cycle_seconds=rounds.cycle_s,
                finish_stragglers=rounds.stragglers != "stop" or rounds.mode == "async",
                max_staleness=_staleness(rounds),
                asynchronous=rounds.mode == "async",
                timeout=rounds.timeout_s,
                computing=rounds.when_off,
                transfers=rounds.transfers,
            ),
            Schedule(evaluate.every, None if often == "never" or not evaluate.test else often, evaluate.test),
            Target.of(stop, scenario.task) if stop else None,
            rounds.until_s,
            [Target.of(target, scenario.task) for target in rounds.targets],
            scenario.keep_models == "last",
        )

    def last_round(self, devices: int) -> float:
        """Returns how many rounds' training the last round takes, in which `devices` may train once more for the metric
        `personalised`."""
        more = self.schedule.personalises and self.schedule.personalise_every == 0
        return 1 + devices / self.rules.ask if more else 1.0

    def evaluated(self, round: int) -> bool:
        """Returns true if the model after this round is evaluated: by the schedule, after the last round, or because
        the metric `personalised` is due."""
        every, final = self.schedule.every, round + 1 == self.rules.max
        return every > 0 and (final or self._due(round, every) or self.personalised(round))

    def personalised(self, round: int) -> bool:
        """Returns true if every device trains once after this round for the metric `personalised`."""
        often, final = self.schedule.personalise_every, round + 1 == self.rules.max
        due = final or bool(often and self._due(round, often))
        return due and self.schedule.personalises

    def _due(self, round: int, every: int) -> bool:
        """Returns true if this round completes a multiple of `every` rounds, as schedules count them."""
        before, after = self.rules.turn(round), self.rules.turn(version(round) + 1)
        return after // every > before // every


def _staleness(rounds: Rounds) -> float:
    """Returns the largest staleness of a reply that counts, in rounds; inf for no limit."""
    if rounds.stragglers != "count" and rounds.mode == "sync":
        return 0
    return inf if rounds.max_staleness is None else rounds.max_staleness


def conducts_of(scenario: Scenario, labels: Iterable[str]) -> dict[str, Conduct]:
    """Returns the settings of each algorithm's runs, by label; an algorithm may have rounds of its own."""
    return {label: Conduct.of(scenario.under(label)) for label in labels}
