"""One-line errors and exit codes for bad input, and for files that cannot be written."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from emulator.record.writing import NO_ROOM, told
from emulator.terminal.lines import say

FAILED, BAD_INPUT = 1, 2


class Unfinished(Exception):  # noqa: N818  an event, and not an error
    """The exception that ends a command before its work is done.

    `code` is the exit code; `lines` give the reason and the way to resume.
    """

    def __init__(self, exit_code: int, *lines: str) -> None:
        super().__init__(exit_code, *lines)
        self.code, self.lines = exit_code, lines


@contextmanager
def told_in_one_line(*also: type[Exception]) -> Iterator[None]:
    """Ends the command with one line and exit code 2 for a bad scenario, for a file that cannot be read or written, and
    for errors of the types in `also`.

    A full disk and a killed worker process give exit code 1, because the input is not at fault.  A bad scenario gets a
    line for each fault.  Unfinished has its own code and lines.
    """
    from scenarios.text.faults import BadScenario  # a list of commands needs neither pydantic nor YAML

    try:
        yield
    except BrokenPipeError:  # the reader has closed the pipe: typer ends quietly
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
