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

from emulator.record.writing import NO_ROOM, told
from emulator.terminal.errors import BAD_INPUT, FAILED
from emulator.terminal.stopping import ending


class Commands(TyperGroup):
    """A group that shows its help if it is called without a command."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args and not ctx.resilient_parsing:
            typer.echo(ctx.get_help())
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
        """Yields the leading words that name a command and its subcommands."""
        within: Any = self
        for word in words:
            within = within.get_command(cast(Any, None), word) if isinstance(within, TyperGroup) else None
            if within is None:
                return
            yield word


class Lazy(Commands):
    """A group that knows the place and the first sentence of each command, and imports only the one that is called.

    `known`: (place, first sentence) by the command's name; a place is MODULE:NAME of a function or a Typer.
    """

    known: ClassVar[Mapping[str, tuple[str, str]]]

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.commands = {name: TyperCommand(name, help=text) for name, (_, text) in self.known.items()}
        self._imported: dict[str, Any] = {}

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002
        if cmd_name in self.known and cmd_name not in self._imported:
            module, _, name = self.known[cmd_name][0].partition(":")
            found = getattr(import_module(module), name)
            if not isinstance(found, typer.Typer):
                function, found = found, typer.Typer(add_completion=False)
                found.command()(flat(function))
            self._imported[cmd_name] = command = typer.main.get_command(found)
            command.name = cmd_name
        return self._imported.get(cmd_name)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        self._listed.format_help(ctx, formatter)

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        within = copy(ctx)
        within.command = self._listed
        return within.command.shell_complete(within, incomplete)

    @property
    def _listed(self) -> TyperGroup:
        """This group with commands that have only their names and first sentences, so that none is imported."""
        return TyperGroup(name=self.name, params=self.params, help=self.help, commands=dict(self.commands))


def flat(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the fields of its dataclass parameters as parameters of its own."""
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
    """Adds the port 0 to a bare `--live`, because typer has no options with an optional value."""
    following = [*words[1:], ""]
    return [
        "--live=0" if word == "--live" and not after.isdecimal() else word
        for word, after in zip(words, following, strict=False)
    ]


def _told(command: str, error: typer.TyperException) -> str:
    """The error, and a pointer to the command's options."""
    said = " ".join(error.format_message().split()).replace(": Value error,", ":").replace(": Input should", ": should")
    return f"{said[:1].lower()}{said[1:].rstrip('.')}{_given(error)}; see `{command} --help`"


def _given(error: typer.TyperException) -> str:
    """The invalid value, if pydantic rejected it without naming it."""
    from pydantic import ValidationError

    if not isinstance(cause := error.__cause__, ValidationError):
        return ""
    value = str(cause.errors()[0]["input"])
    return "" if repr(value) in error.format_message() else f", not {value!a}"
