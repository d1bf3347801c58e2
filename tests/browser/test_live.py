"""The page of runs that are under way, in a real browser: its lines grow, it ends as the report, and is silent."""

from __future__ import annotations

import shutil
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from emulator.live.server import Live
from emulator.live.watching import Watching
from emulator.record.run import Run
from scenarios.load import build
from tests.all_of import all_of
from tests.emulator.results.played import row

playwright = pytest.importorskip("playwright.sync_api", reason="NO BROWSER TEST: playwright is not installed")

pytestmark = pytest.mark.slow

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
LINE = ".chart svg .mark-line path"
SCENARIO = build(
    {
        "name": "watched",
        "seeds": [1],
        "rounds": {"max": 5, "targets": [{"value": 0.8}]},
        "fleet": [{"profile": "pi-4", "count": 2, "link": {"up_mbit_s": 1, "down_mbit_s": 1}}],
    }
)
RUN = Run("fedavg", 1)


def test_lines_grow_and_the_page_ends_as_the_report(tmp_path: Path) -> None:
    if CHROMIUM is None:
        pytest.skip("NO BROWSER TEST: no chromium on this machine")
    report = tmp_path / "report.html"
    report.write_text("<!doctype html><title>the report</title><link rel=icon href=data:,>", encoding="utf-8")
    serving = Live(Watching(SCENARIO)).__enter__()
    for number in range(2):
        serving.watching.tell(RUN, row(number, 10.0 * (number + 1), 0.3 * (number + 1), 10.0))
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        heard: list[str] = []
        page.on("console", lambda message: heard.append(message.text))
        page.on("pageerror", lambda error: heard.append(str(error)))
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.goto(serving.url)
        page.wait_for_selector(LINE)
        before = page.eval_on_selector(LINE, "path => path.getAttribute('d')")
        assert "2 of at most 5 rounds" in page.inner_text("#played")
        serving.watching.tell(RUN, row(2, 30.0, 0.9, 10.0))
        page.wait_for_function("document.querySelector('#verdict').textContent.includes('30.0 s')")
        page.wait_for_function(
            "([line, before]) => { const path = document.querySelector(line); "
            "return path && path.getAttribute('d') !== before; }",
            arg=[LINE, before],
        )
        assert heard == []
        assert framed(browser, serving.url) == "net::ERR_BLOCKED_BY_RESPONSE"
        serving.report = report
        ending = threading.Thread(target=serving.__exit__, args=(None, None, None))
        ending.start()
        page.wait_for_function("document.title === 'the report'")
        ending.join()
        assert heard == []
        assert all_of(url.startswith((serving.url, "data:")) for url in asked)
        browser.close()


class Other(BaseHTTPRequestHandler):
    """A page of another origin on this computer, with the page that its address names in a frame."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(f"<link rel=icon href=data:,><iframe src={self.path[1:]}></iframe>".encode())

    def log_message(self, *_: object) -> None:
        """Nothing."""


def framed(browser: Any, url: str) -> str:
    """Why the browser does not show this page in a frame of another."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Other) as other:
        threading.Thread(target=other.serve_forever).start()
        page = browser.new_page()
        with page.expect_event("requestfailed") as failed:
            page.goto(f"http://localhost:{other.server_port}/{url}")
        page.close()
        other.shutdown()
    assert failed.value.url == url
    return str(failed.value.failure)
