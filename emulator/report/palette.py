"""Colours of charts: each has one meaning on a page, and colour-blind readers can distinguish them.

Algorithms have Okabe and Ito's strong colours.  The phases of a round have muted colours and hatching: downloads are
purple and hatched one way, uploads brown and hatched the other way, computing is sand, the server plum, waiting grey.
Members of a family differ in lightness.  The fates of devices and of their time are moss: the darker, the worse.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from emulator.wording.names import CALLED

# Okabe and Ito (2008), without yellow and black, which are invisible on one of the two backgrounds; the last is Tol's
# wine
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#882255")
ON_DARK = {"#0072B2": "#2B8FD6", "#882255": "#B8497F"}  # replacements on a dark background
DASHES: tuple[Sequence[int], ...] = ((1, 0), (7, 3), (2, 2), (9, 3, 2, 3))

KINDS = ("weights", "importance", "fisher", "fisher_theta", "frame", "cut")
PHASES = ("train", "fisher", "omega")
SHADES: dict[str, Sequence[str]] = {
    "download": ("#7B6BB0", "#A99CD1", "#4E3F86", "#CFC7E6", "#2F2459", "#8D84A6", "#5F5191", "#B7AFCB"),
    "compute": ("#CDBB7A", "#9C8A45", "#6B5D26", "#E6DCB3", "#B3A05A", "#857434"),
    "upload": ("#A6661C", "#CF9A5B", "#6E3F0A", "#E8C9A1", "#452706", "#B98F62", "#8A5213", "#D8B68C"),
    "server": ("#6B4A57", "#94717F", "#3F2730", "#B79BA7"),
}
SET_UP, WAITING, OTHER = "set-up", "waiting", "other"
PLAIN = {SET_UP: "#6E6E6E", WAITING: "#C9CDD1", OTHER: "#F2F2F2"}
WHAT = {family: shades[0] for family, shades in SHADES.items()} | {"off": "#9A9A9A"}
STRIPES = {"download": 45, "upload": -45, WAITING: 90}  # angles of hatching by family, in degrees
FATES = {"aggregated": "#BFD3B3", "late": "#93AD80", "lost": "#5B7A4C", "refused": "#2F4425"}
USES = {"useful": FATES["aggregated"], "wasted": FATES["lost"], "idle": PLAIN[WAITING]}


def of_labels(labels: Sequence[str]) -> list[str]:
    """Returns a colour for each algorithm; from the eighth algorithm on colours repeat, and `dashes` distinguish the
    algorithms."""
    return [COLOURS[number % len(COLOURS)] for number in range(len(labels))]


def dashes(labels: Sequence[str]) -> list[Sequence[int]]:
    return [DASHES[number // len(COLOURS) % len(DASHES)] for number in range(len(labels))]


def hatched() -> dict[str, int]:
    """Returns the angle, in degrees, of each hatched colour, by colour.  The page's CSS draws the hatching."""
    colours = {**SHADES, **{name: [colour] for name, colour in PLAIN.items()}}
    return {colour: angle for family, angle in STRIPES.items() for colour in colours[family]}


def part(family: str, key: str) -> str:
    """Returns the name of a part of a round, such as `download Fisher`, `compute train` or `server Ω`.

    `family`: what happens.  `key`: the kind of payload or the phase of computing; "" for none.
    """
    return f"{family} {CALLED.get(key, key)}" if key else family


def of_parts(parts: Iterable[tuple[str, str]]) -> list[str]:
    """Returns a colour for each part (family, key) of a round.

    Known keys have fixed colours; other keys have a shade of their family that no known key has, if any is left.
    """
    chosen: list[str] = []
    for family, key in parts:
        if family in PLAIN:
            chosen.append(PLAIN[family])
            continue
        known, shades = _known(family), SHADES[family]
        free = [*(shade for shade in shades[len(known) :] if shade not in chosen), *shades]
        chosen.append(shades[known.index(key)] if key in known else free[0] if key else shades[0])
    return chosen


def place(family: str, key: str) -> tuple[int, int, str]:
    """Returns a key that sorts parts of a round: set-up, download, compute, upload, server, waiting, other."""
    families = (SET_UP, *SHADES, WAITING, OTHER)
    known = _known(family)
    return families.index(family), known.index(key) if key in known else len(known), key


def _known(family: str) -> Sequence[str]:
    return {"compute": PHASES, "server": ("combine", "request", "omega")}.get(family, KINDS)
