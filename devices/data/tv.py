"""Makes `import torchvision` work beside a CPU-only torch, wherever it is imported once this module is.

torchvision's wheel on PyPI is built for CUDA.  Beside a CPU-only torch its compiled operators cannot be loaded, and
then its import fails with "operator torchvision::nms does not exist", because it attaches shapes to two operators that
were never defined; with it fails the import of transformers, peft, timm and others that look for it.  Data sets,
transforms and networks use neither operator; to define their schemas lets the import pass.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType

ATTACHES = "torchvision._meta_registrations"  # the module that fails; torchvision imports its operators before it


class Definitions:
    """A finder of modules that is asked first: before the module that would fail is imported, it defines the missing
    operators. It finds no module itself."""

    @staticmethod
    def find_spec(name: str, *_: object) -> None:
        if name == ATTACHES:
            _define()


def _define() -> None:
    """Defines the operators that torchvision could not load."""
    import torch  # torchvision has imported it; this module alone costs nothing

    for name in ("nms", "qnms"):
        if not hasattr(torch.ops.torchvision, name):
            # without a `lib` of ours torch keeps the definition's Library alive; if collected, it would take the
            # schema along
            torch.library.define(f"torchvision::{name}", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")


def datasets() -> ModuleType:
    """Returns `torchvision.datasets`; raises ImportError if torchvision is not installed."""
    return importlib.import_module("torchvision.datasets")


sys.meta_path.insert(0, Definitions)
