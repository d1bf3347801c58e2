"""The declared work of estimating an importance."""

from __future__ import annotations

from algorithms.algorithm import Phase, Work
from algorithms.counting.cost import SQUARES
from algorithms.importance.batched import CHUNK
from algorithms.importance.importance import Kind

HELD = 4.0  # floats for each parameter: sums in float64 (2), a chunk's sum (1), the copy of the model (1)


def estimation(name: str, kind: Kind, examples: int, parameters: int, batch: int = 64) -> Work:
    """Returns the work of one call of `importance` on `examples` examples; its phases are called `name`.

    One forward and one backward for each example, in batches where gradients of batches suffice; with "true" for each
    label of each example; "sampled" has one more forward, from which the labels are drawn.
    """
    chunk = max(1, min(CHUNK, examples))
    each = Phase(name, "each", examples, chunk, traffic=SQUARES * parameters)
    if kind in ("batch_squared", "mean_squared", "tensor_scalar"):
        batch = chunk if kind == "mean_squared" else max(1, min(batch, examples))
        return (Phase(f"{name}_batch", "batch", examples, batch, traffic=SQUARES * parameters),)
    if kind == "true":
        return (
            Phase(f"{name}_true", "each_label", examples, chunk),
        )  # cost.py counts what each label adds to the sums
    if kind == "sampled":
        return (Phase(f"{name}_labels", "forward", examples, chunk), each)
    return (each,)
