"""Each document, section and reading of docs/design/algorithms.md that a file cites exists."""

import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
KINDS = (".py", ".yaml", ".md", ".toml", ".txt")
DOCUMENT = re.compile(r"(?<![\w./-])(?:[\w.-]+/)*[\w-]+\.md\b")
SECTIONS = re.compile(r"((?:[\w.-]+/)*[\w-]+\.md),? (§\d+(?:(?:, | and |, and | to )§\d+)*)")
READINGS = re.compile(r"\b[Rr]eadings? (\d+(?:(?:, | and )\d+)*)\b")
SOURCE = re.compile(r"(?<![\w/.`'\"*])((?:\w+/)*\w+\.py)\b")
FOREIGN = {"device_util.py", "client.py", "preprocess.py"}  # in other projects' repositories
WRITTEN = {"new.md", "notes.md", "report.md", "study.md"}  # by the program and by tests


pytestmark = pytest.mark.slow  # it reads every file


@cache
def cited() -> list[tuple[Path, str]]:
    """Every file of the repository that may cite a document, and its text on one line, without comment signs."""
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True)
    files = [ROOT / name for name in listed.stdout.splitlines() if name.endswith(KINDS)]
    assert len(files) > 300
    texts = ((file, file.read_text(encoding="utf-8")) for file in files if file.exists() and file != Path(__file__))
    return [(file, " ".join(re.sub(r"^\s*# ", "", text, flags=re.MULTILINE).split())) for file, text in texts]


def found(name: str, file: Path) -> Path | None:
    return next((place / name for place in (ROOT, ROOT / "docs", file.parent) if (place / name).is_file()), None)


@cache
def sections(document: Path) -> set[int]:
    return {int(n) for n in re.findall(r"^## (\d+)\.", document.read_text(encoding="utf-8"), re.MULTILINE)}


@cache
def readings() -> set[int]:
    text = (ROOT / "docs/design/algorithms.md").read_text(encoding="utf-8")
    return {int(n) for n in re.findall(r"^\| (\d+) \|", text, re.MULTILINE)}


def test_every_document_that_is_named_is_in_the_repository():
    missing = {
        f"{file.relative_to(ROOT)}: {name}"
        for file, text in cited()
        for name in DOCUMENT.findall(text)
        if not found(name, file) and Path(name).name not in WRITTEN
    }
    assert missing == set()


def test_every_source_file_that_a_comment_names_is_in_the_repository():
    names = {str(file.relative_to(ROOT)) for file, _ in cited()}
    missing = {
        f"{file.relative_to(ROOT)}: {name}"
        for file, text in cited()
        for name in SOURCE.findall(text)
        if file.suffix == ".py"
        and Path(name).name not in FOREIGN
        and not any(f"/{at}".endswith(f"/{name}") for at in names)
    }
    assert missing == set()


def test_every_section_that_is_cited_is_a_heading_of_its_document():
    wrong = []
    for file, text in cited():
        for name, marks in SECTIONS.findall(text):
            document = found(name, file)
            numbers = {int(n) for n in re.findall(r"\d+", marks)}
            if document is None or not numbers <= sections(document):
                wrong.append(f"{file.relative_to(ROOT)}: {name} {marks}")
    assert wrong == []


def test_every_reading_that_is_cited_is_in_the_table():
    assert readings() == set(range(1, len(readings()) + 1))
    wrong = [
        f"{file.relative_to(ROOT)}: reading {numbers}"
        for file, text in cited()
        if "docs/design/algorithms.md §9" in text
        for numbers in READINGS.findall(text)
        if not {int(n) for n in re.findall(r"\d+", numbers)} <= readings()
    ]
    assert wrong == []
