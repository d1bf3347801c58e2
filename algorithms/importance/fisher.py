"""Arithmetic on an importance: mixing, cutting, joining, and reading from a message."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch

from algorithms.algorithm import Reply, Tensors


def positive(importance: Tensors) -> Tensors:
    """Returns the importance with negative values set to 0; a lossy encoding can make small values negative."""
    return {name: value.clamp(min=0) for name, value in importance.items()}


def received(replies: Mapping[str, Reply]) -> dict[str, Reply]:
    """Returns the replies, with negative values of the uploaded importance (kind "fisher") set to 0."""
    uploads = {name: reply.upload | {"fisher": positive(reply.upload["fisher"])} for name, reply in replies.items()}
    return {name: replace(reply, upload=uploads[name]) for name, reply in replies.items()}


def mixed(old: Tensors | None, new: Tensors, gamma: float) -> Tensors:
    """Returns γ old + (1 - γ) new, or `new` without an old one.  Equal values stay the same to the bit."""
    return new if old is None else {name: value.lerp(new[name], 1 - gamma) for name, value in old.items()}


def prepared(
    importance: Tensors, known: Tensors | None, gamma: float, threshold: float
) -> tuple[Tensors, dict[str, float]]:
    """Returns the importance to upload: mixed with the `known` one, if there is one, and cut at the threshold.  Also
    returns the share of its coordinates that are not 0, for the report; {} with threshold 0."""
    sent = cut(importance if known is None else mixed(positive(known), importance, gamma), threshold)
    return sent, {"fisher_sent": density(sent)} if threshold else {}


def cut(importance: Tensors, threshold: float) -> Tensors:
    """Returns the importance, with 0 for values below `threshold` times the largest of their layer (a parameter
    tensor)."""
    if threshold == 0:
        return importance
    return {name: value * (value >= threshold * value.max()) for name, value in importance.items()}


def joined(fisher: Tensors, scores: Tensors, normalise: bool) -> tuple[Tensors, dict[str, float]]:
    """Returns F + s, from the Fisher diagonal and path scores, and the share of s in it for the report; with
    `normalise`, each is first divided by its largest value in all layers.

    Without scores ({}), returns F alone.
    """
    if not scores:
        return fisher, {}
    if normalise:
        fisher, scores = _of_largest(fisher), _of_largest(scores)
    together = {name: value + scores[name] for name, value in fisher.items()}
    return together, {"score_share": _total(scores) / (_total(together) or 1.0)}


def density(importance: Tensors) -> float:
    """Returns the share of coordinates that are not 0."""
    there = sum(int(value.count_nonzero()) for value in importance.values())
    return there / sum(value.numel() for value in importance.values())


def _of_largest(values: Tensors) -> Tensors:
    largest = max(float(value.max()) for value in values.values()) or 1.0
    return {name: value / largest for name, value in values.items()}


def _total(values: Tensors) -> float:
    return sum(float(value.sum(dtype=torch.float64)) for value in values.values())
