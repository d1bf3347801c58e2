"""The page itself: one answer with all that it needs; what changes comes as server-sent events."""

from __future__ import annotations

from importlib import resources

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from emulator.report.page import style
from emulator.report.vega import script_of_vega


def page(name: str) -> str:
    """For the scenario of this name."""
    text = resources.files("emulator.live").joinpath("live.html").read_text(encoding="utf-8")
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    parts = {"style": Markup(style()), "vega": Markup(script_of_vega())}  # noqa: S704  our own files
    return environment.from_string(text).render(name=name, **parts)
