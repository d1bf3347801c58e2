"""HTML pages in the report's style whose pictures are not interactive: map.html and tune.html."""

from __future__ import annotations

import html
from importlib import resources

from emulator.report import drawing
from emulator.report.figure import Figure


def page(kicker: str, title: str, about: str, body: str) -> str:
    """Returns a complete HTML page, which needs no network.

    `kicker`: a line above the title.  `about`: a line below the title.  `body`: HTML; all others are plain text.
    """
    kicker, title, about = map(html.escape, (kicker, title, about))
    style = resources.files("emulator.report").joinpath("page.css").read_text(encoding="utf-8")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f'<title>{title} – fedlapse</title>\n<link rel="icon" href="data:,">\n'
        f"<style>\n{style}</style>\n</head>\n<body>\n"
        f'<header>\n<p class="kicker">{kicker}</p>\n<h1>{title}</h1>\n<p class="facts">{about}</p>\n</header>\n'
        f"<main>\n{body}\n</main>\n</body>\n</html>\n"
    )


def picture(shown: Figure) -> str:
    """Returns the figure as HTML: its chart as SVG, and its caption."""
    drawn = drawing.svg({**shown.spec(), "background": "transparent"})
    caption = f"<figcaption>{html.escape(shown.caption)}</figcaption>"
    return f'<figure id="figure-{html.escape(shown.name)}"><div class="chart still">{drawn}</div>{caption}</figure>'
