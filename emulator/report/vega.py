"""What draws the charts in a browser."""

from __future__ import annotations

import os
from contextlib import suppress
from functools import cache as once
from importlib.metadata import version
from pathlib import Path

import vl_convert

from emulator.record.record import replace_file
from network.cache import cache


@once
def script_of_vega() -> str:
    """Vega, Vega-Lite and Vega-Embed.  vl-convert takes two seconds to put them together, so it is kept on the disk."""
    kept = _place()
    with suppress(OSError):
        if kept:
            return kept.read_text(encoding="utf-8")
    script = str(vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")).replace("</script", "<\\/script")
    with suppress(OSError):  # a full disk, or one that only reads
        if kept:
            kept.parent.mkdir(parents=True, exist_ok=True)
            replace_file(kept, script)
    return script


def _place() -> Path | None:
    """Where it is kept, one file for each version."""
    with suppress(RuntimeError):  # nobody's home
        return cache(os.environ) / "vega" / f"{version('vl-convert-python')}.js"
    return None
