"""fedlapse for programs: results in lists and frames, and the commands as functions.

    import fedlapse

    found = fedlapse.compare("quickstart", "rounds.max=5")
    print(found.verdict)
    found.frame("rounds", "polars")

Nothing heavy is imported before it is needed.
"""

import devices.data.tv  # noqa: F401  a program may import torchvision beside a CPU-only torch, too
from fedlapse.calls import check, compare, replay
from fedlapse.errors import Error
from fedlapse.loaded import Framed, Loaded, load

__all__ = ["Error", "Framed", "Loaded", "check", "compare", "load", "replay"]
