"""What is odd about a scenario's objects, though they can be used: `check` and `compare` say so before any training."""

from __future__ import annotations

from collections.abc import Iterator

from emulator.lab.lab import Lab


def doubts(lab: Lab) -> Iterator[str]:
    """Sentences."""
    if ":" in lab.model and _ends_in_softmax(lab):
        yield (
            f"the outputs of {lab.model} are >= 0 and sum to 1, as after a softmax; training takes the cross-entropy "
            "of logits, which has a softmax of its own, so the model should end before it"
        )
    if not len(lab.data.y_test):
        yield f"{lab.data.name} has no test examples: no accuracy is known but that of validation (data.validation)"


def _ends_in_softmax(lab: Lab) -> bool:
    """Whether the outputs for two examples look like probabilities, in training or in evaluation."""
    import torch

    from algorithms import own

    network, x = lab.network(0), torch.from_numpy(lab.data.x[:2])
    with torch.no_grad():
        return any(own.probabilities(network.train(how)(x)) for how in (False, True))
