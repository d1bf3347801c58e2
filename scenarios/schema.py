"""A scenario, as its file says it.  Unknown keys are refused; units are in the keys."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
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
    deadline_s: Positive | None = None  # after the round opened
    min_replies: Count = 1  # with fewer the model stays
    stragglers: Literal["stop", "finish"] = "stop"  # what becomes of those who are still at it when a round closes
    targets: tuple[Target, ...] = ()
    stop_at: Stop | None = None


class Evaluate(Part):
    every: Annotated[int, Field(ge=0)] = 1  # rounds; 0 never
    personalise_every: Annotated[int, Field(ge=0)] = 0  # rounds; 0: at the end only


class Link(Part):
    up_mbit_s: Positive
    down_mbit_s: Positive
    latency_ms: NotNegative = 0.0  # one way


class Server(Part):
    profile: str = "workstation"
    link: Link = Link(up_mbit_s=100, down_mbit_s=100, latency_ms=5)


class Presence(Part):
    off: tuple[tuple[NotNegative, Annotated[float, Field(gt=0)]], ...] = ()  # [from, to) in seconds


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
    name: str  # default: the key


class Scenario(Part):
    name: Annotated[str, Field(min_length=1, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
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
        if rounds.stop_at and not self.evaluate.every:
            raise ValueError("rounds.stop_at needs evaluate.every of at least 1")
        return self

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
    return {"key": keys[0], "options": dict(entry[keys[0]] or {}), "name": entry.get("name", keys[0])}
