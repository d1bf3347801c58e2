"""The one door to torchvision.

torchvision's wheel on PyPI is built for CUDA.  Beside a CPU-only torch its compiled operators cannot be
loaded, and then `import torchvision` fails with "operator torchvision::nms does not exist", because it
attaches shapes to two operators that were never defined.  Data sets and transforms use neither; defining
the schemas alone lets the import pass.
"""

from __future__ import annotations

import importlib
from types import ModuleType


def datasets() -> ModuleType:
    """`torchvision.datasets`; raises ImportError if torchvision is not installed."""
    try:
        return importlib.import_module("torchvision.datasets")
    except RuntimeError as error:
        if "torchvision::nms" not in str(error):
            raise
    import torch  # torchvision has loaded it; this module alone costs nothing

    # only now: where the compiled operators do load, defining them twice would be the failure.  Without a
    # `lib` of ours torch keeps the definition's Library alive; if collected, it would take the schema along
    for name in ("nms", "qnms"):
        torch.library.define(f"torchvision::{name}", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    return importlib.import_module("torchvision.datasets")
