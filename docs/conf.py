"""The documentation site, which `make docs` builds; every page also reads well as a plain file."""

import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

from sphinx.application import Sphinx

project = "fedlapse"
author = "the authors of fedlapse"
release = version = metadata.version("fedlapse")
extensions = ["myst_parser", "sphinx_copybutton"]
exclude_patterns = ["example"]
source_suffix = {".md": "markdown"}
highlight_language = "text"
nitpicky = True

myst_heading_anchors = 4
copybutton_prompt_text = "$ "

html_theme = "furo"
html_title = "fedlapse"
html_show_copyright = False
html_show_sphinx = False
html_copy_source = False

SECTION = r"^## ([^\n]+)\n(.*?)(?=^## |\Z)"
COMMANDS = "<!-- The site has the help of every command here. -->"


def setup(app: Sphinx) -> None:
    app.connect("source-read", complete)


def complete(_app: Sphinx, page: str, source: list[str]) -> None:
    """What a plain file need not have: the index its tables of contents, the page of commands their help."""
    if page == "index":
        source[0] += "".join(contents(*found) for found in re.findall(SECTION, source[0], re.M | re.S))
    if page == "commands":
        assert COMMANDS in source[0]
        source[0] = source[0].replace(COMMANDS, helps())


def contents(caption: str, section: str) -> str:
    """The pages that a section of the index links, for the sidebar."""
    pages = "\n".join(dict.fromkeys(re.findall(r"\]\(([\w/-]+)\.md\)", section)))
    return f"\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{pages}\n```\n" if pages else ""


def helps() -> str:
    """The help of every command, as typer writes it."""
    tool = [sys.executable, "-m", "typer", "emulator.__main__", "utils", "docs", "--name", "fedlapse"]
    told = subprocess.run(tool, cwd=Path(__file__).parents[1], capture_output=True, text=True, check=True).stdout
    first = told.index("## `fedlapse new`")
    return told[first:].replace("* `--help`: Show this message and exit.\n", "")
