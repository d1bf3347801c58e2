"""What is wrong with a command line is told in one line that names the value; exit code 2."""

from __future__ import annotations

from importlib import metadata

import pytest


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["nope"], "'nope'"),
        (["comparee"], "Did you mean 'compare'"),
        (["--nope"], "--nope"),
        (["run", "--nope"], "--nope"),
        (["run", "--workers"], "fedlapse run: option '--workers' requires an argument; see `fedlapse run --help`"),
        (["run", "--workers", "-3"], "'--workers': should be greater than or equal to 0, not '-3'"),
        (["run", "--workers", "1.5"], "not '1.5'"),
        (["run", "--workers", "9" * 30], "not '999999"),
        (["run", "--workers", "a\nb"], r"not 'a\nb'"),
        (["run", "--workers", "\x1b[31m"], r"not '\x1b[31m'"),
        (["compare", "--format", "xml"], "'xml' is not one of 'text', 'json'"),
        (["calibrate", "--name", "a b"], "'a b'"),
        (["map"], "RUN"),
        (["trace", "nope"], "'nope'"),
        (["trace", "info", "--format"], "fedlapse trace info: option '--format' requires"),
        (["trace", "transfer", "x", "--nope=\n"], "--nope"),
    ],
)
def test_a_mistake_is_one_line(fedlapse, words, named) -> None:
    done = fedlapse(*words)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("fedlapse")
    assert done.stderr.count("\n") == 1
    assert done.stderr.endswith("--help`\n")
    assert named in done.stderr


@pytest.mark.parametrize("words", [[], ["trace"]])
def test_without_a_command_there_is_help(fedlapse, words) -> None:
    alone, asked = fedlapse(*words), fedlapse(*words, "--help")
    assert alone.stdout == asked.stdout != ""
    assert (alone.returncode, asked.returncode) == (2, 0)


def test_which_version_this_is(fedlapse) -> None:
    done = fedlapse("--version")
    assert (done.returncode, done.stdout) == (0, f"fedlapse {metadata.version('fedlapse')}\n")
