"""Schema of distributions, from which numbers that differ from device to device are drawn."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Discriminator, Field, Tag, model_validator

from scenarios.schema.keys import NotNegative, Part, Rate, says


class Lognormal(Part):
    """A distribution of positive values with a long upper tail."""

    median: Rate = says("Median of the distribution: half of the devices have less.", 2.0)
    sigma: Annotated[float, Field(ge=0, le=5, allow_inf_nan=False)] = says(
        "Standard deviation of the logarithm. With 0.5 two thirds of the devices lie within a factor of 1.65 of "
        "the median.",
        0.5,
    )


class Uniform(Part):
    """A distribution in which all values from `low` to `high` are equally likely."""

    low: NotNegative = says("Lower end of the range.", 1.0)
    high: NotNegative = says("Upper end of the range.", 4.0)

    @model_validator(mode="after")
    def _in_order(self) -> Uniform:
        if self.low > self.high:
            raise ValueError(f"low is {self.low:g}, above high = {self.high:g}")
        return self


class Draw(Part):
    """A distribution from which each device of a group draws one value, the same for all seeds (see `fleet_seed`)."""

    lognormal: Lognormal | None = says("Draw from a lognormal distribution.", {"median": 2, "sigma": 0.5}, default=None)
    uniform: Uniform | None = says("Draw from a uniform distribution.", {"low": 1, "high": 4}, default=None)
    choice: Annotated[tuple[NotNegative, ...], Field(min_length=1)] | None = says(
        "Draw one of these values, each equally likely; repeat a value to make it likelier.", [1, 2, 2, 8], default=None
    )

    @model_validator(mode="after")
    def _one_of_them(self) -> Draw:
        if sum(kind is not None for kind in (self.lognormal, self.uniform, self.choice)) != 1:
            raise ValueError(
                "a draw is one of lognormal, uniform and choice, for example {lognormal: {median: 2, sigma: 0.5}}"
            )
        return self


def _kind(value: Any) -> str:
    return "<draw>" if isinstance(value, (dict, Draw)) else "<number>"


# A number, or a distribution. Distinguished by type, so that an error describes the intended one.
DrawnRate = Annotated[Annotated[Rate, Tag("<number>")] | Annotated[Draw, Tag("<draw>")], Discriminator(_kind)]
DrawnAmount = Annotated[Annotated[NotNegative, Tag("<number>")] | Annotated[Draw, Tag("<draw>")], Discriminator(_kind)]
