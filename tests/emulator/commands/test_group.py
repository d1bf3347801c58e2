"""Options that several commands share, and commands that are imported when they are called."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import pytest
import typer
from typer.testing import CliRunner

from emulator.commands.group import Lazy, flat
from emulator.commands.help import Command


@dataclass(frozen=True)
class Base:
    place: Annotated[str, typer.Argument()]
    speed: Annotated[int, typer.Option(help="How fast.")] = 3


@dataclass(frozen=True)
class Shared(Base):
    speed: Annotated[int, typer.Option(help="How fast it goes.")] = 7
    names: Annotated[list[str] | None, typer.Option("--name", "-n")] = None


def test_the_fields_of_a_dataclass_are_options_and_come_as_one_object() -> None:
    got: list[Any] = []

    def command(*, quiet: bool = False, shared: Shared, level: int = 1) -> None:
        """Takes all."""
        got.extend((quiet, shared, level))

    app = typer.Typer(add_completion=False)
    app.command(cls=Command)(flat(command))
    done = CliRunner().invoke(app, ["here", "-n", "a", "--name", "b", "--level", "2"])
    assert (done.exit_code, got) == (0, [False, Shared(place="here", speed=7, names=["a", "b"]), 2]), done.output
    told = CliRunner().invoke(app, ["--help"]).output
    assert "Takes all." in told
    assert re.search(r"--speed SPEED +How fast it goes. Default: 7.", told)
    assert re.search(r"-n, --name NAMES", told)
    assert "INTEGER" not in told.upper()


def test_a_command_is_imported_when_it_is_called_and_not_to_be_listed(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "called_late.py").write_text("def show():\n    '''Shows.\n\n    At length.'''\n    print('shown')\n")
    monkeypatch.syspath_prepend(tmp_path)

    class Group(Lazy):
        known: ClassVar = {"show": ("called_late:show", "Shows.", "All")}

    app = typer.Typer(cls=Group, callback=lambda: None)
    for words, said in ((["--help"], "Shows."), (["shov"], "Did you mean 'show'")):
        done = CliRunner().invoke(app, words)
        assert said in done.stdout + done.stderr
        assert "called_late" not in sys.modules
    assert "At length." in CliRunner().invoke(app, ["show", "--help"]).stdout
    assert CliRunner().invoke(app, ["show"]).stdout == "shown\n"
