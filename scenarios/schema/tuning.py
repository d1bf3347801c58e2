"""Schema of `fedlapse tune`, the search for good settings."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from scenarios.schema.keys import Count, Name, NotNegative, Part, Positive, Rate, Seed, Value, says
from scenarios.schema.link_keys import Path

Choice = bool | int | float | str
Choices = Annotated[tuple[Choice, ...], Field(min_length=1, max_length=100)]
AUTO: Literal["auto"] = "auto"


class Aim(Part):
    """The value of `validation` (accuracy, or the task's first metric) to which the time of each configuration is
    measured. It is measured on examples that devices hold out, never on test examples."""

    value: Value = says("Value of `validation` to reach.", 0.9)
    hold: Count = says("Consecutive evaluated rounds in which it must be reached.", 1, default=3)


class Elsewhere(Part):
    """Links and speeds that take the place of the scenario's, for all devices. What is left out stays as it is."""

    up_mbit_s: Rate | None = says("Upload rate of all devices in Mbit/s.", 2, default=None)
    down_mbit_s: Rate | None = says("Download rate of all devices in Mbit/s.", 10, default=None)
    latency_ms: NotNegative | None = says("Latency in one direction, in ms.", 40, default=None)
    speed_gflop_s: Positive | None = says("Speed of all devices and kinds of layers in GFLOP/s.", 5, default=None)
    trace: Path | None = says(
        "File with recorded rates that all devices replay, in place of up_mbit_s and down_mbit_s.",
        "traces/walk.csv",
        default=None,
    )
    up_ratio: Positive | None = says(
        "Uplink rate as a fraction of the recorded downlink, an assumption, where only the downlink was recorded.",
        0.2,
        default=None,
    )

    @model_validator(mode="after")
    def _rates_come_from_one_place(self) -> Elsewhere:
        if self.trace is not None and (self.up_mbit_s is not None or self.down_mbit_s is not None):
            raise ValueError("rates come from `trace`, or from up_mbit_s and down_mbit_s; both are given")
        if self.trace is None and self.up_ratio is not None:
            raise ValueError("up_ratio is about a trace; give `trace`, or leave it out")
        if not any(value is not None for value in vars(self).values()):
            raise ValueError("nothing differs from the scenario; give a rate, a latency, a speed or a trace")
        return self


class Tune(Part):
    """Search for the best settings of each algorithm, by validation accuracy alone. Every algorithm is tried with the
    same number of configurations."""

    seeds: Annotated[tuple[Seed, ...], Field(min_length=1, max_length=100)] = says(
        "Random seeds of the search. None of them may be one of the scenario's own, which report the result.",
        [101, 102, 103],
        default=(101, 102, 103),
    )
    grid: dict[str, Choices | Literal["auto"]] = says(
        "Values to try, by option: `training.KEY` for all algorithms, NAME.OPTION for one algorithm, or for all that "
        "share its kind. Give strengths and rates ten times apart: the search halves and doubles around the best, "
        "unless `grid_only`. `auto`, for a penalty's strength: from where it does nothing to where training diverges, "
        "by its leverage in three rounds with the strength that the algorithm has.",
        {"training.lr": [0.01, 0.1], "fedcl.strength": [0.5, 5, 50]},
    )
    grid_only: bool = says(
        "Try only values of the grid. Otherwise the search may go a step beyond the grid's edge, and halve and double "
        "around the best.",
        True,
        default=False,
    )
    budget: Count = says("Configurations that are tried for each algorithm.", 12, default=12)
    rungs: Annotated[int, Field(ge=1, le=10)] = says(
        "Steps of successive halving: after each, the better half continues, with twice as many rounds.", 3, default=3
    )
    rounds: Count | None = says("Rounds of the last step. By default those of the scenario.", 40, default=None)
    target: Aim | Literal["auto"] | None = says(
        "Validation accuracy to which the time is measured. By default the value of the scenario's last target. "
        "`auto`: a study's main share, or 0.95, of the best that any algorithm reaches with the settings that it has, "
        "at the learning rates of the grid.",
        {"value": 0.9, "hold": 3},
        default=None,
    )
    links: Annotated[dict[Name, Elsewhere], Field(max_length=100)] = says(
        "Other links, by name, for each of which the best configuration is found by replay, without training.",
        {"slow-uplink": {"up_mbit_s": 0.5}},
        default={},
    )
    fixed: tuple[Name, ...] = says(
        "Names of algorithms that keep the settings that they have.", ["fedcl-paper"], default=()
    )

    @model_validator(mode="after")
    def _values_differ(self) -> Tune:
        for name, values in self.grid.items():
            if values == AUTO:
                continue
            plain: list[Any] = [(type(value), value) for value in values]
            if len(set(plain)) < len(plain):
                raise ValueError(f"grid.{name} has a value twice")
        return self

    @model_validator(mode="after")
    def _rounds_are_no_link(self) -> Tune:
        if "rounds" in self.links:
            raise ValueError("links.rounds: settings are tuned for rounds as well; give these links another name")
        return self
