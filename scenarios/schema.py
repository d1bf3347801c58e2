"""A scenario, as its file says it.  Unknown keys are refused; units are in the keys."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

LONG = 1e9  # s: some thirty years; beyond it seconds lose their fractions
Positive = Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)]
Rate = Annotated[float, Field(ge=1e-6, le=1e6, allow_inf_nan=False)]
Seconds = Annotated[float, Field(gt=0, le=LONG, allow_inf_nan=False)]
Name = Annotated[str, Field(min_length=1, max_length=80, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]  # names a folder
Share = Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1)]
Metric = Literal["accuracy", "initial", "personalised", "validation"]


class Part(BaseModel):
    """What all parts of a scenario share: frozen, exact types, no key that is not known."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, ser_json_inf_nan="constants")


class Split(Part):
    """How the training set is divided among the devices, in equal shares."""

    kind: Literal["iid", "dirichlet"] = "iid"
    alpha: Positive | None = None  # dirichlet: 0.1 is very uneven, 100 nearly even

    @model_validator(mode="after")
    def _alpha_goes_with_dirichlet(self) -> Split:
        if (self.kind == "dirichlet") != (self.alpha is not None):
            raise ValueError("alpha belongs to a dirichlet split, and to no other")
        return self


class Proxy(Part):
    """The server's own examples, a share of the training set (at least 64 examples)."""

    fraction: Share = 0.05
    overlap: bool = True  # whether devices may hold them too


class Data(Part):
    set: Literal["digits", "mnist"] = "digits"
    root: str | None = None  # where the files lie; default $FEDLAPSE_DATA
    download: bool = False  # fetch what is missing into root
    split: Split = Split()
    proxy: Proxy = Proxy()
    validation: Annotated[float, Field(ge=0, lt=1)] = 0.1  # share of each device's examples that is held out


class Training(Part):
    """Local training.  An algorithm may override any of these."""

    epochs: Count = 5
    batch: Count = 10
    lr: Positive = 0.05
    lr_decay: Share = 1.0  # a factor per round
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.0
    weight_decay: NotNegative = 0.0


class Target(Part):
    metric: Metric = "accuracy"
    value: Share
    hold: Count = 1  # evaluated rounds in a row


class Stop(Target):
    metric: Metric = "validation"  # a choice, so it is made on held-out examples


class Rounds(Part):
    max: Count = 60
    fraction: Share = 0.3  # of the fleet: so many replies close a round
    ask: Count | None = None  # devices asked; more than that is over-selection; default: just as many
    deadline_s: Seconds | None = None  # after the round opened
    min_replies: Count = 1  # with fewer the model stays
    stragglers: Literal["stop", "finish"] = "stop"  # what becomes of those who are still at it when a round closes
    targets: tuple[Target, ...] = ()
    stop_at: Stop | None = None


class Evaluate(Part):
    every: Annotated[int, Field(ge=0)] = 1  # rounds; 0 never
    personalise_every: Annotated[int, Field(ge=0)] = 0  # rounds; 0: at the end only


class Link(Part):
    up_mbit_s: Rate
    down_mbit_s: Rate
    latency_ms: NotNegative = 0.0  # one way


class Server(Part):
    profile: str = "workstation"
    link: Link = Link(up_mbit_s=100, down_mbit_s=100, latency_ms=5)


class Presence(Part):
    off: tuple[
        tuple[Annotated[float, Field(ge=0, le=LONG)], Annotated[float, Field(gt=0)]], ...
    ] = ()  # [from, to) in seconds

    @field_validator("off")
    @classmethod
    def _in_our_time(cls, off: tuple[tuple[float, float], ...]) -> tuple[tuple[float, float], ...]:
        for _, end in off:
            if end > LONG and end != float("inf"):
                raise ValueError(f"an absence ends at {end:g} s; it must end by {LONG:g}, or .inf for never")
        return off


class Group(Part):
    """So many equal devices."""

    profile: str
    count: Count = 1
    link: Link
    presence: Presence = Presence()


class Entry(Part):
    """An algorithm to run: `fedavg`, or `{fedcl: {strength: 0.5}, name: mine}`."""

    key: str  # fedavg, fedprox, ...
    options: dict[str, Any]
    name: Name  # default: the key


class Scenario(Part):
    name: Name
    seeds: Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1)] = (1,)
    data: Data = Data()
    model: str = "digits-cnn"
    training: Training = Training()
    rounds: Rounds = Rounds()
    evaluate: Evaluate = Evaluate()
    server: Server = Server()
    fleet: Annotated[tuple[Group, ...], Field(min_length=1)]
    algorithms: Annotated[tuple[Entry, ...], Field(min_length=1)] = Field(
        default=(Entry(key="fedavg", options={}, name="fedavg"),)
    )

    @field_validator("algorithms", mode="before")
    @classmethod
    def _short_entries(cls, entries: Any) -> Any:
        return tuple(_entry(entry) for entry in entries) if isinstance(entries, (list, tuple)) else entries

    @model_validator(mode="after")
    def _fits_together(self) -> Scenario:
        devices, rounds = self.devices, self.rounds
        labels = [entry.name for entry in self.algorithms]
        if len(set(labels)) < len(labels):
            raise ValueError(
                f"algorithms: the names {', '.join(labels)} are not all different; give each its own `name:`"
            )
        if len(set(self.seeds)) < len(self.seeds):
            raise ValueError(f"seeds: {list(self.seeds)} holds one of them twice")
        if rounds.ask is not None and not self.needed <= rounds.ask <= devices:
            raise ValueError(
                f"rounds.ask is {rounds.ask}; it must be from {self.needed} (fraction x devices) "
                f"to {devices} (the fleet)"
            )
        if rounds.min_replies > self.needed:
            raise ValueError(
                f"rounds.min_replies is {rounds.min_replies}, but {self.needed} replies "
                f"(fraction x devices) close a round"
            )
        for target in (*rounds.targets, *([rounds.stop_at] if rounds.stop_at else [])):
            self._can_be_seen(target)
        return self

    def _can_be_seen(self, target: Target) -> None:
        said = f"{target.metric} {target.value:g}"
        if not self.evaluate.every:
            raise ValueError(f"{said} can never be seen: evaluate.every is 0; it must be 1 or more")
        if target.metric == "validation" and not self.data.validation:
            raise ValueError(f"{said} can never be seen: data.validation is 0; it must be above 0")
        once = target.metric == "personalised" and not self.evaluate.personalise_every
        if once and (target.hold > 1 or isinstance(target, Stop)):
            raise ValueError(f"{said} is seen at the end only: give evaluate.personalise_every")

    @property
    def devices(self) -> int:
        return sum(group.count for group in self.fleet)

    @property
    def needed(self) -> int:
        """How many replies close a round: max(C·K, 1) as in McMahan et al. 2017, rounded half up."""
        return max(1, int(self.rounds.fraction * self.devices + 0.5))


def _entry(entry: Any) -> Any:
    """The short forms of an algorithm, written out."""
    if isinstance(entry, str):
        return {"key": entry, "options": {}, "name": entry}
    if not isinstance(entry, dict) or set(entry) == {"key", "options", "name"}:
        return entry
    keys = [key for key in entry if key != "name"]
    if len(keys) != 1:
        raise ValueError(f"{entry} must name one algorithm, as in {{fedcl: {{strength: 0.5}}, name: mine}}")
    options = entry[keys[0]] or {}
    if not isinstance(options, dict):
        raise ValueError(
            f"{keys[0]} has {options!r}; its options must be a mapping, as in {{fedcl: {{strength: 0.5}}}}"
        )
    return {"key": keys[0], "options": options, "name": entry.get("name", keys[0])}
