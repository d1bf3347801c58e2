"""The base of all parts of a scenario: exact types, bounds, and keys with descriptions."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

LONG = 1e9  # s: some thirty years; longer times lose their fractions of seconds
Positive = Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)]
Rate = Annotated[float, Field(ge=1e-6, le=1e6, allow_inf_nan=False)]
Seconds = Annotated[float, Field(gt=0, le=LONG, allow_inf_nan=False)]
Name = Annotated[str, Field(min_length=1, max_length=80, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]  # names a folder
Word = Annotated[str, Field(min_length=1, max_length=200)]
Value = Annotated[float, Field(ge=-1e12, le=1e12, allow_inf_nan=False)]  # of a metric
Share = Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)]
BelowOne = Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1, le=1_000_000)]
Seed = Annotated[int, Field(ge=0, lt=2**63)]


def says(text: str, *examples: Any, default: Any = ...) -> Any:
    """Returns the pydantic field of a key, with its description and examples for editors and `fedlapse schema`."""
    return Field(default, description=text, examples=list(examples))


class Part(BaseModel):
    """Base of all parts of a scenario: frozen, with exact types; unknown keys are rejected."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, ser_json_inf_nan="constants")
