"""Colours that colour-blind readers tell apart: Okabe and Ito's, and shades of them for what belongs together.

A family shares a hue (downloads blue, computing orange, uploads green, the server purple) and its members differ
in lightness, so that a picture printed in grey still has edges.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

# Okabe and Ito (2008), without yellow and black, which one of the two backgrounds would swallow
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#808080")
DASHES: tuple[Sequence[int], ...] = ((1, 0), (7, 3), (2, 2), (9, 3, 2, 3))

KINDS = ("weights", "importance", "fisher", "fisher_theta", "frame", "cut")
PHASES = ("train", "fisher", "omega")
NAMES = {
    "importance": "Ω",
    "omega": "Ω",
    "fisher": "Fisher",
    "fisher_theta": "Fisher × θ",
    "frame": "framing",
}
SHADES: Mapping[str, Sequence[str]] = {
    "download": ("#0072B2", "#4FA3DC", "#8CC9F0", "#C3E3F7", "#00344F", "#8A97A3"),
    "compute": ("#E69F00", "#D55E00", "#8F3A00", "#F6D488", "#B37C1E"),
    "upload": ("#009E73", "#3FBF97", "#80D5B9", "#BFEBDD", "#00402F", "#8F9E98"),
    "server": ("#CC79A7", "#E8BBD3", "#8E4471", "#5C2546"),
}
SET_UP, WAITING = "set-up", "waiting"
PLAIN = {SET_UP: "#5A5A5A", WAITING: "#B5B5B5"}
WHAT = {"download": "#0072B2", "compute": "#E69F00", "upload": "#009E73", "server": "#CC79A7", "off": "#9A9A9A"}


def of_labels(labels: Sequence[str]) -> list[str]:
    """A colour for each algorithm; from the eighth on they come again, with another dash."""
    return [COLOURS[number % len(COLOURS)] for number in range(len(labels))]


def dashes(labels: Sequence[str]) -> list[Sequence[int]]:
    return [DASHES[number // len(COLOURS) % len(DASHES)] for number in range(len(labels))]


def part(family: str, key: str) -> str:
    """How a payload kind or compute phase is called: `download Fisher`, `compute train`, `server Ω`."""
    return f"{family} {NAMES.get(key, key)}"


def of_parts(parts: Mapping[tuple[str, str], str]) -> list[str]:
    """A colour for each (family, key): the same one in every report, for those that are known."""
    return [_shade(family, key) for family, key in parts]


def place(family: str, key: str) -> tuple[int, int, str]:
    """Sorts parts as a round has them: set-up, download, compute, upload, server, waiting."""
    families = (SET_UP, *SHADES, WAITING)
    known = PHASES if family == "compute" else KINDS
    return families.index(family), known.index(key) if key in known else len(known), key


def _shade(family: str, key: str) -> str:
    if family in PLAIN:
        return PLAIN[family]
    shades = SHADES[family]
    known = {"compute": PHASES, "server": ("combine", "request", "omega")}.get(family, KINDS)
    number = known.index(key) if key in known else len(known) + sum(key.encode())
    return shades[number % len(shades)]
