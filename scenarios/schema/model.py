"""Schema of the model: the network, its pretrained weights, and what of it is trained and travels."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from scenarios.schema.keys import Part, says

Patterns = Annotated[str, Field(min_length=1, max_length=2000, pattern=r"\S")]


class Model(Part):
    """The neural network to train, as `digits-cnn` or `{name: my_package.nets:resnet, weights: resnet.safetensors,
    train: "fc.*"}`. Patterns are names of tensors with *, separated by spaces; one that begins with ! excludes.
    """

    name: str = says(
        "Neural network: digits-cnn, mlp, mnist-cnn or another that comes with fedlapse, or your own as "
        "package.module:function.",
        "digits-cnn",
        "my_package.nets:tiny",
        default="digits-cnn",
    )
    weights: str | None = says(
        "File with pretrained weights of the whole network, from which training starts: safetensors, or a state dict "
        "that torch.save has written.",
        "resnet18.safetensors",
        default=None,
    )
    digest: str | None = Field(
        default=None,
        description="SHA-256 of the file of weights; fedlapse writes it into records.",
        examples=["9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"],
        pattern="^[0-9a-f]{64}$",
    )
    train: Patterns | None = says(
        "Patterns of the parameters that are trained; or `trainable`, those that the network leaves with "
        "requires_grad, as peft does. All others are frozen: they travel once to each device, and are the same for all "
        "seeds. By default nothing is frozen, and the whole network travels.",
        "fc.*",
        "trainable",
        default=None,
    )
    keep: Patterns | None = says(
        "Patterns of tensors that never leave a device: each device trains its own, and keeps them from round to round "
        "(FedBN's normalisations, FedPer's last layers). By default there are none.",
        "head.*",
        "*bn*",
        default=None,
    )
    preloaded: bool = says("Frozen weights are on the devices already, so they never travel.", True, default=False)

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, said: Any) -> Any:
        if not isinstance(said, str | dict | Model):
            what = f"a {type(said).__name__}" if said is not None else None
            raise ValueError(f"it must be a name, as digits-cnn, or a mapping with `name`, not {what}")
        return {"name": said} if isinstance(said, str) else said

    @model_validator(mode="after")
    def _keys_go_together(self) -> Model:
        if self.digest and not self.weights:
            raise ValueError("digest belongs to weights, of which there are none")
        if self.preloaded and not self.train:
            raise ValueError("preloaded is of frozen weights; say what is trained, as {train: 'fc.*', preloaded: true}")
        return self

    @model_serializer(mode="wrap")
    def _short(self, full: SerializerFunctionWrapHandler) -> Any:
        return self.name if self == Model(name=self.name) else full(self)
