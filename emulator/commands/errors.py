"""How a command ends where its input is wrong or a file cannot be written: with one line, and an exit code."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from emulator.commands.lines import say
from emulator.record.writing import NO_ROOM, told

FAILED, BAD_INPUT = 1, 2


@contextmanager
def told_in_one_line(*also: type[Exception]) -> Iterator[None]:
    """A bad scenario ends a command with exit code 2, and so does a file that cannot be read or written, and `also`.

    On a full disk, or if a worker process was killed, the exit code is 1: nothing is wrong with the input.  Of a bad
    scenario each fault has a line.
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
    except also as error:
        say(f"fedlapse: {one_line(error)}", err=True, tone="bad")
    else:
        return
    raise typer.Exit(BAD_INPUT)


def one_line(error: Exception) -> str:
    return told(error) if isinstance(error, OSError) else " ".join(str(error).split())
