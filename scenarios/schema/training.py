"""Schema of rounds: local training, the replies that count, targets, and evaluations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, WithJsonSchema, model_validator

from algorithms.algorithm import MOST_STEPS, Precision, Schedule
from algorithms.algorithm import Training as Sgd
from scenarios.schema.keys import LONG, BelowOne, Count, NotNegative, Part, Positive, Seconds, Share, Value, Word, says
from scenarios.schema.task import Metric

Either = Discriminator(
    lambda value: "<word>" if isinstance(value, str) else "<number>"
)  # so that an error describes the intended one
Epochs = Annotated[
    Annotated[Count, Tag("<number>")] | Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False), Tag("<fraction>")],
    Discriminator(lambda value: "<fraction>" if isinstance(value, float) else "<number>"),
    WithJsonSchema({"type": "number", "exclusiveMinimum": 0, "maximum": 1e6}),
]
Stack = Annotated[Annotated[Literal["auto"], Tag("<word>")] | Annotated[Count, Tag("<number>")], Either]
PersonaliseEvery = Annotated[
    Annotated[Literal["never"], Tag("<word>")] | Annotated[int, Field(ge=0, le=1_000_000), Tag("<number>")], Either
]


class Training(Part):
    """Local training. An algorithm may override any of these values in its own `training:`."""

    epochs: Epochs = says(
        "Passes over a device's examples in a round (E). Of a fraction, the steps are rounded up.",
        5,
        0.5,
        default=Sgd.epochs,
    )
    steps: Annotated[int, Field(ge=0, le=MOST_STEPS)] = says(
        "Steps of a device in a round, instead of epochs; with 0 epochs count.", 20, default=Sgd.steps
    )
    seconds: Annotated[float, Field(ge=0, le=LONG, allow_inf_nan=False)] = says(
        "Seconds of training in a round, instead of epochs: each device takes as many whole steps as fit by its own "
        "profile, without jitter, heat and absences, and at least one; with 0 epochs count.",
        30,
        default=Sgd.seconds,
    )
    weigh_by: Literal["examples", "steps"] = says(
        "Weights of devices in the mean of their models: their examples, or the steps of their training.",
        "steps",
        default=Sgd.weigh_by,
    )
    batch: Count = says("Number of examples in a step (B).", 10, 64, default=Sgd.batch)
    optimizer: Word = says(
        "Optimiser, fresh in each round: sgd, adam, adamw, or your own as package.module:factory, which is called with "
        "the parameters, `lr`, and those of `momentum`, `nesterov` and `weight_decay` that are set, as torch.optim's "
        "classes are.",
        "adam",
        "torch.optim:RMSprop",
        default=Sgd.optimizer,
    )
    lr: Positive = says("Learning rate in the first round.", 0.05, default=Sgd.lr)
    lr_decay: Share = says(
        "Factor by which the learning rate shrinks each round, or with `lr_schedule: step` in each `lr_rounds` rounds.",
        0.99,
        default=Sgd.lr_decay,
    )
    lr_schedule: Schedule = says(
        "Schedule of the learning rate. exponential: multiplied by `lr_decay` each round. cosine: half a cosine "
        "from `lr` to `lr_end` in `lr_rounds` rounds. step: multiplied by `lr_decay` after each `lr_rounds` rounds. "
        "linear_warmup: rises to `lr` in `lr_rounds` equal steps, and stays there. constant: `lr`.",
        "cosine",
        default=Sgd.lr_schedule,
    )
    lr_end: NotNegative = says("Learning rate at the end of a cosine schedule.", 0.0001, default=Sgd.lr_end)
    lr_rounds: Annotated[int, Field(ge=0, le=1_000_000)] = says(
        "Length of a cosine, of each step, or of a warm-up, in rounds.", 500, default=Sgd.lr_rounds
    )
    momentum: BelowOne = says("Momentum of SGD, which starts at zero in each round.", 0.9, default=Sgd.momentum)
    nesterov: bool = says("Take Nesterov's momentum instead of the plain one.", True, default=Sgd.nesterov)
    weight_decay: NotNegative = says(
        "Weight decay: an L2 penalty, or with adamw decoupled from the gradient.", 0.0001, default=Sgd.weight_decay
    )
    clip_norm: NotNegative = says(
        "Largest norm of the gradient in a step, with penalties and before weight decay; 0 means no limit.",
        1.0,
        default=Sgd.clip_norm,
    )
    precision: Precision = says(
        "Precision of the products in training steps; weights, losses and updates are float32 always. tf32: their "
        "factors have 10 bits, on GPUs only (`--device cuda`). bf16: they are computed in bfloat16, 8 bits, on GPUs "
        "or the CPU. The devices' simulated seconds are the same with each.",
        "bf16",
        default=Sgd.precision,
    )
    stack: Stack = says(
        "Largest number of devices that are trained together, as one stack, which is faster for small models. Results "
        "differ from those of devices that are trained one by one (1) in rounding only. auto: as many as pay for the "
        "model and its batches, on the CPU or a GPU (`--device`). A model that cannot be stacked has 1.",
        "auto",
        20,
        default="auto",
    )

    @model_validator(mode="after")
    def _fits_together(self) -> Training:
        Sgd(**self.model_dump(exclude={"stack"}))
        return self


class Target(Part):
    """A value that a metric has to reach; the time, rounds and bytes until then are the result."""

    metric: Metric = says(
        "Metric that is compared with the value after each evaluated round: one of the task's, as accuracy, f1 or mse, "
        "or loss, initial, personalised or validation.",
        "accuracy",
        default="accuracy",
    )
    value: Value = says("Value to reach: from below, or from above if lower is better, as for mse.", 0.9)
    hold: Count = says("Consecutive evaluated rounds in which the value must be reached.", 3, default=1)
    hold_s: Seconds | None = says(
        "Seconds for which each evaluation must reach the value, because rounds, which `hold` counts, differ in "
        "length. By default `hold` alone applies.",
        600,
        default=None,
    )


class Stop(Target):
    """A target at which a run ends."""

    metric: Metric = says(
        "Metric that stops the run. Stopping is a decision, so by default it uses held-out examples.",
        "validation",
        default="validation",
    )


ASYNC = "{mode: async, buffer: 10, in_flight: 80}"  # an example in errors
SYNC_ONLY = {"fraction", "ask", "deadline_s", "min_replies", "stragglers", "cycle_s"}


class Rounds(Part):
    """Course of rounds, and the end of a run."""

    mode: Literal["sync", "async"] = says(
        "Synchronous or asynchronous rounds. sync: a round selects devices and waits for them. async: `in_flight` "
        "devices are always at work, and each `buffer` replies make a new version of the model, which is a row of the "
        "record; in keys that count rounds, such as `max`, `in_flight` replies are one round.",
        "async",
        default="sync",
    )
    buffer: Count | None = says("Replies that make a version (K), with `mode: async`.", 10, default=None)
    in_flight: Count | None = says("Devices at work at the same time (M), with `mode: async`.", 80, default=None)
    timeout_s: Seconds | None = says(
        "Seconds after its request when a device is told to stop, so that its place is free, with `mode: async`. By "
        "default never.",
        600,
        default=None,
    )
    max: Count = says("Number of rounds after which a run ends.", 60, default=60)
    per_cycle: Annotated[int, Field(ge=0, le=1_000_000)] = says(
        "Rounds on each time slice of data that drift, such as a month; with 0 all slices are used at once.",
        20,
        default=0,
    )
    cycle_s: Seconds | None = says(
        "Seconds between two time slices of data that drift; the clock jumps there. By default a slice arrives as "
        "soon as it is needed.",
        3600,
        default=None,
    )
    fraction: Share = says("Share of the fleet whose replies close a round.", 0.3, default=0.3)
    ask: Count | None = says(
        "Devices selected in a round; more than `fraction` of the fleet is over-selection. By default as many as "
        "close a round.",
        8,
        default=None,
    )
    deadline_s: Seconds | None = says(
        "Seconds after which a round closes, however many devices have replied. By default a round has no deadline.",
        120,
        default=None,
    )
    min_replies: Count = says("Replies below which a round fails and the model stays as it was.", 2, default=1)
    stragglers: Literal["stop", "finish", "count"] = says(
        "Behaviour of devices that are still working when a round closes: they stop, they finish in vain, or they "
        "finish and their replies count in the round in which they arrive.",
        "finish",
        default="stop",
    )
    max_staleness: Annotated[int, Field(ge=0, le=1_000_000)] | None = says(
        "Rounds since the one that asked, above which a reply does not count, with `stragglers: count` or `mode: "
        "async`. By default every reply counts.",
        20,
        default=None,
    )
    when_off: Literal["lose", "pause", "restart"] = says(
        "Fate of computing whose device goes offline: it is lost, it pauses until the device is back, or it restarts "
        "then.",
        "pause",
        default="lose",
    )
    transfers: Literal["lose", "restart", "resume"] = says(
        "Fate of a transfer whose device goes offline: it is lost, it restarts when the device is back, or it resumes "
        "from the last byte.",
        "resume",
        default="lose",
    )
    targets: tuple[Target, ...] = says(
        "Targets for which results report time, rounds and bytes.", [{"metric": "accuracy", "value": 0.9}], default=()
    )
    stop_at: Stop | None = says("Target at which a run ends early.", {"value": 0.95, "hold": 3}, default=None)
    until_s: Seconds | None = says(
        "Virtual seconds after which no further round begins, so that a run ends early. If the last evaluations reach "
        "a target but are too few to tell if it is held, the run continues until that is known.",
        600,
        default=None,
    )

    @model_validator(mode="after")
    def _only_late_replies_are_stale(self) -> Rounds:
        if self.max_staleness is not None and self.stragglers != "count" and self.mode == "sync":
            example = "{stragglers: count, max_staleness: 20}"
            raise ValueError(f"max_staleness needs late replies to be aggregated, for example {example}")
        return self

    @model_validator(mode="after")
    def _keys_fit_the_mode(self) -> Rounds:
        said = {key for key, field in type(self).model_fields.items() if getattr(self, key) != field.default}
        if self.mode == "sync" and (strange := sorted(said & {"buffer", "in_flight", "timeout_s"})):
            raise ValueError(f"{strange[0]} needs asynchronous rounds, for example {ASYNC}")
        if self.mode == "async" and (self.buffer is None or self.in_flight is None):
            raise ValueError(f"mode: async needs buffer and in_flight, for example {ASYNC}")
        if self.mode == "async" and (strange := sorted(said & SYNC_ONLY)):
            raise ValueError(f"{strange[0]} is of synchronous rounds; mode: async has buffer, in_flight and timeout_s")
        return self


# What an algorithm may have of its own; the rest of `rounds` is the same for all.
OWN_ROUNDS = (
    *("mode", "buffer", "in_flight", "timeout_s", "fraction", "ask", "deadline_s", "min_replies"),
    *("stragglers", "max_staleness"),
)


def own_rounds(shared: Rounds, own: Mapping[str, Any]) -> Rounds:
    """Returns the scenario's rounds (`shared`), overridden by an algorithm's own.  Rules of the other mode of rounds
    are not taken over.

    Raises ValidationError, and ValueError for a key that is the same for all algorithms.
    """
    if not isinstance(own, Mapping):
        raise ValueError(f"rounds must be a mapping, for example {ASYNC}, not {own!r}")
    if common := sorted(own.keys() & (Rounds.model_fields.keys() - {*OWN_ROUNDS})):
        raise ValueError(
            f"{common[0]} is the same for all algorithms; rounds of their own take {', '.join(OWN_ROUNDS)}"
        )
    others = OWN_ROUNDS if own.get("mode", shared.mode) != shared.mode else ()
    return Rounds.model_validate({**shared.model_dump(exclude={*others}), **own})


class Evaluate(Part):
    """Evaluations of models, which cost no virtual time."""

    every: Annotated[int, Field(ge=0, le=1_000_000)] = says(
        "Rounds between two evaluations of the global model; with 0 it is never evaluated.", 1, default=1
    )
    test: bool = says(
        "Evaluate models on the test set; without it, only `validation` is known. A search of settings never does.",
        True,
        default=True,
    )
    personalise_every: PersonaliseEvery = says(
        "Rounds between two evaluations of the models that devices have after local training; 0 for the end only, "
        "or never. Every device trains once more for it, which takes real time.",
        10,
        "never",
        default=0,
    )
