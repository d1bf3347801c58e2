"""The report as Markdown, for a pull request."""

from __future__ import annotations

from collections.abc import Sequence

from emulator.report.comparison import MADE_BY, compare, notes, unlike
from emulator.results.caveats import remarks
from emulator.results.results import Results, facts
from emulator.results.settings import how_sure, settings
from emulator.wording import tables
from emulator.wording.conclusion import answered
from emulator.wording.markup import escaped as _text
from emulator.wording.markup import grid, listed


def markdown(results: Sequence[Results]) -> str:
    """Returns the report as Markdown: verdict, tables and remarks, without pictures.  Raises ValueError if there are no
    results."""
    all_ = compare(results)
    parts = [f"<!-- {MADE_BY} -->\n## {_text(all_.name)}"]
    parts += [f"⚠️ {_text(said)}" for said in (*notes(all_), *unlike(all_))]
    for name, one in all_.sources.items():
        named = f"**{_text(name)}**: " if len(all_.sources) > 1 else ""
        parts.append(f"{named}{_text(facts(one.scenario))}")
        if lines := answered(one.summary):
            parts.append(named + "  \n".join(_text(str(line)) for line in lines))
            parts.append(listed([str(line) for line in one.summary.get("why", ())]))
        said = [f"- {'✅' if each['ok'] else '❌'} {_text(each['text'])}" for each in one.summary.get("expect") or ()]
        parts += [
            *([f"**{_text(name)}**"] if said and len(all_.sources) > 1 else []),
            *(["\n".join(said)] if said else []),
        ]
    parts += map(grid, (tables.to_targets(all_.summary), tables.at_the_end(all_.summary)))
    parts += map(grid, (tables.numbers(all_.summary), tables.published(all_.summary)))
    for one in all_.sources.values():
        parts += [grid(settings(one.scenario)), listed(how_sure(one.scenario, one.summary.get("chance")))]
    remarked = [*remarks(all_.summary.get("links", {})), *(f"{line}." for line in tables.unmetered(all_.summary))]
    parts.append(listed(remarked))
    warnings = [*tables.failures(all_.summary), *tables.warnings(all_.summary)]
    parts += ["\n".join(f"- ⚠️ **{_text(label)}**: {_text(text)}" for label, text in warnings)]
    parts += [
        f"{_text(name)}: digest {_text(str(one.summary.get('digest') or 'not recorded'))}"
        for name, one in all_.sources.items()
    ]
    return "\n\n".join(part for part in parts if part) + "\n"
