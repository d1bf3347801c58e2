"""A group of commands whose mistakes are told in one line, as all others are."""

from __future__ import annotations

import sys
from typing import Any

import typer
from typer.core import TyperGroup


class Commands(TyperGroup):
    """Without a command it shows its help."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, args if args or ctx.resilient_parsing else ["--help"])

    def main(self, *args: Any, **options: Any) -> Any:
        try:
            code = super().main(*args, **{**options, "standalone_mode": False})
        except typer.TyperException as error:
            print(_told(error), file=sys.stderr)
            code = error.exit_code
        sys.exit(code)


def _told(error: typer.TyperException) -> str:
    """Which command, what is wrong, and where its options are listed."""
    context = getattr(error, "ctx", None)
    command = context.command_path if context else "fedlapse"
    said = " ".join(error.format_message().split()).replace(": Value error,", ":").replace(": Input should", ": should")
    return f"{command}: {said[:1].lower()}{said[1:].rstrip('.')}{_given(error)}; see `{command} --help`"


def _given(error: typer.TyperException) -> str:
    """The value, where pydantic has found fault with it and does not name it."""
    from pydantic import ValidationError

    if not isinstance(cause := error.__cause__, ValidationError):
        return ""
    value = str(cause.errors()[0]["input"])
    return "" if repr(value) in error.format_message() else f", not {value}"
