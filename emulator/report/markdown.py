"""The report as Markdown, for a pull request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from emulator.report.comparison import MADE_BY, compare, notes, unlike
from emulator.results import tables
from emulator.results.caveats import remarks
from emulator.results.markup import escaped as _text
from emulator.results.markup import grid
from emulator.results.results import Results, facts
from emulator.results.settings import how_sure, settings
from emulator.results.tables import Table


def markdown(results: Sequence[Results]) -> str:
    """The verdict, tables and remarks, without pictures.  Raises ValueError if there is nothing to compare."""
    all_ = compare(results)
    parts = [f"<!-- {MADE_BY} -->\n## {_text(all_.name)}"]
    parts += [f"⚠️ {_text(said)}" for said in (*notes(all_), *unlike(all_))]
    for name, one in all_.sources.items():
        named = f"**{_text(name)}**: " if len(all_.sources) > 1 else ""
        parts.append(f"{named}{_text(facts(one.scenario))}")
        if one.summary.get("sentence"):
            parts.append(named + _text(str(one.summary["sentence"])))
            parts.append("\n".join(f"- {_text(str(line))}" for line in one.summary.get("why", ())))
        said = [f"- {'✅' if each['ok'] else '❌'} {_text(each['text'])}" for each in one.summary.get("expect") or ()]
        parts += [
            *([f"**{_text(name)}**"] if said and len(all_.sources) > 1 else []),
            *(["\n".join(said)] if said else []),
        ]
    to_targets = tables.to_targets(all_.summary, energy=True)
    parts += _table(to_targets) if to_targets.rows else []
    parts += _table(tables.at_the_end(all_.summary, energy=True))
    for shown in (tables.numbers(all_.summary), tables.published(all_.summary)):
        parts += _table(shown) if shown.rows else []
    for one in all_.sources.values():
        parts += [*_table(settings(one.scenario)), "\n".join(f"- {_text(line)}" for line in how_sure(one.scenario))]
    remarked = [*remarks(all_.summary.get("links", {})), *(f"{line}." for line in tables.unmetered(all_.summary))]
    parts += ["\n".join(f"- {_text(said)}" for said in remarked)]
    warnings = [*tables.failures(all_.summary), *tables.warnings(all_.summary)]
    parts += ["\n".join(f"- ⚠️ **{_text(label)}**: {_text(text)}" for label, text in warnings)]
    parts += [
        f"{_text(name)}: digest {_text(str(one.summary.get('digest') or 'not recorded'))}"
        for name, one in all_.sources.items()
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _table(shown: Table) -> Iterator[str]:
    yield grid(shown.headings, shown.rows, shown.words)
    yield f"<sub>{_text(shown.caption)}</sub>"
