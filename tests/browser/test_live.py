"""The page of runs that are under way, in a real browser: its lines grow, it ends as the report, and is silent."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path
from typing import Any

import pytest

from emulator.live.server import Live
from emulator.live.watching import Watching
from emulator.record.run import Run
from scenarios.load import build
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
        page.wait_for_function("document.querySelector('#sentence').textContent.includes('in 30.0 s')")
        page.wait_for_function(
            "([line, before]) => { const path = document.querySelector(line); "
            "return path && path.getAttribute('d') !== before; }",
            arg=[LINE, before],
        )
        assert heard == []
        assert framed(browser, serving.url) == ""
        serving.report = report
        ending = threading.Thread(target=serving.__exit__, args=(None, None, None))
        ending.start()
        page.wait_for_function("document.title === 'the report'")
        ending.join()
        assert heard == []
        assert all(url.startswith((serving.url, "data:")) for url in asked)
        browser.close()


def framed(browser: Any, url: str) -> str:
    """What a page of another origin can see of ours in a frame: nothing, as the browser does not show it there."""
    page = browser.new_page()
    page.route("http://other.example/", lambda route: route.fulfill(body=f"<iframe src={url}></iframe>"))
    page.goto("http://other.example/")
    page.wait_for_load_state()
    inside = page.frames[1]
    shown = "" if inside.url != url else inside.inner_text("body")
    page.close()
    return str(shown)
