"""The page of runs that are under way: over a real socket, with hostile and slow readers."""

from __future__ import annotations

import http.client
import json
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from emulator.__main__ import app
from emulator.live.server import READERS, Live, told_where
from emulator.live.watching import Watching
from emulator.record.run import Run
from scenarios.load import build
from tests.emulator.results.played import row

pytestmark = pytest.mark.slow

SCENARIO = build(
    {
        "name": "watched",
        "seeds": [1],
        "rounds": {"max": 5, "targets": [{"value": 0.8}]},
        "fleet": [{"profile": "pi-4", "count": 2, "link": {"up_mbit_s": 1, "down_mbit_s": 1}}],
    }
)
RUN = Run("fedavg", 1)
PATIENCE = 120.0  # s, on a computer that does much else


@pytest.fixture
def live() -> Iterator[Live]:
    with Live(Watching(SCENARIO)) as serving:
        serving.watching.begin(RUN)
        yield serving


def address(url: str) -> str:
    """HOST:PORT."""
    return url.removeprefix("http://").rstrip("/")


def get(live: Live, path: str, method: str = "GET", **headers: str) -> tuple[int, str]:
    """`Sec_Fetch_Site` is the header Sec-Fetch-Site."""
    with closing(http.client.HTTPConnection(address(live.url), timeout=PATIENCE)) as connection:
        connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
        with connection.getresponse() as answer:
            return answer.status, answer.read().decode()


@contextmanager
def events(live: Live | str) -> Iterator[Iterator[tuple[str, Any]]]:
    with closing(
        http.client.HTTPConnection(address(live if isinstance(live, str) else live.url), timeout=PATIENCE)
    ) as connection:
        connection.request("GET", "/events")
        with connection.getresponse() as answer:
            yield told(answer)


def told(answer: http.client.HTTPResponse) -> Iterator[tuple[str, Any]]:
    """Name and data of each event."""
    name = ""
    for line in iter(answer.readline, b""):
        key, _, value = line.decode().rstrip("\n").partition(": ")
        if key == "event":
            name = value
        elif key == "data":
            yield name, json.loads(value) if value else None


def test_each_round_changes_what_readers_are_told(live: Live) -> None:
    with events(live) as found:
        _, state = next(found)
        assert (state["played"], state["verdict"]) == ("waiting for the first round", [])
        live.watching.tell(RUN, row(0, 10.0, 0.5, 10.0))
        _, state = next(found)
        assert state["played"] == "1 of at most 5 rounds"
        assert "Best accuracy so far: fedavg 0.500" in state["verdict"][2]
        live.watching.tell(RUN, row(1, 20.0, 0.9, 10.0))
        _, state = next(found)
        assert state["verdict"][1] == "fedavg reached accuracy 0.8 in 20.0 s."
        assert state["charts"]


def test_the_end_sends_every_reader_the_report(tmp_path: Path) -> None:
    report = tmp_path / "report.html"
    report.write_text('<html lang="en"><p>the report</p>', encoding="utf-8")
    with ExitStack() as readers:
        with Live(Watching(SCENARIO)) as serving:
            one, other = (readers.enter_context(events(serving)) for _ in range(2))
            next(one), next(other)
            serving.report = report
        here = f'<html data-folder="{tmp_path}" lang="en"><p>the report</p>'
        assert list(one) == list(other) == [("done", here)]
    with pytest.raises(OSError):  # noqa: PT011  nobody is there any more
        socket.create_connection(serving.server_address, timeout=1)


def test_the_end_without_a_report_is_said() -> None:
    with ExitStack() as readers:
        with Live(Watching(SCENARIO)) as serving:
            one = readers.enter_context(events(serving))
            next(one)
        assert list(one) == [("gone", None)]


def test_only_this_computer_and_only_reading(live: Live) -> None:
    assert get(live, "/", Host="evil.example")[0] == 403
    assert get(live, "/", Host=f"evil.example:{live.server_address[1]}")[0] == 403
    assert get(live, "/", method="POST")[0] == 501
    assert get(live, "/etc/passwd")[0] == 404
    assert get(live, "/../pyproject.toml")[0] == 404
    assert live.server_address[0] == "127.0.0.1"


@pytest.mark.parametrize("path", ["/", "/events"])
@pytest.mark.parametrize("site", ["cross-site", "same-site"])  # localhost with another port is the same site
def test_pages_of_others_can_neither_read_nor_frame_it(live: Live, path: str, site: str) -> None:
    for mode, dest in (("cors", "empty"), ("no-cors", "script"), ("navigate", "iframe"), ("navigate", "object")):
        asked = {"Sec_Fetch_Site": site, "Sec_Fetch_Mode": mode, "Sec_Fetch_Dest": dest}
        assert get(live, path, **asked) == (403, "other pages may only link to this one")


def test_a_link_leads_to_it_and_its_own_page_asks(live: Live) -> None:
    """From a terminal on another page; and as the page itself does."""
    assert get(live, "/", Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="navigate", Sec_Fetch_Dest="document")[0] == 200
    assert get(live, "/", Sec_Fetch_Site="none", Sec_Fetch_Mode="navigate", Sec_Fetch_Dest="document")[0] == 200
    asked = {"Sec_Fetch_Site": "same-origin", "Sec_Fetch_Mode": "cors", "Sec_Fetch_Dest": "empty"}
    assert get(live, "/", **asked)[0] == 200


@pytest.mark.parametrize(("path", "host"), [("/", ""), ("/events", ""), ("/no-page", ""), ("/", "evil.example")])
def test_every_answer_says_what_browsers_must_not_do_with_it(live: Live, path: str, host: str) -> None:
    with closing(http.client.HTTPConnection(address(live.url), timeout=PATIENCE)) as connection:
        connection.request("GET", path, headers={"Host": host} if host else {})
        with connection.getresponse() as answer:
            said = answer.headers
    assert said.get_all("X-Content-Type-Options") == ["nosniff"]
    assert said.get_all("X-Frame-Options") == ["DENY"]
    (policy,) = said.get_all("Content-Security-Policy")
    rules = dict(rule.strip().partition(" ")[::2] for rule in policy.split(";"))
    assert (rules["default-src"], rules["frame-ancestors"], rules["connect-src"]) == ("'none'", "'none'", "'self'")
    assert "http" not in policy


def test_a_reader_that_does_not_read_holds_nobody_up(live: Live) -> None:
    lazy = [socket.create_connection(live.server_address) for _ in range(READERS - 1)]
    for each in lazy:
        each.sendall(f"GET /events HTTP/1.1\r\nHost: {address(live.url)}\r\n\r\n".encode())
    with events(live) as found:
        next(found)
        for number in range(200):
            live.watching.tell(RUN, row(number, 10.0 * number, 0.5, 10.0))
        _, state = next(found)
        assert state["played"].startswith("200 of")
    for each in lazy:
        each.close()


def test_a_port_that_is_taken_is_one_line(live: Live, tmp_path: Path) -> None:
    port = str(live.server_address[1])
    words = [
        "compare",
        "--live",
        port,
        "--out",
        str(tmp_path / "o"),
        "--no-ledger",
        "rounds.max=1",
    ]
    done = CliRunner().invoke(app, [*words, "--workers", "0"])
    assert done.exit_code == 2
    said = f"fedlapse: --live {port}: address already in use on 127.0.0.1; without a number a free port is taken\n"
    assert said in done.output


def test_a_command_shows_its_runs_and_ends_with_the_report(tmp_path: Path) -> None:
    words = ["compare", "quickstart", "--live", "--out", "o", "--workers", "0", "-q", "--no-ledger"]
    quick = ["rounds.max=3", "seeds=[1]", "training.epochs=1", "training.batch=64"]
    command = [sys.executable, "-m", "emulator", *words, *quick]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL) as playing:
        assert playing.stderr
        found = re.search(rb"live at (http://127\.0\.0\.1:\d+/)", next(iter(playing.stderr.readline, b"")))
        assert found
        with events(found[1].decode()) as shown:
            *states, last = shown
        assert states
        assert last == ("done", told_where(tmp_path / "o" / "report.html"))
        assert playing.wait(60) == 0
