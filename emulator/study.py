"""What a scenario names, built: data and shards, algorithms, fleet.  Jobs read it; nobody changes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from numpy import bincount, ndarray

from algorithms.algorithm import Algorithm
from devices.data.dataset import Dataset
from devices.device import Device
from network.link import Link


@dataclass(frozen=True)
class Split:
    """Who holds which examples under one seed: indices into the training set (`tests`: into the test set)."""

    train: Mapping[str, ndarray]
    validation: Mapping[str, ndarray]
    tests: Mapping[str, ndarray]
    proxy: ndarray  # the server's


@dataclass(frozen=True)
class Study:
    model: str
    dataset: Dataset | None  # None only while it travels to a worker
    splits: Mapping[int, Split]  # by seed
    algorithms: Mapping[str, Algorithm]  # by label
    fleet: Mapping[str, Device]  # by name, sorted
    links: Mapping[str, Link]  # by device name
    server: Device
    server_link: Link

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Of one example.  Raises ValueError in a worker's study before its data has arrived."""
        if self.dataset is None:
            raise ValueError("the study travelled without its data; executors hand it over")
        return self.dataset.x.shape[1:]

    def label_counts(self, seed: int) -> dict[str, list[int]]:
        """Training examples of each class on each device, under one seed."""
        if self.dataset is None:
            raise ValueError("the study travelled without its data; executors hand it over")
        labels, classes = self.dataset.y, self.dataset.classes
        shards = self.splits[seed].train
        return {name: bincount(labels[shard], minlength=classes).tolist() for name, shard in shards.items()}
