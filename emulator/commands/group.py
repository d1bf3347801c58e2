"""A group of commands whose mistakes are told in one line, as all others are."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Any

import typer
from typer.core import TyperGroup

from emulator.commands.errors import BAD_INPUT, FAILED
from emulator.commands.stopping import ending
from emulator.record.writing import NO_ROOM, told


class Commands(TyperGroup):
    """Without a command it shows its help."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args and not ctx.resilient_parsing:
            typer.echo(ctx.get_help())
            raise typer.Exit(BAD_INPUT)
        return super().parse_args(ctx, args)

    def main(self, args: Sequence[str] | None = None, *rest: Any, **options: Any) -> Any:
        """Ends the process with the command's exit code; with 2, after a line, where the words are not right."""
        words = _with_port(sys.argv[1:] if args is None else args)
        try:
            code = super().main(words, *rest, **{**options, "standalone_mode": False})
        except typer.TyperException as error:
            print(f"fedlapse: {_told(' '.join(['fedlapse', *self._named(words)]), error)}", file=sys.stderr)
            code = BAD_INPUT
        except typer.Abort:  # its input has ended
            print("fedlapse: aborted", file=sys.stderr)
            code = 1
        sys.exit(code if isinstance(code, int) else 0)

    def make_context(self, *args: Any, **options: Any) -> Any:
        with ending():  # typer itself would take every signal for a Ctrl-C
            return super().make_context(*args, **options)

    def invoke(self, ctx: Any) -> Any:
        with ending():
            try:
                return super().invoke(ctx)
            except OSError as error:  # where a command does not say itself that its output does not fit
                if error.errno not in NO_ROOM:
                    raise
                print(f"fedlapse: {told(error)}", file=sys.stderr)
                raise typer.Exit(FAILED) from None

    def _named(self, words: Iterable[str]) -> Iterable[str]:
        """Those of the words that name a command and its own."""
        within: Any = self
        for word in words:
            within = getattr(within, "commands", {}).get(word)
            if within is None:
                return
            yield word


def _with_port(words: Sequence[str]) -> list[str]:
    """`--live` alone asks for a free port; typer has no options whose value may be left out."""
    following = [*words[1:], ""]
    return [
        "--live=0" if word == "--live" and not after.isdecimal() else word
        for word, after in zip(words, following, strict=False)
    ]


def _told(command: str, error: typer.TyperException) -> str:
    """What is wrong, and where the command's options are listed."""
    said = " ".join(error.format_message().split()).replace(": Value error,", ":").replace(": Input should", ": should")
    return f"{said[:1].lower()}{said[1:].rstrip('.')}{_given(error)}; see `{command} --help`"


def _given(error: typer.TyperException) -> str:
    """The value, where pydantic has found fault with it and does not name it."""
    from pydantic import ValidationError

    if not isinstance(cause := error.__cause__, ValidationError):
        return ""
    value = str(cause.errors()[0]["input"])
    return "" if repr(value) in error.format_message() else f", not {value!a}"
