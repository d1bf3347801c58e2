"""The reports of real runs in a real browser: silent, offline, every chart drawn, and a round can be chosen."""

import re
import shutil

import pytest
from typer.testing import CliRunner

from emulator.__main__ import app

playwright = pytest.importorskip("playwright.sync_api", reason="NO BROWSER TEST: playwright is not installed")

pytestmark = pytest.mark.slow

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
QUIET = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run")
QUIET += ("--disable-background-networking", "--disable-component-update", "--disable-sync")
DRAWN = "html[data-drawn]"
BARS = "#chart-timeline g.mark-rect.role-mark path"


@pytest.fixture(scope="module")
def browser(quickstart, nothing_reached):
    """Begun when the runs are over: its driver keeps this thread's event loop."""
    if CHROMIUM is None:
        pytest.skip("NO BROWSER TEST: no chromium on this machine")
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=CHROMIUM, args=list(QUIET))
        yield chromium
        chromium.close()


def compared(folder, *words):
    """The page that `fedlapse compare quickstart` leaves, with a network that is quick to train."""
    quick = ("training.epochs=1", "training.batch=64", "model=tests.runs.network:small", "--workers", "0", "--quiet")
    done = CliRunner().invoke(app, ["compare", "quickstart", "--out", str(folder), *quick, *words])
    assert (folder / "report.html").is_file(), done.stderr
    return folder / "report.html"


@pytest.fixture(scope="module")
def quickstart(tmp_path_factory):
    """Six rounds of one epoch, with a target that they reach."""
    targets = "rounds.targets=[{metric: accuracy, value: 0.1}]"
    return compared(tmp_path_factory.mktemp("quickstart") / "out", "--rounds", "6", targets)


@pytest.fixture(scope="module")
def nothing_reached(tmp_path_factory):
    return compared(tmp_path_factory.mktemp("nothing") / "out", "--rounds", "1", "--seed", "1")


@pytest.fixture
def visit(browser):
    """Opens a page; `heard` has what it said on the console and asked of the network."""
    contexts = []

    def open_page(path, width=1280, scheme="light", **options):
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, **options)
        contexts.append(context)
        view, heard = context.new_page(), []
        view.on("console", lambda message: heard.append(f"{message.type}: {message.text}"))
        view.on("pageerror", lambda error: heard.append(f"error: {error}"))

        def only_here(route):
            if route.request.url.startswith("file://"):
                route.continue_()
            else:
                heard.append(f"request: {route.request.url}")
                route.abort()

        context.route("**/*", only_here)
        view.goto(path.as_uri())
        if options.get("java_script_enabled", True):
            view.wait_for_selector(DRAWN, timeout=30_000)
        return view, heard

    yield open_page
    for context in contexts:
        context.close()


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
@pytest.mark.parametrize("which", ["quickstart", "nothing_reached"])
def test_every_chart_is_drawn_in_silence_and_within_the_screen(which, width, scheme, visit, request):
    view, heard = visit(request.getfixturevalue(which), width, scheme)
    figures = view.locator("figure")
    assert figures.count() >= 10
    for number in range(figures.count()):
        figure = figures.nth(number)
        assert figure.locator("svg.marks .role-mark [d], svg.marks .role-mark line").count() > 0, figure.inner_text()
        assert len(figure.locator("[role=graphics-document]").get_attribute("aria-label") or "") > 40
    assert view.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert heard == []


def test_text_is_light_on_dark_and_dark_on_light(quickstart, visit):
    def brightness(view, selector, style):
        numbers = re.findall(r"[\d.]+", view.eval_on_selector(selector, f"e => getComputedStyle(e).{style}"))
        return sum(map(float, numbers[:3])) / 3

    for scheme, paper in (("light", 255), ("dark", 0)):
        view, _ = visit(quickstart, scheme=scheme)
        assert abs(brightness(view, "body", "backgroundColor") - paper) < 60
        for text in ("body", "figcaption"):
            assert abs(brightness(view, text, "color") - paper) > 80
        assert abs(brightness(view, "#chart-seconds svg text", "fill") - paper) > 180


def bars(view):
    view.wait_for_timeout(200)  # a redraw is asynchronous, and says nothing when it is done
    return view.eval_on_selector_all(BARS, "all => all.map(one => one.getAttribute('aria-label'))")


def test_a_click_on_a_round_shows_its_devices(quickstart, visit):
    view, heard = visit(quickstart)
    before = bars(view)
    view.locator("#chart-rounds g.mark-rect.role-mark path[aria-label*='round: 5;']").last.click()
    assert view.locator("#chosen").inner_text().endswith("round 5")
    assert view.locator("#round").input_value() == "5"
    after = bars(view)
    assert before
    assert after
    assert before != after
    assert heard == []


def test_the_keyboard_chooses_a_round_and_a_run(quickstart, visit):
    view, heard = visit(quickstart)
    before = bars(view)
    view.locator("#round").focus()
    view.keyboard.press("ArrowRight")
    assert view.locator("#chosen").inner_text() == "fedavg, seed 1: round 1"
    second = bars(view)
    assert second != before
    view.locator("#run").select_option(label="fedcurv, seed 2")
    assert view.locator("#chosen").inner_text() == "fedcurv, seed 2: round 0"
    assert bars(view) not in (before, second)
    assert heard == []


def test_without_javascript_the_first_chart_and_all_tables_are_there(quickstart, visit):
    view, _ = visit(quickstart, java_script_enabled=False)
    assert view.locator("noscript svg").count() == 1
    assert view.locator("#targets table").count() == 3  # to targets, at the end, training


def test_keys_reach_the_results_first_and_every_control_has_a_name(quickstart, visit):
    view, _ = visit(quickstart)
    view.keyboard.press("Tab")
    assert view.evaluate("document.activeElement.textContent") == "Skip to the results"
    view.keyboard.press("Enter")
    assert view.evaluate("location.hash") == "#targets"
    for control in ("#run", "#round"):
        assert view.eval_on_selector(control, "e => e.labels.length") == 1
    assert view.locator("html").get_attribute("lang") == "en"
    assert {"main", "header", "footer", "nav"} <= set(
        view.evaluate("[...document.querySelectorAll('*')].map(e => e.localName)")
    )


def test_a_printed_page_has_every_chart_on_white(quickstart, visit):
    view, heard = visit(quickstart, scheme="dark")
    view.emulate_media(media="print", color_scheme="dark")
    assert view.eval_on_selector("body", "e => getComputedStyle(e).backgroundColor") == "rgb(255, 255, 255)"
    assert view.locator(".chooser label").first.is_hidden()
    assert len(view.pdf()) > 50_000
    assert heard == []
