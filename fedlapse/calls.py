"""The commands as functions.  Each is a process of its own, so it plays in notebooks and beside other event loops."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from fedlapse.errors import Error
from fedlapse.loaded import Loaded, load

if TYPE_CHECKING:
    from scenarios.schema.scenario import Scenario

    Given: TypeAlias = str | Path | Mapping[str, Any] | Scenario

UNMET = 3  # exit code: an expectation of the scenario did not come out, but the results are there


def compare(scenario: Given, *changes: str, out: str | Path | None = None, **options: Any) -> Loaded:
    """Plays a scenario as `fedlapse compare` does, and returns the results; progress goes to stderr.

    `scenario` is a file, a name that comes with fedlapse, a mapping, or a Scenario; `changes` are PATH=VALUE;
    `options` are those of the command, as `workers=2, force=True, track=["csv:logs"]`.  Raises Error.
    """
    with _file(scenario) as path:
        place = {} if out is None else {"out": str(out)}
        said = _call("compare", path, *changes, format="json", **place, **options)
    return load(said["out"])


def check(scenario: Given, *changes: str, **options: Any) -> dict[str, Any]:
    """What the scenario will cost, without training: that of `fedlapse check --format json`.  Raises Error."""
    with _file(scenario) as path:
        return _call("check", path, *changes, format="json", **options)


def replay(run: str | Path, **options: Any) -> dict[str, Any]:
    """What finished runs would have cost on other links: that of `fedlapse replay --format json`.

    Such as `replay("runs/farm-0001", down=["10Mbit/s", "trace.csv"], symmetric=True)`.  Raises Error.
    """
    return _call("replay", str(run), format="json", **options)


@contextmanager
def _file(scenario: Given) -> Iterator[str]:
    """Where the scenario stands as a file."""
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
        yield str(path)


def _call(command: str, *words: str, **options: Any) -> dict[str, Any]:
    """What the command prints.  Raises Error with what it says if it fails, KeyboardInterrupt if it is interrupted."""
    line = [sys.executable, "-m", "emulator", command, *words, *_options(options)]
    with tempfile.TemporaryFile("w+", encoding="utf-8") as printed:  # a pipe would be full before anybody read it
        with subprocess.Popen(line, stdout=printed, stderr=subprocess.PIPE, text=True) as playing:  # noqa: S603
            try:
                said = list(_shown(playing))
            except KeyboardInterrupt:
                playing.send_signal(signal.SIGINT)
                list(_shown(playing))
                raise
        printed.seek(0)
        answer = printed.read()
    if playing.returncode not in (0, UNMET):
        faults = [each.removeprefix("fedlapse: ") for each in said if each.startswith(("fedlapse: ", " "))]
        raise Error("\n".join(faults) or f"{command} ended with exit code {playing.returncode}")
    found: dict[str, Any] = json.loads(answer)
    return found


def _shown(playing: subprocess.Popen[str]) -> Iterator[str]:
    """The lines on stderr, which are shown as they come."""
    assert playing.stderr
    for line in playing.stderr:
        sys.stderr.write(line)
        yield line.rstrip("\n")


def _options(options: Mapping[str, Any]) -> Iterator[str]:
    """`workers=2, force=True, track=["csv:logs"]` as the command line has them."""
    for name, value in options.items():
        flag = f"--{name.replace('_', '-')}"
        for each in value if isinstance(value, list | tuple) else [value]:
            if each is True:
                yield flag
            elif each is not False and each is not None:
                yield from (flag, str(each))
