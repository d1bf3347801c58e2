"""`fedlapse papers`: the settings of the papers, each a scenario: lists them, with how far their small versions agree;
plays them at full size, run by run; and reports what came out."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path
from typing import Annotated, Any

import typer

from emulator.commands.group import Commands, flat
from emulator.commands.help import Command
from emulator.commands.options import Format, FormatOption
from emulator.commands.scenarios import told
from emulator.play.progress import about
from emulator.record.writing import replace_file
from emulator.results.papers import AGREEMENTS
from emulator.sessions.computing import RESULTS, SCENARIO, Playing
from emulator.terminal.errors import BAD_INPUT, told_in_one_line
from emulator.terminal.lines import busy, say
from emulator.wording.layout import columns, filled


class Papers(Commands):
    """A group of which `list` is the command where none is named: `fedlapse papers [TEXT]`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        named = args and args[0] in (*self.commands, *ctx.help_option_names)
        return super().parse_args(ctx, list(args) if named else ["list", *args])


papers = typer.Typer(
    help="List the experiments of papers; run them at full size.\n\n"
    "`fedlapse papers TEXT` lists those with this text in their name, description or algorithms.",
    cls=Papers,
    add_completion=False,
)


@papers.command("list", cls=Command)
def listed(
    text: Annotated[
        str,
        typer.Argument(metavar="TEXT", help="Only those with this text in their name, description or algorithms."),
    ] = "",
    format: FormatOption = Format.text,
) -> None:
    """List the experiments of the papers, and how far their small versions agree.

    Each is a scenario: `fedlapse compare papers/NAME` runs it in full, and with `--small` in about a minute.

    \b
    Example:
      fedlapse papers list fedcurv
    """
    known = [
        one
        for one in read()
        if any(text.lower() in said.lower() for said in (one["name"], one["says"], *one["algorithms"]))
    ]
    if not known:
        say(f"fedlapse: no setting of the papers has {text!r}; `fedlapse papers` lists all", err=True, tone="bad")
        raise typer.Exit(BAD_INPUT)
    if format is Format.json:
        typer.echo(json.dumps(known, indent=1))
        return
    for one in known:
        typer.echo(one["name"])
        typer.echo(filled(one["says"], columns(), "    "))
        typer.echo(filled(f"{', '.join(one['algorithms'])}; {_published(one)}", columns(), "    "))
        typer.echo(f"    $ {one['command']}\n")


def run(
    *,
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME... [PATH=VALUE]...",
            help="Names that `fedlapse papers` lists, or their beginnings. Values after them are changed, to try it "
            "out; reports leave changed settings out.",
        ),
    ],
    rows: Annotated[
        str,
        typer.Option(
            metavar="LABEL,LABEL",
            help="Only these algorithms. Default: all.",
            show_default=False,
            rich_help_panel=SCENARIO,
        ),
    ] = "",
    seeds: Annotated[
        int, typer.Option(min=1, max=1000, metavar="N", help="How many seeds.", rich_help_panel=SCENARIO)
    ] = 3,
    hours: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            metavar="X",
            help="Start no run that would end later, as far as can be estimated.",
            rich_help_panel=SCENARIO,
            show_default=False,
        ),
    ] = None,
    minutes: Annotated[
        float | None, typer.Option(min=0.0, metavar="X", help="Added to --hours.", rich_help_panel=SCENARIO)
    ] = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="The folder of all results.", rich_help_panel=RESULTS)],
    force: Annotated[
        bool, typer.Option("--force", help="Replace CSVs of other versions of a setting.", rich_help_panel=RESULTS)
    ] = False,
    playing: Playing,
) -> None:
    """Run experiments of the papers at full size, for hours or days.

    Each finished run (one algorithm, one seed) is a CSV of a few kB, DIR/NAME/LABEL-sSEED.csv, and is not run again. A
    CSV of another version of its setting, as with PATH=VALUE, is only replaced with --force. If it was interrupted, the
    same command continues; several can fill one folder. Exit codes: 0, even if the time was too short for all; 2 bad
    input; 130 Ctrl-C.

    \b
    Example:
      fedlapse papers run fedcurv --seeds 1 --hours 8 --out full
    """
    playing.have_workers_ready()
    with told_in_one_line(ValueError):
        with busy("starting"):
            from emulator.sessions.full_runs import FullRuns, settings  # imports torch

        wanted = [row.strip() for row in rows.split(",") if row.strip()]
        found = settings([each for each in names if "=" not in each], [each for each in names if "=" in each])
        playing_all = FullRuns(found, wanted, seeds, out, playing, force)
        limited = hours is not None or minutes is not None
        over = playing_all.play(60.0 * (60.0 * (hours or 0.0) + (minutes or 0.0)) if limited else None)
    for each in over:
        say(f"not begun: {each.text}, {about(playing_all.expected(each))}")
    say(f"{playing_all.done}; `fedlapse papers report {out}` writes the page")


papers.command(cls=Command)(flat(run))


@papers.command(cls=Command)
def report(
    out: Annotated[Path, typer.Argument(metavar="DIR", help="The folder of `fedlapse papers run`.", exists=True)],
) -> None:
    """Write the README of DIR, which compares full-size runs with what was published.

    It also lists commits, machines, and runs that are missing. DIR/NAME/why.txt, if it exists, is shown with its
    setting: the place for a sentence on why something differs.

    \b
    Example:
      fedlapse papers report full
    """
    with told_in_one_line(ValueError):
        with busy("reading the settings"):
            from emulator.results.full_runs import setting
            from emulator.sessions.full_runs import settings  # imports torch
            from emulator.wording.papers_page import full_page

            found = {name: setting(name, scenario, out) for name, scenario in settings([]).items()}
        page = out / "README.md"
        replace_file(page, full_page(found))
    say(f"page: {page}")


def read() -> list[dict[str, Any]]:
    """Returns a dict for each setting of the papers: name, description, algorithms, number of published values, the
    command that plays its small version, and how far that version agrees with the paper (None: not compared)."""
    folder = resources.files("scenarios") / "papers"
    done = folder / "reproduced.json"
    reproduced = json.loads(done.read_text(encoding="utf-8")) if done.is_file() else {}
    names = sorted(file.name.removesuffix(".yaml") for file in folder.iterdir() if file.name.endswith(".yaml"))
    texts = {name: (folder / f"{name}.yaml").read_text(encoding="utf-8") for name in names}
    return [_setting(told(f"papers/{name}", text), reproduced.get(name)) for name, text in texts.items()]


def _setting(scenario: dict[str, Any], reproduced: dict[str, Any] | None) -> dict[str, Any]:
    kept = {key: scenario[key] for key in ("name", "algorithms", "published")}
    small = f"{scenario['command']} --small"
    return {**kept, "says": scenario["says"][0], "reproduced": reproduced, "command": small}


def _published(one: dict[str, Any]) -> str:
    if not one["published"]:
        return "the paper states no number"
    said = f"{one['published']} published number{'s' * (one['published'] != 1)}"
    if not one["reproduced"]:
        return f"{said}, not compared yet"
    counts = one["reproduced"]
    if "same_as" in counts:
        return f"{said}; its small version is the same experiment as that of {counts['same_as']}"
    told = ", ".join(f"{counts[key]} {key}" for key in AGREEMENTS if counts.get(key))
    return f"{said}; small version compared with the baseline: {told or 'nothing to compare'}"
