"""Prints sentences on the terminal, wrapped between words."""

from __future__ import annotations

import os
import re
import shlex
import sys
import textwrap
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import typer
from rich.console import Console

Tone = Literal["plain", "answer", "won", "good", "bad", "warning", "command"]
STYLES: Mapping[Tone, Mapping[str, Any]] = {  # NO_COLOR switches colours off
    "answer": {"bold": True},
    "won": {"bold": True, "fg": "green"},
    "good": {"fg": "green"},
    "bad": {"fg": "red"},
    "warning": {"fg": "yellow"},
    "command": {"fg": "cyan"},
}


COMMAND = re.compile(r"`[^`]+`")
GLUE = "\N{NO-BREAK SPACE}"


def say(text: str, err: bool = False, tone: Tone = "plain") -> None:
    """Prints text; a terminal gets each line wrapped at its width, files and pipes get it unwrapped.

    On a terminal with colours, commands between backticks have a colour instead of them, so that they can be copied.

    The tone "answer" styles the whole text, "won" the whole text with the first word in green; other tones colour only
    the first word.
    """
    wide = for_terminal(text, err)
    if _coloured(err):
        wide = COMMAND.sub(lambda found: typer.style(found[0].strip("`"), **STYLES["command"]), wide)
    typer.echo(_toned(wide, tone) if tone != "plain" and _coloured(err) else wide, err=err)


def to_open(page: Path) -> str:
    """Returns the command that opens a page in this system's browser."""
    return shlex.join(["open" if sys.platform == "darwin" else "xdg-open", str(page)])


def _toned(text: str, tone: Tone) -> str:
    word, space, rest = text.partition(" ")
    if tone in ("answer", "won"):
        winner = typer.style(word, **STYLES[tone]) if tone == "won" else ""
        lines = text.removeprefix(word if winner else "").split("\n")
        return winner + "\n".join(typer.style(line, **STYLES["answer"]) for line in lines)
    return f"{typer.style(word, **STYLES[tone])}{space}{rest}"


def _coloured(err: bool) -> bool:
    return _width(err) is not None and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


@contextmanager
def busy(text: str, everywhere: bool = False) -> Iterator[None]:
    """Shows a message on stderr, if that is a terminal, for as long as the block runs.

    If it is not a terminal, prints nothing, or with `everywhere` prints the message as a line.
    """
    if _width(err=True) is None:
        if everywhere:
            say(f"fedlapse: {text}", err=True)
        yield
        return
    with Console(stderr=True).status(f"{text} ..."):
        yield


def for_terminal(text: str, err: bool = False) -> str:
    width = _width(err)
    return "\n".join(wrapped(line, width) for line in text.split("\n")) if width else text


def wrapped(line: str, width: int) -> str:
    """Returns one line, wrapped at this width in columns.  Further lines are indented by two spaces more than the
    first."""
    inner = line[: len(line) - len(line.lstrip())] + "  "
    whole = COMMAND.sub(lambda found: found[0].replace(" ", GLUE), line)  # so that it can be copied
    filled = textwrap.fill(whole, width, subsequent_indent=inner, break_long_words=False, break_on_hyphens=False)
    return filled.replace(GLUE, " ")


def _width(err: bool) -> int | None:
    """Returns the width in columns of the terminal to which stdout or stderr goes; None if it is not a terminal."""
    stream = sys.stderr if err else sys.stdout
    try:
        return os.get_terminal_size(stream.fileno()).columns or None if stream.isatty() else None
    except (OSError, ValueError):
        return None
