"""How a command ends where its input is wrong or a file cannot be written: with one line, and an exit code."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from emulator.record.writing import NO_ROOM, told
from emulator.terminal.lines import say

FAILED, BAD_INPUT = 1, 2


class Unfinished(Exception):  # noqa: N818  what happened, not what went wrong
    """A command ends before its work is done; `code` is its exit code, and `lines` say why and how to go on."""

    def __init__(self, exit_code: int, *lines: str) -> None:
        super().__init__(exit_code, *lines)
        self.code, self.lines = exit_code, lines


@contextmanager
def told_in_one_line(*also: type[Exception]) -> Iterator[None]:
    """A bad scenario ends a command with exit code 2, and so does a file that cannot be read or written, and `also`.

    On a full disk, or if a worker process was killed, the exit code is 1: nothing is wrong with the input.  Of a bad
    scenario each fault has a line.  Work that is not finished ends it with its own code and lines.
    """
    from scenarios.text.faults import BadScenario  # a list of commands needs no pydantic and no YAML

    try:
        yield
    except BrokenPipeError:  # who reads has read enough: typer ends quietly
        raise
    except BadScenario as error:
        say(f"fedlapse: {error}", err=True, tone="bad")
    except OSError as error:
        say(f"fedlapse: {told(error)}", err=True, tone="bad")
        input_is_fine = isinstance(error, ChildProcessError) or error.errno in (*NO_ROOM, errno.ENOMEM)
        raise typer.Exit(FAILED if input_is_fine else BAD_INPUT) from None
    except Unfinished as end:
        for line in end.lines:
            say(f"fedlapse: {line}", err=True)
        raise typer.Exit(end.code) from None
    except also as error:
        say(f"fedlapse: {one_line(error)}", err=True, tone="bad")
    else:
        return
    raise typer.Exit(BAD_INPUT)


def one_line(error: Exception) -> str:
    return told(error) if isinstance(error, OSError) else " ".join(str(error).split())
