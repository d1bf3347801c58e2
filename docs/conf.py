"""The documentation site, which `make docs` builds; every page also reads well as a plain file."""

import re
from importlib import metadata
from pathlib import Path
from posixpath import dirname, join, normpath
from typing import Any

from sphinx.application import Sphinx
from typer.main import get_command
from typer.testing import CliRunner

from emulator.__main__ import COMMANDS, app

project = "fedlapse"
author = "the authors of fedlapse"
release = version = metadata.version("fedlapse")
extensions = ["myst_nb", "sphinx_copybutton"]
exclude_patterns = ["example"]
highlight_language = "text"
nitpicky = True
smartquotes = False  # --train is an option

myst_heading_anchors = 4
copybutton_prompt_text = "$ "

nb_execution_mode = "force"  # pages of notebooks show what comes out today
# `sphinx-build -t short` leaves out the long one; Sphinx sets `tags`.
nb_execution_excludepatterns = ["research.ipynb"] if tags.has("short") else []  # noqa: F821
nb_execution_in_temp = True
nb_execution_timeout = 600  # s that a cell may take
nb_execution_raise_on_error = True
nb_output_stderr = "remove"  # progress

html_theme = "furo"
html_title = "fedlapse"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_copyright = False
html_show_sphinx = False

DOCS = Path(__file__).parent
PLACE = "<!-- The site has the help of every command here. -->"
SECTION = re.compile(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
NAMED = re.compile(r"\[([^\]]+)\]\(([\w/-]+)\.(?:md|ipynb)\)")  # [Links](links.md)
FILE = re.compile(r"\[[\w./-]+\.md\](\(([\w./-]+)\.md(?:#[\w-]+)?\))")  # [links.md](links.md#recordings)
NAMES = {page: " ".join(name.split()) for name, page in NAMED.findall((DOCS / "index.md").read_text(encoding="utf-8"))}


def setup(app: Sphinx) -> None:
    app.connect("source-read", complete)


def complete(_app: Sphinx, page: str, source: list[str]) -> None:
    """What a plain file need not have: pages' names in place of files', tables of contents, the help of commands."""

    def renamed(link: re.Match[str]) -> str:
        name = "" if "#" in link[1] else NAMES.get(normpath(join(dirname(page), link[2])), "")
        return f"[{name}]{link[1]}"  # without a name MyST puts the title there

    text = FILE.sub(renamed, source[0])
    if page == "index":
        text += "".join(contents(*found) for found in SECTION.findall(text))
    if page == "commands":
        before, after = text.split(PLACE)
        text = before + helps() + after
    source[0] = text


def contents(caption: str, section: str) -> str:
    """The pages that a section of the index names, for the sidebar."""
    pages = "\n".join(f"{NAMES[page]} <{page}>" for _, page in NAMED.findall(section) if page in NAMES)
    return f"\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{pages}\n```\n" if pages else ""


def helps() -> str:
    """The help of every command and its subcommands, as the terminal shows it."""
    group: Any = get_command(app)
    told = []
    for name in COMMANDS:
        told.append(f"## `fedlapse {name}`\n\n{_help(name)}")
        below = getattr(group.get_command(None, name), "commands", {})
        told += [f"### `fedlapse {name} {each}`\n\n{_help(name, each)}" for each in below]
    return "\n\n".join(told)


def _help(*words: str) -> str:
    told = CliRunner().invoke(app, [*words, "--help"], prog_name="fedlapse", env={"COLUMNS": "90"}).stdout
    return f"```text\n{told.strip()}\n```"
