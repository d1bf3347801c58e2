"""Sentences on the terminal: broken between words, where the terminal itself would break them within."""

from __future__ import annotations

import os
import re
import sys
import textwrap
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal

import typer
from rich.console import Console

Tone = Literal["plain", "answer", "good", "bad", "warning"]
STYLES: Mapping[Tone, Mapping[str, Any]] = {  # of the terminal; NO_COLOR switches colours off
    "answer": {"bold": True},
    "good": {"fg": "green"},
    "bad": {"fg": "red"},
    "warning": {"fg": "yellow"},
}


FIRST = re.compile(r"\S+\s+reached\s.*\sfirst:", re.DOTALL)
UNDECIDED = re.compile(r"no\s+difference\s+shown|not\s+decided\s+among")
COMMAND = re.compile(r"`[^`]+`")
GLUE = "\N{NO-BREAK SPACE}"


def say(text: str, err: bool = False, tone: Tone = "plain") -> None:
    """Prints text, each of its lines wrapped at the terminal's width; elsewhere, as in a file, a line stays one.

    An answer stands out as a whole, and in it a winner that the seeds show; of other tones the first word has the
    colour.
    """
    wide = for_terminal(text, err)
    typer.echo(_toned(wide, tone) if tone != "plain" and _coloured(err) else wide, err=err)


def _toned(text: str, tone: Tone) -> str:
    word, space, rest = text.partition(" ")
    if tone == "answer":
        won = FIRST.match(text) and not UNDECIDED.search(text)
        winner = typer.style(word, **STYLES["answer"], **STYLES["good"]) if won else ""
        lines = text.removeprefix(word if won else "").split("\n")
        return winner + "\n".join(typer.style(line, **STYLES[tone]) for line in lines)
    return f"{typer.style(word, **STYLES[tone])}{space}{rest}"


def _coloured(err: bool) -> bool:
    return _width(err) is not None and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


@contextmanager
def busy(text: str, everywhere: bool = False) -> Iterator[None]:
    """Says on a terminal's stderr what is being done, as long as it is; elsewhere nothing, or a line."""
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
    """One line, with line breaks; what follows the first is indented as the line is, and a little more."""
    inner = line[: len(line) - len(line.lstrip())] + "  "
    whole = COMMAND.sub(lambda found: found[0].replace(" ", GLUE), line)  # so that it can be copied
    filled = textwrap.fill(whole, width, subsequent_indent=inner, break_long_words=False, break_on_hyphens=False)
    return filled.replace(GLUE, " ")


def _width(err: bool) -> int | None:
    """Columns of the terminal that is written to; None if it is none."""
    stream = sys.stderr if err else sys.stdout
    try:
        return os.get_terminal_size(stream.fileno()).columns or None if stream.isatty() else None
    except (OSError, ValueError):
        return None
