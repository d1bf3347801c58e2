"""fedlapse for programs: results in lists and frames, and the commands as functions.

    import fedlapse

    found = fedlapse.compare("quickstart", "rounds.max=5")
    print(found.verdict)
    found.frame("rounds", "polars")

Nothing heavy is imported before it is needed.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

import devices.data.tv  # noqa: F401  a program may import torchvision beside a CPU-only torch, too
from fedlapse.errors import Error
from fedlapse.loaded import Framed, Loaded, load

if TYPE_CHECKING:
    from fedlapse.calls import audit, check, cite, compare, export, replay, run, study, tune
    from fedlapse.calls import map_ as map  # noqa: A004  the command's name

__all__ = [
    "Error",
    "Framed",
    "Loaded",
    "audit",
    "check",
    "cite",
    "compare",
    "export",
    "load",
    "map",
    "replay",
    "run",
    "study",
    "tune",
]


def __getattr__(name: str) -> Any:
    """Returns the command called `name` as a function.  It is imported only now, because that takes half a second."""
    if name not in __all__:
        raise AttributeError(f"module 'fedlapse' has no attribute {name!r}")
    return getattr(import_module("fedlapse.calls"), {"map": "map_"}.get(name, name))


def __dir__() -> list[str]:
    return __all__
