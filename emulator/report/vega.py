"""The script that draws the report's charts in a browser; it is made once and kept in the user's cache folder."""

from __future__ import annotations

import os
from contextlib import suppress
from functools import cache as once
from importlib.metadata import version
from pathlib import Path

from emulator.record.writing import replace_file
from emulator.report import drawing
from network.cache import cache
from network.wire.payload import digest

CODE = "window.vegaEmbed = vegaEmbed;"


@once
def script_of_vega() -> str:
    """Returns the libraries Vega, Vega-Lite and Vega-Embed as one script.

    To make the script takes two seconds, so it is kept in a file in the user's cache folder.
    """
    place = _place()
    if place and (kept := _kept(place)):
        return kept
    script = drawing.script(CODE).replace("</script", "<\\/script")
    with suppress(OSError):  # a full or read-only disk
        if place:
            place.parent.mkdir(parents=True, exist_ok=True)
            replace_file(place, f"{digest(script.encode())}\n{script}")
    return script


def _place() -> Path | None:
    """Returns the path of the file that keeps the script of this version of vl-convert; None if the user has no home
    folder."""
    made_by = digest(f"{version('vl-convert-python')} {CODE}".encode())
    with suppress(RuntimeError):  # the user has no home
        return cache(os.environ) / "vega" / made_by[:16]
    return None


def _kept(place: Path) -> str | None:
    """Returns the script that the file keeps; None if the file cannot be read, or the script does not match the digest
    before it."""
    with suppress(OSError, ValueError):
        said, _, script = place.read_text(encoding="utf-8").partition("\n")
        if said == digest(script.encode()):
            return script
    return None
