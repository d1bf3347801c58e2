"""A web server on loopback that shows the progress of runs.

It has a thread for each connection, so that no run waits for a reader, and no reader for another one.
"""

from __future__ import annotations

import html
import json
import sys
from http.server import BaseHTTPRequestHandler
from importlib import resources
from pathlib import Path
from socketserver import ThreadingTCPServer
from threading import BoundedSemaphore, Event, Thread
from time import monotonic
from typing import Any, Self

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from emulator.live.watching import Watching
from emulator.report.page import style
from emulator.report.vega import script_of_vega

HOST = "127.0.0.1"
EVERY = 1.0  # s between two looks for changes
READERS = 20  # at the same time
PATIENCE = 5.0  # s for a reader to ask or to read, and for the command to wait for all readers at its end

HEADERS = {  # headers of every answer
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval'; "  # Vega compiles charts
    "style-src 'unsafe-inline'; img-src data: blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class Live(ThreadingTCPServer):
    """The server of the page, which runs inside `with`.  At the exit it sends the report to all readers.  Raises
    OSError if the port is taken."""

    allow_reuse_address = daemon_threads = True

    def __init__(self, watching: Watching, port: int = 0) -> None:
        super().__init__((HOST, port), Reader)  # port 0: a free one
        self.watching = watching
        self.report: Path | None = None  # until it is written
        self.url = f"http://{HOST}:{self.server_address[1]}/"
        self.ended, self.places = Event(), BoundedSemaphore(READERS)

    def __enter__(self) -> Self:
        Thread(target=self.serve_forever, args=(0.05,), name="live", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        end = monotonic() + PATIENCE
        for _place in range(READERS):  # all places are free once all readers have the report
            self.places.acquire(timeout=max(0.0, end - monotonic()))
        self.shutdown()
        self.server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exc_info()[1], OSError):  # a reader that has gone is not an error
            super().handle_error(request, client_address)


class Reader(BaseHTTPRequestHandler):
    """The handler of one request from a reader's browser: for the page, or for the server-sent events that change
    it."""

    server: Live
    timeout = PATIENCE

    def do_GET(self) -> None:
        port = self.server.server_address[1]
        if self.headers["Host"] not in (f"{HOST}:{port}", f"localhost:{port}"):  # another host name could lead here
            self._answer(403, "this page is for this computer alone")
        elif self._from_elsewhere():
            self._answer(403, "other pages may only link to this one")
        elif self.path == "/":
            self._answer(200, page(self.server.watching.scenario.name), "text/html")
        elif self.path != "/events":
            self._answer(404, "there is only the page, at /")
        elif self.server.places.acquire(blocking=False):
            try:
                self._tell()
            finally:
                self.server.places.release()
        else:
            self._answer(503, f"{READERS} pages are open already")

    def _from_elsewhere(self) -> bool:
        """Returns true if the request comes from a page of another origin that does more than link here.

        Browsers send the headers that tell (Fetch Metadata); a program that does not send them is not a page.
        """
        asked = [self.headers.get(f"Sec-Fetch-{name}") for name in ("Site", "Mode", "Dest")]
        return asked[0] not in (None, "none", "same-origin") and asked[1:] != ["navigate", "document"]

    def _tell(self) -> None:
        """Sends the state now and after new rounds, at most once a second, and when the runs have ended the report."""
        self._answer(200, "", "text/event-stream")
        seen = -1
        while not self.server.ended.is_set():
            version = self.server.watching.version
            if version != seen:
                self._event("state", self.server.watching.state())
            else:
                self.wfile.write(b":\n\n")  # a comment line; writing it fails if the page was closed
            seen = version
            self.server.ended.wait(EVERY)
        report = self.server.report
        self._event("done" if report else "gone", told_where(report) if report else None)

    def _event(self, name: str, data: Any) -> None:
        self.wfile.write(f"event: {name}\ndata: {json.dumps(data, allow_nan=False)}\n\n".encode())

    def _answer(self, status: int, text: str, kind: str = "text/plain") -> None:
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.end_headers()
        self.wfile.write(text.encode())

    def end_headers(self) -> None:
        for name, value in HEADERS.items():
            self.send_header(name, value)
        super().end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Does nothing, so that requests are not logged."""


def told_where(report: Path) -> str:
    """Returns the HTML of the report with its folder as an attribute, because here it has another address."""
    folder = html.escape(str(report.parent.resolve()))
    return report.read_text(encoding="utf-8").replace("<html ", f'<html data-folder="{folder}" ', 1)


def page(name: str) -> str:
    """Returns the HTML of the page for the scenario of this name."""
    text = resources.files("emulator.live").joinpath("live.html").read_text(encoding="utf-8")
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    parts = {"style": Markup(style()), "vega": Markup(script_of_vega())}  # noqa: S704  our own files
    return environment.from_string(text).render(name=name, **parts)
