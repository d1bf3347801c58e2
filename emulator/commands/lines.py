"""Sentences on the terminal: broken between words, where the terminal itself would break them within."""

from __future__ import annotations

import os
import sys
import textwrap

import typer


def say(text: str, err: bool = False) -> None:
    """Prints text, each of its lines wrapped at the terminal's width; elsewhere, as in a file, a line stays one."""
    typer.echo(for_terminal(text, err), err=err)


def for_terminal(text: str, err: bool = False) -> str:
    width = _width(err)
    return "\n".join(wrapped(line, width) for line in text.split("\n")) if width else text


def wrapped(line: str, width: int) -> str:
    """One line, with line breaks; what follows the first is indented as the line is, and a little more."""
    inner = line[: len(line) - len(line.lstrip())] + "  "
    return textwrap.fill(line, width, subsequent_indent=inner, break_long_words=False, break_on_hyphens=False)


def _width(err: bool) -> int | None:
    """Columns of the terminal that is written to; None if it is none."""
    stream = sys.stderr if err else sys.stdout
    try:
        return os.get_terminal_size(stream.fileno()).columns or None if stream.isatty() else None
    except (OSError, ValueError):
        return None
