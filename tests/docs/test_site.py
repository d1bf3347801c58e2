"""The documentation site, and the pages that only make sense as long as the program says the same."""

import ast
import html
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command

from emulator.__main__ import COMMANDS, app
from tests.all_of import all_of

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
CALL = re.compile(r"(?:^|\$ )fedlapse ([a-z]+)([^#\n]*)", re.MULTILINE)
OPTION = re.compile(r"(?<=\s)--?[a-z][\w-]*")
SOURCES = "\n".join(
    file.read_text(encoding="utf-8")
    for folder in ("algorithms", "devices", "emulator", "network", "scenarios")
    for file in sorted((ROOT / folder).rglob("*.py"))
)


def sources():
    return [*DOCS.rglob("*.md"), *DOCS.rglob("*.ipynb")]


def text(page):
    return (DOCS / page).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site, built as `make docs` does: a link that leads nowhere, or a page that nothing names, is an error.  Only
    one notebook is run here: test_research.py has the other, small."""
    pytest.importorskip("furo", reason="the extra `docs` is not installed")
    out = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-q", "-n", "-W", "--keep-going", "-t", "short", str(DOCS), str(out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return out


@pytest.mark.slow
def test_every_page_is_built_and_stands_in_the_sidebar(site):
    pages = {str(page.relative_to(DOCS).with_suffix("")) for page in sources()} - {"index"}
    sidebar = re.search(r'<div class="sidebar-tree">.*?</div>', (site / "index.html").read_text(), re.DOTALL)[0]
    assert set(re.findall(r'href="([\w/-]+)\.html"', sidebar)) == pages


@pytest.mark.slow
def test_the_page_of_commands_has_the_help_of_each(site):
    page = (site / "commands.html").read_text(encoding="utf-8")
    told = set(
        re.findall(r'<h2><code[^>]*><span class="pre">fedlapse</span> <span class="pre">([\w-]+)</span></code>', page)
    )
    assert COMMANDS.keys() == told
    assert "Replace what is in --out." in page  # and not with a dash


@pytest.mark.slow
def test_the_site_needs_no_network(site):
    for page in site.rglob("*.html"):
        said = page.read_text(encoding="utf-8")
        assert re.findall(r'<(?:script|link|img)[^>]+(?:src|href)="https?://', said) == []
        assert "https://cdn." not in said  # which a script would fetch


@pytest.mark.slow
def test_the_notebook_was_run_and_what_came_out_is_what_it_says(site):
    """FedAvg is first in every setting, and its lead is the larger, the slower the links."""
    page = (site / "notebook.html").read_text(encoding="utf-8")
    assert "2 seeds are too few to tell a difference from chance. fedavg has the lowest mean time" in page
    assert page.count("<table") == 2
    (picture,) = re.findall(r'<img[^>]+src="(_images/\w+\.svg)"', page)
    assert "fedcurv" in (site / picture).read_text(encoding="utf-8")
    told = html.unescape(re.sub("<[^>]+>", "", page))
    settings = re.findall(r"^(as recorded|\d+Mbit/s) (\{.*\})$", told, re.MULTILINE)
    leads = {name: lead(**ast.literal_eval(times)) for name, times in settings}
    assert leads["2Mbit/s"] > leads["10Mbit/s"] > leads["as recorded"] > 0


def lead(fedavg, fedcurv):
    """Seconds between the slowest of one and the fastest of the other."""
    return min(fedcurv) - max(fedavg)


@pytest.mark.parametrize("notebook", ["notebook.ipynb", "research.ipynb"])
def test_a_notebook_is_committed_without_what_came_out(notebook):
    ran = [cell for cell in json.loads(text(notebook))["cells"] if cell["cell_type"] == "code"]
    assert len(ran) > 5
    assert all_of(cell["outputs"] == [] and cell["execution_count"] is None for cell in ran)


@pytest.mark.parametrize(
    "said",
    [
        "did you mean",
        "are in none of",
        "examples of shape",
        "cannot find",
        "there is no CUDA here",
        "a worker process was killed (out of memory?)",
        "rounds in a row had fewer than min_replies =",
        "no device is ever online",
        "no space left on the disk",
        "holds another run",
        "is in the way, and not fedlapse's",
        "compiling the network model",
        "which workers need for locks",
        "not enough memory can be had",
        "no seal: interrupted",
        "a map needs a range",
        "too few to tell a difference from chance",
        "FEDLAPSE_TRACEBACK",
    ],
)
def test_what_troubleshooting_quotes_is_what_the_program_says(said):
    assert said in text("troubleshooting.md")
    assert said in SOURCES


def test_what_the_page_of_the_report_explains_is_what_warnings_say():
    rows = re.findall(r"^\| ([^|]+) \|", text("report.md").partition("## Warnings")[2], re.MULTILINE)[1:]
    fixed = [re.split(r" N | \.\.\.|\.\.\. ", row)[0] for row in rows]
    assert len(fixed) == 11
    assert [words for words in fixed if words not in SOURCES] == []


def test_every_command_and_option_that_pages_name_exists():
    group = get_command(app)
    known = {name: options(group.get_command(None, name)) for name in COMMANDS}
    pages = [ROOT / "README.md", *DOCS.rglob("*.md")]
    named = [found for page in pages for found in CALL.findall(code(page))]
    assert len(named) > 100
    unknown = {name for name, _ in named} - set(known)
    assert unknown == set()
    wrong = [f"{name} {each}" for name, rest in named for each in OPTION.findall(rest) if each not in known[name]]
    assert wrong == []


def code(page):
    """The blocks and spans of code of a page, a line each."""
    said = page.read_text(encoding="utf-8")
    blocks = re.findall(r"^```.*?\n(.*?)^```$", said, re.MULTILINE | re.DOTALL)
    spans = re.findall(r"`([^`]+)`", re.sub(r"^```.*?^```$", "", said, flags=re.MULTILINE | re.DOTALL))
    return "\n".join([*blocks, *(" ".join(span.split()) for span in spans), ""])


def options(command):
    inner = getattr(command, "commands", {}).values()
    own = {name for each in command.params for name in (*each.opts, *each.secondary_opts)}
    return own.union({"--help", "-h"}, *map(options, inner))


WORDS = (
    "baseline, break-even, cohort, Fisher information, fleet, hold, horizon, importance, initial accuracy, "
    "keep-trace gradient, ledger, leverage, max-min fair, penalty, personalised accuracy, placebo, profile, proxy set, "
    "record, replay, restricted mean time, round, scenario, seed, straggler, target, trace, virtual time, world, Ω"
)


def test_the_glossary_has_the_words_of_the_field_in_alphabetical_order():
    entries = re.findall(r"^\*\*([^*]+)\*\* — [A-Z]", text("glossary.md"), re.MULTILINE)
    assert [word for word in WORDS.split(", ") if not any(entry.startswith(word) for entry in entries)] == []
    assert entries == sorted(entries, key=str.casefold)
