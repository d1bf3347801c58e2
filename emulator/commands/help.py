"""The text of --help: usage, what a command does with an example, and its options in groups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum
from typing import Any

from typer.core import TyperArgument, TyperCommand, TyperGroup

OTHERS = "Options"  # heading of options that are in no group
WIDTH = 100  # columns at most


class Command(TyperCommand):
    """A command whose --help is plain text without Python's types."""

    def __init__(self, name: str | None, **options: Any) -> None:
        super().__init__(name, **{**options, "rich_markup_mode": None})
        self.context_settings = {**self.context_settings, "max_content_width": WIDTH}

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return [*map(_in_usage, _arguments(self, ctx)), "[OPTIONS]"]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        write_parameters(self, ctx, formatter)


def write_parameters(command: TyperCommand | TyperGroup, ctx: Any, formatter: Any) -> None:
    """Writes the arguments and the options of a command to the formatter of its help, the options by group."""
    if arguments := [(_called(each), each.help or "") for each in _arguments(command, ctx)]:
        with formatter.section("Arguments"):
            formatter.write_dl(arguments)
    parameters: list[Any] = command.get_params(ctx)
    shown = [each for each in parameters if not isinstance(each, TyperArgument) and not each.hidden]
    groups = dict.fromkeys(each.rich_help_panel or OTHERS for each in shown)
    for heading in sorted(groups, key=lambda each: each == OTHERS):  # these come last
        with formatter.section(heading):
            mine = [each for each in shown if (each.rich_help_panel or OTHERS) == heading]
            formatter.write_dl([(_names(each), _said(each)) for each in mine])


def _arguments(command: TyperCommand | TyperGroup, ctx: Any) -> Iterator[TyperArgument]:
    return (each for each in command.get_params(ctx) if isinstance(each, TyperArgument))


def _called(argument: TyperArgument) -> str:
    return argument.metavar or argument.name.upper()


def _in_usage(argument: TyperArgument) -> str:
    name = _called(argument)
    if "[" in name:
        return name
    several = f"{name}..." if argument.nargs != 1 and "..." not in name else name
    return several if argument.required else f"[{several}]"


def _names(option: Any) -> str:
    """Returns an option's names and a word for its value, such as `-a, --algorithm LABEL`."""
    names = ", ".join(sorted(option.opts, key=len))
    if option.is_flag:
        return names
    return f"{names} {option.metavar or _choices(option.type_descriptor.choices) or option.name.upper()}"


def _choices(values: Sequence[Any] | None) -> str:
    return "|".join(str(each.value if isinstance(each, Enum) else each) for each in values or ())


def _said(option: Any) -> str:
    """Returns an option's help, and its default or that the option is required."""
    stated, default = option.show_default, option.default
    if isinstance(stated, str):
        default = stated
    elif not stated or option.is_flag or default in (None, ""):
        return f"{option.help} Required." if option.required else option.help or ""
    return f"{option.help} Default: {default.value if isinstance(default, Enum) else default}."
