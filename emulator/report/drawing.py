"""The library that draws: charts as SVG and PNG, and the script of pages."""

from __future__ import annotations

import errno
import resource
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from typing import Any

TRIED = 'import vl_convert; vl_convert.vegalite_to_svg({"mark": "point", "data": {"values": []}})'


def svg(spec: Mapping[str, Any]) -> str:
    """A chart in Vega-Lite as SVG.  Raises OSError if there is no memory for the library."""
    return str(_library().vegalite_to_svg(spec))


def png(spec: Mapping[str, Any], scale: float) -> bytes:
    """A chart as PNG, `scale` pixels for each of its own.  Raises OSError likewise."""
    made: bytes = _library().vegalite_to_png(spec, scale=scale)
    return made


def script(code: str) -> str:
    """Vega, Vega-Lite and Vega-Embed, and code that uses them, as one script.  Raises OSError likewise."""
    return str(_library().javascript_bundle(code))


@cache
def _library() -> Any:
    """It reserves far more memory than it uses, and ends the process where it may not: a limit is tried elsewhere."""
    if resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY:
        tried = subprocess.run([sys.executable, "-P", "-c", TRIED], capture_output=True, check=False)  # noqa: S603  ours
        if tried.returncode:
            raise OSError(errno.ENOMEM, "no memory", "charts")
    import vl_convert

    return vl_convert
