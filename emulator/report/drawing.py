"""Calls vl-convert, which draws charts as SVG and PNG and bundles the script of pages."""

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
    """The chart, given in Vega-Lite, as SVG.  Raises OSError if there is no memory for the library."""
    return str(_library().vegalite_to_svg(spec))


def png(spec: Mapping[str, Any], scale: float) -> bytes:
    """The chart as PNG, enlarged `scale` times.  Raises OSError if there is no memory for the library."""
    made: bytes = _library().vegalite_to_png(spec, scale=scale)
    return made


def script(code: str) -> str:
    """`code` bundled with Vega, Vega-Lite and Vega-Embed.  Raises OSError if there is no memory for the library."""
    return str(_library().javascript_bundle(code))


@cache
def _library() -> Any:
    """The module vl_convert.  It reserves much memory and aborts under a limit, so a separate process tests the limit
    first."""
    if resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY:
        tried = subprocess.run([sys.executable, "-P", "-c", TRIED], capture_output=True, check=False)  # noqa: S603  ours
        if tried.returncode:
            raise OSError(errno.ENOMEM, "no memory", "charts")
    import vl_convert

    return vl_convert
