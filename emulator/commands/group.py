"""Groups of commands: imported on demand, with shared options, and errors in one line."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import MISSING, fields, is_dataclass
from functools import wraps
from importlib import import_module
from inspect import Parameter, Signature, signature
from typing import Any, ClassVar, cast, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from emulator.commands.help import WIDTH, Command, write_parameters
from emulator.record.writing import NO_ROOM, told
from emulator.terminal.errors import BAD_INPUT, FAILED
from emulator.terminal.stopping import ending


class Commands(TyperGroup):
    """A group that shows its help, or `alone` if this is set, if it is called without a command."""

    alone: ClassVar[str] = ""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{**options, "rich_markup_mode": None})
        self.context_settings = {**self.context_settings, "max_content_width": WIDTH}

    def format_options(self, ctx: Any, formatter: Any) -> None:
        shown: dict[str, list[tuple[str, str]]] = {}
        longest = max(map(len, self.commands))
        for name, command in self.commands.items():
            said = (command.help or "").split("\n\n")[0]
            shown.setdefault(getattr(command, "rich_help_panel", None) or "Commands", []).append(
                (f"{name:<{longest}}", said)
            )
        for heading, rows in shown.items():
            with formatter.section(heading):
                formatter.write_dl(rows)
        write_parameters(self, ctx, formatter)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args and not ctx.resilient_parsing:
            typer.echo(self.alone or ctx.get_help())
            raise typer.Exit(BAD_INPUT)
        return super().parse_args(ctx, args)

    def main(self, args: Sequence[str] | None = None, *rest: Any, **options: Any) -> Any:
        """Ends the process with the command's exit code, or with 2 and a line if the command line is invalid."""
        words = _with_port(sys.argv[1:] if args is None else args)
        try:
            code = super().main(words, *rest, **{**options, "standalone_mode": False})
        except typer.TyperException as error:
            print(f"fedlapse: {_told(' '.join(['fedlapse', *self._named(words)]), error)}", file=sys.stderr)
            code = BAD_INPUT
        except typer.Abort:  # the input has ended
            print("fedlapse: aborted", file=sys.stderr)
            code = 1
        sys.exit(code if isinstance(code, int) else 0)

    def make_context(self, *args: Any, **options: Any) -> Any:
        with ending():  # typer itself would treat every signal as Ctrl-C
            return super().make_context(*args, **options)

    def invoke(self, ctx: Any) -> Any:
        with ending():
            try:
                return super().invoke(ctx)
            except OSError as error:  # for commands that do not report themselves that their output does not fit
                if error.errno not in NO_ROOM:
                    raise
                print(f"fedlapse: {told(error)}", file=sys.stderr)
                raise typer.Exit(FAILED) from None

    def _named(self, words: Iterable[str]) -> Iterable[str]:
        """Yields the words at the beginning of the command line that name a command and its subcommands."""
        within: Any = self
        for word in words:
            within = within.get_command(cast(Any, None), word) if isinstance(within, TyperGroup) else None
            if within is None:
                return
            yield word


class Lazy(Commands):
    """A group that imports only the command that is called, and lists the others in its help without importing them.

    `known`: by a command's name, where its code is (MODULE:NAME of a function or of a Typer object), the first
    sentence of its help, and the heading below which it is listed.
    """

    known: ClassVar[Mapping[str, tuple[str, str, str]]]

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.commands = {
            name: TyperCommand(name, help=text, rich_help_panel=heading)
            for name, (_, text, heading) in self.known.items()
        }
        self._imported: dict[str, Any] = {}

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002
        if cmd_name in self.known and cmd_name not in self._imported:
            module, _, name = self.known[cmd_name][0].partition(":")
            found = getattr(import_module(module), name)
            if not isinstance(found, typer.Typer):
                function, found = found, typer.Typer(add_completion=False)
                found.command(cls=Command)(flat(function))
            self._imported[cmd_name] = command = typer.main.get_command(found)
            command.name = cmd_name
        return self._imported.get(cmd_name)

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        within = copy(ctx)
        within.command = TyperGroup(name=self.name, params=self.params, commands=dict(self.commands))
        return within.command.shell_complete(within, incomplete)


def flat(command: Callable[..., None]) -> Callable[..., None]:
    """Returns the command as a function without dataclass parameters: each is replaced by one parameter for each of its
    fields, so that typer shows the fields as options."""
    groups: dict[str, Any] = {name: kind for name, kind in get_type_hints(command).items() if is_dataclass(kind)}
    parameters: list[Parameter] = []
    for parameter in signature(command, eval_str=True).parameters.values():
        parameters += _options_of(groups[parameter.name]) if parameter.name in groups else [parameter]

    @wraps(command)
    def called(**said: Any) -> None:
        for name, kind in groups.items():
            said[name] = kind(**{field.name: said.pop(field.name) for field in fields(kind)})
        command(**said)

    cast(Any, called).__signature__ = Signature(parameters)
    return called


def _options_of(kind: Any) -> Iterator[Parameter]:
    hints = get_type_hints(kind, include_extras=True)
    for field in fields(kind):
        default = Parameter.empty if field.default is MISSING else field.default
        yield Parameter(field.name, Parameter.KEYWORD_ONLY, default=default, annotation=hints[field.name])


def _with_port(words: Sequence[str]) -> list[str]:
    """Returns the words of the command line, with `--live=0` for a `--live` without a port, because typer has no
    options with an optional value."""
    following = [*words[1:], ""]
    return [
        "--live=0" if word == "--live" and not after.isdecimal() else word
        for word, after in zip(words, following, strict=False)
    ]


def _told(command: str, error: typer.TyperException) -> str:
    """Returns an error of the command line in one line, which ends with the command that lists the options."""
    said = " ".join(error.format_message().split()).replace(": Value error,", ":").replace(": Input should", ": should")
    return f"{said[:1].lower()}{said[1:].rstrip('.')}{_given(error)}; see `{command} --help`"


def _given(error: typer.TyperException) -> str:
    """Returns a phrase with the invalid value, if pydantic rejected it and the error does not name it; else ""."""
    from pydantic import ValidationError

    if not isinstance(cause := error.__cause__, ValidationError):
        return ""
    value = str(cause.errors()[0]["input"])
    return "" if repr(value) in error.format_message() else f", not {value!a}"
