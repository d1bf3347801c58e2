"""The real computations of a run.  Each is a pure function of the study, names, numbers and bytes.

Tensors cross the border between processes as they cross a link: encoded by network.payload.  So what is
digested, sent and computed on are the same bytes.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from numpy import ndarray
from torch import nn

from algorithms import models
from algorithms.algorithm import Message, Party, Reply, Tensors
from algorithms.local import outputs
from devices.data.dataset import Dataset
from emulator.seeds import seed as derive
from emulator.study import Study
from network import payload

BLOCK = 1000  # examples evaluated by one job; a constant, so that results do not depend on the workers


@dataclass(frozen=True)
class Run:
    """Which run a job belongs to: an algorithm's label and a seed."""

    label: str
    seed: int


@dataclass(frozen=True)
class State:
    """The server's state, encoded."""

    message: bytes  # all kinds
    weights: bytes  # the kind "weights" alone: the model


@dataclass(frozen=True)
class Opening:
    """What a round opens with, encoded."""

    download: bytes
    extra: Mapping[str, bytes]  # device -> its whole download, where it gets more than the others


@dataclass(frozen=True)
class Trained:
    """A device's half of a round."""

    upload: bytes
    update: str  # digest of the upload
    examples: int
    kept: bytes  # the device's memory whatever becomes of the upload
    kept_if_counted: bytes | None  # and once it is counted, if that is more
    leverage: Mapping[str, float]
    personalised: tuple[int, int] | None  # (correct, examples) of the trained model on the device's test shard


@dataclass(frozen=True)
class Scores:
    """A model on one block of examples."""

    correct: ndarray  # (n,) bool
    loss: float  # sum over the block


def encode(message: Message) -> bytes:
    return payload.encode(
        {kind: {name: tensor.numpy() for name, tensor in tensors.items()} for kind, tensors in message.items()}
    )


def decode(data: bytes) -> Message:
    return {
        kind: {name: torch.from_numpy(array) for name, array in arrays.items()}
        for kind, arrays in payload.decode(data).items()
    }


def start(study: Study, run: Run) -> State:
    """The state before round 0.  All algorithms of a seed start from the same weights."""
    model = models.build(study.model, derive(run.seed, "weights"))
    weights = {name: value.detach().clone() for name, value in model.state_dict().items()}
    return _state(study.algorithms[run.label].start(weights, _server(study, run, 0)))


def request(study: Study, run: Run, round: int, state: bytes, names: tuple[str, ...]) -> Opening:
    """Opens a round: the download, encoded once for all who get the same."""
    asked = study.algorithms[run.label].request(decode(state), names, _server(study, run, round))
    extra = {name: encode({**asked.download, **more}) for name, more in asked.extra.items()}
    return Opening(encode(asked.download), extra)


def train(study: Study, run: Run, device: str, round: int, download: bytes, memory: bytes, measure: bool) -> Trained:
    """The device's half of a round; `measure`: also how its model does on its own test shard, before aggregation."""
    kept = decode(memory)
    reply = _train(study, run, device, round, download, kept)
    kept = {**kept, **reply.memory}
    upload = encode(reply.upload)
    return Trained(
        upload=upload,
        update=payload.digest(upload),
        examples=reply.examples,
        kept=encode(kept),
        kept_if_counted=encode({**kept, **reply.if_counted}) if reply.if_counted else None,
        leverage={name: value for name, value in reply.leverage.items() if math.isfinite(value)},
        personalised=_on_shard(study, run, device, reply) if measure else None,
    )


def personalise(study: Study, run: Run, device: str, round: int, download: bytes, memory: bytes) -> tuple[int, int]:
    """(correct, examples) of the device's model on its own test shard, had it been asked in this round."""
    return _on_shard(study, run, device, _train(study, run, device, round, download, decode(memory)))


def _train(study: Study, run: Run, device: str, round: int, download: bytes, memory: Message) -> Reply:
    party = _party(study, run, device, round, "train", study.splits[run.seed].train[device], memory)
    return study.algorithms[run.label].train(decode(download), party)


def _on_shard(study: Study, run: Run, device: str, reply: Reply) -> tuple[int, int]:
    shard = study.splits[run.seed].tests[device]
    scores = _score(study, reply.model or reply.upload["weights"], "test", shard)
    return int(scores.correct.sum()), len(shard)


def combine(study: Study, run: Run, round: int, state: bytes, replies: Mapping[str, tuple[bytes, int]]) -> State:
    """Closes a round: replies are (upload, examples) by device name."""
    decoded = {name: Reply(decode(upload), examples) for name, (upload, examples) in sorted(replies.items())}
    server = _server(study, run, round)
    return _state(study.algorithms[run.label].combine(decode(state), decoded, server))


def evaluate(study: Study, run: Run, weights: bytes, part: str, block: int) -> Scores:
    """The model on block `block` of the `test` set, or of all devices' `validation` examples."""
    indices = _indices(study, run, part)[block * BLOCK : (block + 1) * BLOCK]
    return _score(study, decode(weights)["weights"], part, indices)


def blocks(study: Study, run: Run, part: str) -> int:
    """How many blocks `evaluate` has for this part."""
    return -(-len(_indices(study, run, part)) // BLOCK)


def _indices(study: Study, run: Run, part: str) -> ndarray:
    if part == "test":
        return np.arange(len(_dataset(study).y_test))
    validation = study.splits[run.seed].validation
    return np.concatenate([validation[name] for name in sorted(validation)])


def upload_shapes(study: Study, label: str) -> dict[str, dict[str, payload.Shape]]:
    """What an upload must look like: the model's tensors, and its parameters for every other kind."""
    return payload.manifest(_blank(study, study.algorithms[label].uploads))


def largest_messages(study: Study, label: str) -> tuple[int, int]:
    """The bytes of the largest download and upload, encoded."""
    algorithm = study.algorithms[label]
    down, up = (payload.encode(_blank(study, kinds)) for kinds in (algorithm.downloads, algorithm.uploads))
    return len(down), len(up)


def _blank(study: Study, kinds: Collection[str]) -> payload.Message:
    """A message of these kinds, of the right shapes and of no meaning."""
    module = _module(study.model)
    weights = {name: value.numpy() for name, value in module.state_dict().items()}
    parameters = {name: weights[name] for name, p in module.named_parameters() if p.requires_grad}
    return {kind: weights if kind == "weights" else parameters for kind in kinds}


def _state(message: Message) -> State:
    weights = encode({"weights": message["weights"]})
    return State(weights if set(message) == {"weights"} else encode(message), weights)


@lru_cache(maxsize=4)
def _module(name: str) -> nn.Module:
    return models.build(name, seed=0)  # its values are loaded by whoever uses it


def _dataset(study: Study) -> Dataset:
    if study.dataset is None:
        raise ValueError("the study travelled without its data; executors hand it over")
    return study.dataset


def _party(study: Study, run: Run, name: str, round: int, purpose: str, indices: ndarray, memory: Message) -> Party:
    dataset = _dataset(study)
    return Party(
        name=name,
        devices=len(study.fleet),
        model=_module(study.model),
        loss=models.cross_entropy,
        x=torch.from_numpy(dataset.x[indices]),
        y=torch.from_numpy(dataset.y[indices]),
        round=round,
        cycle=0,
        seed=derive(run.seed, purpose, name, round),
        memory=memory,
    )


def _server(study: Study, run: Run, round: int) -> Party:
    return _party(study, run, "server", round, "server", study.splits[run.seed].proxy, {})


def _score(study: Study, weights: Tensors, part: str, indices: ndarray) -> Scores:
    dataset = _dataset(study)
    x, y = (dataset.x_test, dataset.y_test) if part == "test" else (dataset.x, dataset.y)
    if not len(indices):
        return Scores(np.zeros(0, bool), 0.0)
    labels = torch.from_numpy(y[indices])
    said = outputs(_module(study.model), weights, torch.from_numpy(x[indices]))  # (n, classes)
    loss = float(models.cross_entropy(said, labels).double().sum())
    return Scores((said.argmax(dim=1) == labels).numpy(), loss)
