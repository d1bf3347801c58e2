"""The commands as functions.  Each is a process of its own, so it plays in notebooks and beside other event loops."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, overload

from fedlapse.errors import Error
from fedlapse.loaded import Backend, Framed, Loaded, installed, load

if TYPE_CHECKING:
    from scenarios.schema.scenario import Scenario

    Given: TypeAlias = str | Path | Mapping[str, Any] | Scenario

GOES_ON = re.compile(r"\d{4}-\d\d-\d\dT|fedlapse: live at")  # a line after which it is still playing
EXCERPT = re.compile(r"\n +\d* \| .*")  # of a scenario's text, with a caret
UNMET = 3  # exit code: an expectation of the scenario did not come out, but the results are there


@overload
def compare(
    scenario: Given, *changes: str, out: str | Path | None = None, frames: None = None, **options: Any
) -> Loaded: ...
@overload
def compare(
    scenario: Given, *changes: str, out: str | Path | None = None, frames: Backend, **options: Any
) -> Framed: ...
def compare(
    scenario: Given, *changes: str, out: str | Path | None = None, frames: Backend | None = None, **options: Any
) -> Loaded | Framed:
    """Plays a scenario as `fedlapse compare` does, and loads the results; progress goes to stderr.

    `scenario` is a file, a name that comes with fedlapse, a mapping, or a Scenario; `changes` are PATH=VALUE;
    `frames` is as in `load`; `options` are those of the command, as `workers=2, force=True, track=["csv:logs"]`.
    Raises Error.
    """
    if frames is not None:
        installed(frames)  # before hours of training
    with _file(scenario) as path:
        place = {} if out is None else {"out": str(out)}
        said = _call("compare", path, *changes, format="json", **place, **options)
    return load(said["out"], frames)


def check(scenario: Given, *changes: str, **options: Any) -> dict[str, Any]:
    """What the scenario will cost, without training: that of `fedlapse check --format json`.  Raises Error."""
    with _file(scenario) as path:
        return _call("check", path, *changes, format="json", **options)


def replay(run: str | Path, *, fleet: Given | None = None, **options: Any) -> dict[str, Any]:
    """What finished runs would have cost on other links or devices: that of `fedlapse replay --format json`.

    Such as `replay("runs/farm-0001", down=["10Mbit/s", "trace.csv"], symmetric=True)`.  `fleet` is a scenario, given
    as in `compare`, whose devices, links and server are taken.  Raises Error.
    """
    if fleet is None:
        return _call("replay", str(run), format="json", **options)
    with _file(fleet) as path:
        return _call("replay", str(run), fleet=path, format="json", **options)


@contextmanager
def _file(scenario: Given) -> Iterator[str]:
    """Where the scenario stands as a file.  An error in a scenario without one names no place in a text."""
    if isinstance(scenario, str | Path):
        yield str(scenario)
        return
    if isinstance(scenario, Mapping):
        text = json.dumps(scenario, default=str)  # which is YAML
    else:
        from scenarios.load import dump

        text = dump(scenario)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "scenario.yaml"
        path.write_text(text, encoding="utf-8")
        try:
            yield str(path)
        except Error as error:
            said = re.sub(rf"{re.escape(str(path))}(:\d+:\d+)?", "scenario", EXCERPT.sub("", str(error)))
            raise Error(said) from None


def _call(command: str, *words: str, **options: Any) -> dict[str, Any]:
    """What the command prints.  Raises Error with what it says if it fails, KeyboardInterrupt if it is interrupted."""
    line = [sys.executable, "-P", "-m", "emulator", command, *words, *_options(options)]
    here = {**os.environ, "PYTHONPATH": os.pathsep.join(entry or str(Path.cwd()) for entry in sys.path)}
    last: list[str] = []
    with tempfile.TemporaryFile("w+", encoding="utf-8") as printed:  # a pipe would be full before anybody read it
        with subprocess.Popen(line, stdout=printed, stderr=subprocess.PIPE, text=True, env=here) as playing:  # noqa: S603
            try:
                _show(playing, last)
            except KeyboardInterrupt:
                playing.send_signal(signal.SIGINT)
                _show(playing, last)
                sys.stderr.writelines(last)
                raise
        printed.seek(0)
        answer = printed.read()
    if playing.returncode not in (0, UNMET):
        why = "".join(each.removeprefix("fedlapse: ") for each in last).rstrip()
        raise Error(why or f"{command} ended with exit code {playing.returncode}")
    sys.stderr.writelines(last)
    found: dict[str, Any] = json.loads(answer)
    return found


def _show(playing: subprocess.Popen[str], last: list[str]) -> None:
    """Shows the lines on stderr as they come, but for the last words, which may be why the command fails."""
    assert playing.stderr
    for line in playing.stderr:
        last.append(line)
        if GOES_ON.match(line) or not last[0].startswith("fedlapse: "):
            sys.stderr.writelines(last)
            last.clear()


def _options(options: Mapping[str, Any]) -> Iterator[str]:
    """`workers=2, force=True, track=["csv:logs"]` as the command line has them."""
    for name, value in options.items():
        flag = f"--{name.replace('_', '-')}"
        for each in value if isinstance(value, list | tuple) else [value]:
            if each is True:
                yield flag
            elif each is not False and each is not None:
                yield from (flag, str(each))
