"""How many words of docs/ are written by hand: `python -m benchmarks.words`.

Code blocks, tables, comments and link targets are not counted, nor pages, and parts of pages between two marks, that
the program or a study writes.  The sentences of the scripts that write such pages are counted in these scripts.
"""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
GENERATED = {"failures.md", "keys.md", "papers.md", "papers/results/README.md", "study-regimes.md"}
SCRIPTS = ("benchmarks/papers.py", "benchmarks/study.py")
LEFT_OUT = re.compile(
    r"^```.*?^```$|^ *\|.*?$|<!-- (\S+) -->.*?<!-- end of \1 -->|<!--.*?-->|\]\([^)]*\)", re.MULTILINE | re.DOTALL
)
WORD = re.compile(r"\S*\w\S*")
SENTENCE = 12  # words; a shorter constant is a label


def prose(text: str) -> int:
    """Returns the number of words in a page's prose."""
    return len(WORD.findall(LEFT_OUT.sub(" ", text)))


def sentences(source: str) -> int:
    """Returns the number of words in a script's constants that hold sentences, without its docstrings."""
    tree = ast.parse(source)
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    texts = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    counts = [prose(node.value) for node in texts if id(node) not in docstrings]
    return sum(count for count in counts if count >= SENTENCE)


def counted() -> dict[str, int]:
    """Returns the number of words written by hand, by page and script."""
    pages = {str(page.relative_to(DOCS)): page for page in sorted(DOCS.rglob("*.md"))}
    written = {name: page for name, page in pages.items() if name not in GENERATED and not name.startswith("studies/")}
    found = {f"docs/{name}": prose(page.read_text(encoding="utf-8")) for name, page in written.items()}
    return {**found, **{name: sentences((ROOT / name).read_text(encoding="utf-8")) for name in SCRIPTS}}


def main() -> None:
    """Prints the words of each page, and their sum."""
    found = counted()
    for name, words in {**found, "all": sum(found.values())}.items():
        print(f"{name:32}{words:8,}")


if __name__ == "__main__":
    main()
