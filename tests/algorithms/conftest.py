"""Shared by several test files: a fleet that plays rounds of FedCurv without the emulator."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

import pytest
import torch
from torch import nn

from algorithms.algorithm import Message, Party, Reply, Tensors, unharmed
from algorithms.fedavg import FedAvg
from tests.algorithms.made import cross_entropy

Send = Callable[[str, Tensors], Tensors]


@dataclass
class Curved:
    """Devices a, b, c ... with 6 examples each and a model of 23 parameters; some uploads may never be counted."""

    algorithm: FedAvg
    send: Send = unharmed  # what arrives of uploads
    dtype: torch.dtype = torch.float32
    lossy: Mapping[str, str] = field(default_factory=dict)  # which kinds are said to lose
    state: Message = field(default_factory=dict)
    memory: dict[str, Message] = field(default_factory=dict)
    uploads: dict[str, Message] = field(default_factory=dict)  # of each device the last one that was counted
    since: dict[str, int] = field(default_factory=dict)  # and its round
    round: int = 0

    def __post_init__(self) -> None:
        weights = {name: value.clone() for name, value in self.party("server").model.state_dict().items()}
        self.state = self.algorithm.start(weights, self.party("server"))

    def party(self, name: str) -> Party:
        torch.default_generator.manual_seed(3)
        model = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2)).to(self.dtype)
        draw = torch.Generator().manual_seed(sum(name.encode()))
        x, y = torch.randn(6, 4, generator=draw).to(self.dtype), torch.randint(2, (6,), generator=draw)
        # A dead input, as the border of a picture; and one that only this device sees, as a label of its own.
        x[:, 0] = 0.0
        x[:, 1] *= name == "a"
        party = Party(name, 5, model, cross_entropy, x, y, self.round, 0, 100 * self.round + ord(name[0]))
        return replace(party, memory=self.memory.get(name, {}), send=self.send, lossy=self.lossy)

    def down(self, names: Iterable[str] = "abcde") -> Message:
        return self.algorithm.request(self.state, list(names), self.party("server")).download

    def play(self, asked: Iterable[str], counted: Iterable[str] | None = None) -> dict[str, Reply]:
        down = self.down()
        replies = {name: self.algorithm.train(down, self.party(name)) for name in asked}
        kept = {name: replies[name] for name in (asked if counted is None else counted)}
        if kept:
            self.state = self.algorithm.combine(self.state, kept, self.party("server"))
        for name, reply in kept.items():
            self.memory[name] = {**self.memory.get(name, {}), **reply.if_counted}
            self.uploads[name], self.since[name] = reply.upload, self.round
        self.round += 1
        return replies


@pytest.fixture(scope="session")
def curved() -> type[Curved]:
    return Curved
