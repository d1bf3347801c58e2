"""Makes `import torchvision` work with a CPU-only torch, wherever it is imported after this module.

torchvision's wheel on PyPI is built for CUDA.  With a CPU-only torch its compiled operators cannot be loaded.  Its
import then fails with "operator torchvision::nms does not exist", because it attaches shapes to two operators that were
never defined, and so does the import of transformers, peft, timm and others that look for it.  Data sets, transforms
and networks use neither operator; defining their schemas makes the import succeed.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType

ATTACHES = "torchvision._meta_registrations"  # the module that fails; torchvision imports its operators before it


class Definitions:
    """An import hook: Python asks it for every module, and just before the failing module is imported, it defines the
    missing operators.  It finds no module itself."""

    @staticmethod
    def find_spec(name: str, *_: object) -> None:
        if name == ATTACHES:
            _define()


def _define() -> None:
    """Defines in torch the two operators that torchvision could not load."""
    import torch  # torchvision has already imported it; importing this module costs nothing

    for name in ("nms", "qnms"):
        if not hasattr(torch.ops.torchvision, name):
            # without a `lib` argument torch keeps the definition's Library alive; otherwise it would be collected with
            # the schema
            torch.library.define(f"torchvision::{name}", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")


def datasets() -> ModuleType:
    """Returns `torchvision.datasets`; raises ImportError if torchvision is not installed."""
    return importlib.import_module("torchvision.datasets")


def transforms() -> ModuleType:
    """Returns `torchvision.transforms.v2`; raises ImportError if torchvision is not installed."""
    return importlib.import_module("torchvision.transforms.v2")


sys.meta_path.insert(0, Definitions)
