"""Transforms of single examples, which a scenario names as torchvision.transforms.v2 does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from inspect import signature
from typing import TYPE_CHECKING, Any

from devices.data import tv
from scenarios.text.faults import BadScenario, did_you_mean
from scenarios.text.yaml_source import Loc

if TYPE_CHECKING:
    from torch import Tensor

Step = str | Mapping[str, Any]  # a name, or {name: arguments}
Change = Callable[["Tensor"], "Tensor"]
AUGMENT: Loc = ("data", "augment")


def pipeline(steps: Sequence[Step], loc: Loc) -> Change:
    """Returns the transforms of a scenario, one after the other, as a function of one example.  `loc`: their place in
    the scenario.  Raises BadScenario for an unknown name or wrong arguments."""
    made = [_transform(step, (*loc, number)) for number, step in enumerate(steps)]
    return made[0] if len(made) == 1 else tv.transforms().Compose(made)


def _transform(step: Step, loc: Loc) -> Change:
    v2 = tv.transforms()
    ((name, said),) = ((step, {}),) if isinstance(step, str) else step.items()
    known = [
        each for each in vars(v2) if isinstance(kind := getattr(v2, each), type) and issubclass(kind, v2.Transform)
    ]
    if name not in known:
        raise BadScenario(f"torchvision.transforms.v2 has no transform {name!r}; {did_you_mean(name, known)}", loc)
    kind = getattr(v2, name)
    arguments = dict(said) if isinstance(said, Mapping) else {next(iter(signature(kind).parameters)): said}
    try:
        return kind(**{key: _argument(key, value, loc) for key, value in arguments.items()})  # type: ignore[no-any-return]
    except BadScenario:
        raise
    except Exception as error:  # torchvision's message names the argument
        raise BadScenario(f"{name}: {' '.join(str(error).split())}", loc) from None


def _argument(name: str, value: Any, loc: Loc) -> Any:
    """Returns the argument that a word or a list stands for: a dtype of torch, or transforms inside of a transform."""
    if name == "transforms" and isinstance(value, Sequence):
        return [_transform(step, loc) for step in value]
    if name == "dtype":
        import torch

        return getattr(torch, str(value), value)
    return tv.transforms().AutoAugmentPolicy(value) if name == "policy" else value


@dataclass(frozen=True)
class Augmentation:
    """Random changes of one training example, drawn from torch's global generator; sent to workers by name.

    `normalise`: the Normalize that ends the scenario's `transform`, or None.  It is undone before the `steps` and done
    again after them, because transforms of colours take pixels from 0 to 1.
    """

    steps: Sequence[Step]
    normalise: Step | None = None

    @classmethod
    def of(cls, augment: Sequence[Step], transform: Sequence[Step]) -> Augmentation | None:
        """Returns the augmentation of a scenario's `augment` and `transform`; None if there is none."""
        if not augment:
            return None
        last = transform[-1] if transform else ""
        return cls(augment, None if isinstance(last, str) or "Normalize" not in last else last)

    def __call__(self, example: Tensor) -> Tensor:
        return self._all(example)

    @cached_property
    def _all(self) -> Change:
        change = pipeline(self.steps, AUGMENT)
        if self.normalise is None:
            return change
        normalise: Any = pipeline([self.normalise], ("data", "transform"))
        plain = tv.transforms().Normalize(  # its inverse: (x + mean / std) * std
            [-mean / std for mean, std in zip(normalise.mean, normalise.std, strict=True)],
            [1 / std for std in normalise.std],
        )
        return tv.transforms().Compose([plain, change, normalise])  # type: ignore[no-any-return]

    def __reduce__(self) -> tuple[Any, ...]:
        return Augmentation, (self.steps, self.normalise)  # each process makes its own


def check_augmentation(augmentation: Augmentation, x: Any) -> None:
    """Raises BadScenario unless the augmentation takes the example `x`, an array, and returns one of the same shape and
    type."""
    import torch

    from algorithms.training.seeding import drawing

    given = torch.tensor(x)
    try:
        with drawing(0):
            found = augmentation(given)
    except BadScenario:
        raise
    except Exception as error:  # torchvision's message helps the user
        said = " ".join(str(error).split())
        raise BadScenario(
            f"on an example of shape {tuple(given.shape)}: {type(error).__name__}: {said}", AUGMENT
        ) from None
    if found.shape != given.shape or found.dtype != given.dtype:
        forms = [f"{each.dtype} of shape {tuple(each.shape)}" for each in (given, found)]
        raise BadScenario(f"it makes {forms[1]} of {forms[0]}; shape and type must stay (see data.transform)", AUGMENT)
