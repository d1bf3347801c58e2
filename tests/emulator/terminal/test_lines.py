"""Sentences on a terminal are broken between words, and elsewhere not at all."""

from __future__ import annotations

import os
import pty
import re
import sys
import termios

import pytest

from emulator.terminal.lines import Tone, _toned, busy, for_terminal, say, wrapped
from tests.all_of import all_of

VERDICT = (
    "accuracy 0.9 was reached by fedcl in 4.3 min, 5.5 min (2 of 2 seeds; 61 % of it compute), by fedcurv in 12.3 min."
)


def test_a_line_is_broken_between_words_and_loses_none() -> None:
    lines = wrapped(VERDICT, 40).split("\n")
    assert len(lines) > 2
    assert all_of(len(line) <= 40 for line in lines)
    assert " ".join(line.strip() for line in lines) == VERDICT


def test_what_follows_is_indented_a_little_more_than_the_line() -> None:
    assert wrapped("  one two three four", 12) == "  one two\n    three\n    four"


def test_a_path_is_never_broken() -> None:
    path = "/a/very-long/folder/" + "x" * 60
    assert wrapped(f"results: {path}", 40).split("\n")[-1].strip() == path


def test_a_command_is_never_broken_so_that_it_can_be_copied() -> None:
    hint = "Which of two is first: `fedlapse map runs/farm-0001 -a fedavg -a fedcurv`."
    assert "`fedlapse map runs/farm-0001 -a fedavg -a fedcurv`" in wrapped(hint, 60)
    assert all_of(len(line) <= 60 for line in wrapped(hint, 60).split("\n"))


def test_a_terminal_gets_lines_of_its_width(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, its = pty.openpty()
    termios.tcsetwinsize(its, (24, 40))
    with os.fdopen(ours), os.fdopen(its, "w") as terminal, monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", terminal)
        shown = for_terminal(f"{VERDICT}\n{VERDICT}")
    assert shown == f"{wrapped(VERDICT, 40)}\n{wrapped(VERDICT, 40)}"


def test_a_file_gets_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    say(VERDICT)
    say(VERDICT, err=True)
    assert capsys.readouterr() == (f"{VERDICT}\n", f"{VERDICT}\n")


def _rest(terminal: int) -> bytes:
    """The rest of the output; a terminal may give one line at a time."""
    try:
        return os.read(terminal, 1000)
    except BlockingIOError:
        return b""


@pytest.mark.parametrize("no_color", [False, True])
def test_colours_are_for_terminals_and_follow_no_color(monkeypatch: pytest.MonkeyPatch, no_color: bool) -> None:
    """Red is code 31, bold code 1; on the terminal alone, and words stay as they are."""
    ours, its = pty.openpty()
    termios.tcsetwinsize(its, (24, 80))
    with os.fdopen(its, "w") as terminal, monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", terminal)
        patched.setenv("TERM", "xterm")
        patched.setenv("NO_COLOR", "1") if no_color else patched.delenv("NO_COLOR", raising=False)
        say("✗ fedavg: 0.8", tone="bad")
        say("first", tone="answer")
        terminal.flush()
        os.set_blocking(ours, False)
        shown = (os.read(ours, 1000) + _rest(ours)).decode()
    os.close(ours)
    assert ("\x1b[31m✗\x1b[0m fedavg: 0.8" in shown) is not no_color
    assert ("\x1b[1mfirst\x1b[0m" in shown) is not no_color
    assert ("\x1b[" in shown) is not no_color


@pytest.mark.parametrize("tone", ["answer", "won"])
def test_a_winner_is_green_and_all_of_the_answer_bold(tone: Tone) -> None:
    text = "fedavg is fastest\nto accuracy 0.9: 27 s."
    shown = _toned(text, tone)
    assert shown.startswith("\x1b[32m\x1b[1mfedavg\x1b[0m" if tone == "won" else "\x1b[1mfedavg is fastest")
    assert re.sub(r"\x1b\[\d+m", "", shown) == text


def test_a_file_gets_no_colour(capsys: pytest.CaptureFixture[str]) -> None:
    say(VERDICT, tone="answer")
    assert capsys.readouterr().out == f"{VERDICT}\n"


def test_what_is_being_done_is_not_said_in_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    with busy("measuring"):
        pass
    assert capsys.readouterr() == ("", "")
