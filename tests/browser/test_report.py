"""The reports of real runs in a real browser: silent, offline, every chart drawn, and a round can be chosen."""

import re
import shlex
import shutil

import pytest
from typer.testing import CliRunner

from emulator.__main__ import app
from tests.all_of import all_of

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
    figures = view.locator("figure:not(.sentence)")
    assert figures.count() >= 10
    for number in range(figures.count()):
        figure = figures.nth(number)
        assert figure.locator("svg.marks .role-mark [d], svg.marks .role-mark line").count() > 0, figure.inner_text()
        assert len(figure.locator("[role=graphics-document]").get_attribute("aria-label") or "") > 40
    assert view.locator("figure.sentence").count() > 0
    assert view.locator("figure.sentence svg").count() == 0
    assert view.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert heard == []


def test_commands_name_the_folder_where_the_page_is(quickstart, visit):
    """With the page's own address; it is quoted for a shell."""
    view, _ = visit(quickstart)
    assert view.locator("#about dd code").first.inner_text() == f"fedlapse compare {quickstart.parent}/scenario.yaml"
    moved = shutil.copytree(quickstart.parent, quickstart.parent.parent / "Bo's runs") / "report.html"
    view, _ = visit(moved)
    words = shlex.split(view.locator("#about dd code").first.inner_text())
    assert words == ["fedlapse", "compare", f"{moved.parent}/scenario.yaml"]


def test_the_answer_is_above_the_fold_in_two_columns(quickstart, visit):
    assert quickstart.stat().st_size <= 1_500_000
    view, _ = visit(quickstart)
    times, seconds, verdict = (
        view.locator(part).bounding_box() for part in ("#chart-times svg.marks", "#chart-seconds svg.marks", ".verdict")
    )
    assert max(one["y"] + one["height"] for one in (times, seconds)) < 800
    assert times["y"] == pytest.approx(seconds["y"], abs=1)
    assert times["x"] + times["width"] <= seconds["x"]
    assert verdict["y"] + verdict["height"] < times["y"]


def test_a_phone_shows_the_time_and_tables_say_that_they_scroll(quickstart, visit):
    view, _ = visit(quickstart, 390)
    table = view.locator("#targets .scroll").first
    heading = table.locator("th", has_text="time, ").bounding_box()
    assert heading["x"] + heading["width"] <= 390
    said = "e => getComputedStyle(e, '::after').content"
    assert "to the right" in table.evaluate(said)
    wide, _ = visit(quickstart, 1280)
    assert wide.locator("#targets .scroll").first.evaluate(said) == "none"


def test_what_goes_down_and_what_goes_up_differ_in_hatching(quickstart, visit):
    """Algorithms have plain colours; a download's and an upload's are turned by other angles."""
    view, _ = visit(quickstart)

    def fills(chart, part):
        found = f"#chart-{chart} .role-mark [aria-label*='{part}']"
        return set(view.eval_on_selector_all(found, "all => all.map(one => getComputedStyle(one).fill)"))

    (down,), (up,) = fills("seconds", "part: download"), fills("seconds", "part: upload")
    turned = [view.locator(re.search(r"#hatch\d+", one)[0]).get_attribute("patternTransform") for one in (down, up)]
    assert turned == ["rotate(45)", "rotate(-45)"]
    assert all_of("hatch" not in fill for fill in fills("times", "fed"))


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


def span(view):
    """The first and the last value on the timeline's axis."""
    view.wait_for_timeout(200)  # a redraw is asynchronous, and says nothing when it is done
    return view.locator("#chart-timeline .role-axis[aria-label*=X-axis]").get_attribute("aria-label")


def bars(view):
    return view.eval_on_selector_all(BARS, "all => all.map(one => one.getAttribute('aria-label'))")


def test_a_click_on_a_round_goes_there_on_the_timeline_and_a_double_click_back(quickstart, visit):
    view, heard = visit(quickstart)
    before = span(view)
    assert len({re.search(r"round: (\d+)", bar)[1] for bar in bars(view)}) == 6  # all rounds, from 1
    assert "round: 0;" not in " ".join(bars(view))
    view.locator("#chart-rounds g.mark-rect.role-mark path[aria-label*='round: 5;']").last.click()
    assert view.locator("#chosen").inner_text().endswith("round 5")
    assert view.locator("#round").input_value() == "5"
    assert span(view) != before
    view.locator("#chart-timeline svg.marks").dblclick()
    assert span(view) == before
    assert heard == []


def test_the_keyboard_chooses_a_round_and_a_run(quickstart, visit):
    view, heard = visit(quickstart)
    before, all_bars = span(view), bars(view)
    assert view.locator("#chosen").inner_text() == "fedavg, seed 1: all rounds"
    view.locator("#round").focus()
    view.keyboard.press("ArrowRight")
    assert view.locator("#chosen").inner_text() == "fedavg, seed 1: round 1"
    assert span(view) != before
    view.locator("#run").select_option(label="fedcurv, seed 2")
    assert view.locator("#chosen").inner_text() == "fedcurv, seed 2: all rounds"
    assert span(view) != before  # another run, to another end
    assert bars(view) != all_bars
    assert view.locator("#t-rates").inner_text() == "Rates of links, fedcurv, seed 2"
    assert heard == []


def test_without_javascript_the_first_chart_and_all_tables_are_there(quickstart, visit):
    view, _ = visit(quickstart, java_script_enabled=False)
    assert view.locator("noscript svg").count() == 1
    assert view.locator("#targets table").count() == 4  # to targets, at the end, training, settings


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
    assert view.locator("pre").is_hidden()  # the scenario
    kept = "all => all.map(one => getComputedStyle(one))"
    assert set(view.eval_on_selector_all("figure", f"{kept}.map(style => style.breakInside)")) == {"avoid"}
    assert set(view.eval_on_selector_all("h2, h3", f"{kept}.map(style => style.breakAfter)")) == {"avoid"}
    assert len(view.pdf()) > 50_000
    assert heard == []
