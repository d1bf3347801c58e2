"""Calls the library vl-convert, which draws charts as SVG or PNG, and makes the script that draws them in a browser."""

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
    """Returns a chart as SVG.  `spec`: the chart in Vega-Lite.  Raises OSError if there is too little memory."""
    return str(_library().vegalite_to_svg(spec))


def png(spec: Mapping[str, Any], scale: float) -> bytes:
    """Returns a chart as PNG, enlarged `scale` times.  `spec`: the chart in Vega-Lite.  Raises OSError as `svg`."""
    made: bytes = _library().vegalite_to_png(spec, scale=scale)
    return made


def script(code: str) -> str:
    """Returns one script with `code` and the libraries Vega, Vega-Lite and Vega-Embed.  Raises OSError as `svg`."""
    return str(_library().javascript_bundle(code))


@cache
def _library() -> Any:
    """Returns the module vl_convert.  Raises OSError if this process's limit of memory is too low for it.

    The module reserves much memory, and aborts its process if it cannot, so a separate process tries it first.
    """
    if resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY:
        tried = subprocess.run([sys.executable, "-P", "-c", TRIED], capture_output=True, check=False)  # noqa: S603  ours
        if tried.returncode:
            raise OSError(errno.ENOMEM, "no memory", "charts")
    import vl_convert

    return vl_convert
