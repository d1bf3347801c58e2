"""A small web server on loopback, in a thread of its own: no run waits for it, whatever its readers do."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import Awaitable, Callable
from importlib import resources
from pathlib import Path
from types import TracebackType
from typing import Any

from aiohttp import web
from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from emulator.live.watching import Watching
from emulator.report.page import style
from emulator.report.vega import script_of_vega

HOST = "127.0.0.1"
EVERY = 1.0  # s between two looks at what has changed
READERS = 20  # at the same time
PATIENCE = 5.0  # s that the command waits at its end for readers to fetch the report

HEADERS = {  # of every answer
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

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Event = tuple[str, str]  # its name and data


class Live:
    """Serves the page from `with` on.  Afterwards readers are sent to the report, if there is one.

    Raises OSError when it is entered if the port is taken.
    """

    def __init__(self, watching: Watching, port: int = 0) -> None:
        self.watching, self.port = watching, port  # 0: a free one
        self.report: Path | None = None  # once it is there
        self.readers: set[asyncio.Queue[Event]] = set()
        self.waiting = 0  # readers that are yet to fetch the report
        self.all_fetched = asyncio.Event()

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}/"

    def __enter__(self) -> Live:
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, name="live", daemon=True)
        self.thread.start()
        try:
            self._do(self._start())
        except OSError:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._do(self._stop())
        self._end()

    def _do(self, what: Any) -> None:
        asyncio.run_coroutine_threadsafe(what, self.loop).result()

    def _end(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()

    async def _start(self) -> None:
        app = web.Application(middlewares=[self._guarded], client_max_size=1)
        app.on_response_prepare.append(_secured)
        app.router.add_get("/", self._page, allow_head=False)
        app.router.add_get("/events", self._events, allow_head=False)
        app.router.add_get("/report.html", self._report, allow_head=False)
        self.runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await self.runner.setup()
        try:
            site = web.TCPSite(self.runner, HOST, self.port)
            await site.start()
        except OSError:
            await self.runner.cleanup()
            raise
        self.port = self.runner.addresses[0][1]
        self.looking = asyncio.ensure_future(self._look())

    async def _stop(self) -> None:
        self.looking.cancel()
        self._tell("done" if self.report else "gone", "")
        if self.readers and self.report:
            self.waiting = len(self.readers)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.all_fetched.wait(), PATIENCE)
        await self.runner.cleanup()

    @web.middleware
    async def _guarded(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Answers what asks for this very address: a page of others could have its own name lead here."""
        if request.host not in (f"{HOST}:{self.port}", f"localhost:{self.port}"):
            raise web.HTTPForbidden(text="this page is for this computer alone")
        if _from_elsewhere(request):
            raise web.HTTPForbidden(text="other pages may only link to this one")
        return await handler(request)

    async def _page(self, _: web.Request) -> web.Response:
        text = await asyncio.to_thread(page, self.watching.scenario.name)
        return web.Response(text=text, content_type="text/html")

    async def _report(self, request: web.Request) -> web.StreamResponse:
        if self.report is None:
            raise web.HTTPNotFound(text="the runs have not ended")
        body = await asyncio.to_thread(self.report.read_bytes)
        response = web.Response(body=body, content_type="text/html", charset="utf-8")
        await response.prepare(request)
        await response.write_eof()
        self.waiting -= 1
        if self.waiting == 0:
            self.all_fetched.set()
        return response

    async def _events(self, request: web.Request) -> web.StreamResponse:
        if len(self.readers) >= READERS:
            raise web.HTTPServiceUnavailable(text=f"{READERS} pages are open already")
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        latest: asyncio.Queue[Event] = asyncio.Queue(1)
        self.readers.add(latest)
        try:
            state, name = await asyncio.to_thread(self._state), ""
            if latest.empty():  # else something newer came meanwhile
                latest.put_nowait(("state", state))
            while name not in ("done", "gone"):
                name, data = await latest.get()
                await response.write(f"event: {name}\ndata: {data}\n\n".encode())
        except ConnectionError:
            pass  # the page was closed
        finally:
            self.readers.discard(latest)
        return response

    async def _look(self) -> None:
        """Works the state out anew where rounds have ended and somebody looks on."""
        seen = -1
        while True:
            await asyncio.sleep(EVERY)
            if self.readers and self.watching.version != seen:
                seen = self.watching.version
                self._tell("state", await asyncio.to_thread(self._state))

    def _tell(self, name: str, data: str) -> None:
        """Each reader gets the latest event; one that it has not read yet is out of date."""
        for latest in self.readers:
            with contextlib.suppress(asyncio.QueueEmpty):
                latest.get_nowait()
            latest.put_nowait((name, data))

    def _state(self) -> str:
        return json.dumps(self.watching.state(), allow_nan=False)


def _from_elsewhere(request: web.Request) -> bool:
    """Whether the page of another origin, in this browser, asks for more than to be left for ours.

    Browsers say so (Fetch Metadata); programs that do not are no pages.
    """
    if request.headers.get("Sec-Fetch-Site", "none") in ("none", "same-origin"):
        return False
    return (request.headers.get("Sec-Fetch-Mode"), request.headers.get("Sec-Fetch-Dest")) != ("navigate", "document")


async def _secured(_: web.Request, response: web.StreamResponse) -> None:
    response.headers.update(HEADERS)


def page(name: str) -> str:
    """Returns the page for the scenario of this name; what changes on it comes as server-sent events."""
    text = resources.files("emulator.live").joinpath("live.html").read_text(encoding="utf-8")
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    parts = {"style": Markup(style()), "vega": Markup(script_of_vega())}  # noqa: S704  our own files
    return environment.from_string(text).render(name=name, **parts)
