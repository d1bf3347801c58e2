"""`fedlapse new`: a scenario to start from."""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path
from typing import Annotated

import typer

from emulator.record.writing import replace_file
from emulator.terminal.errors import BAD_INPUT, told_in_one_line

SCHEMA = "scenario.schema.json"
FLEET = re.compile(r"^server:.*?(?=\n\n)", re.DOTALL | re.MULTILINE)  # the fleet in a template


def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the scenario: campus writes campus.yaml.")],
    study: Annotated[bool, typer.Option("--study", help="A study's protocol, for `fedlapse study`.")] = False,
    phones: Annotated[
        bool, typer.Option("--phones", help="Fast and slow phones on Wi-Fi.", rich_help_panel="Fleet")
    ] = False,
    pis: Annotated[
        bool, typer.Option("--pis", help="Raspberry Pis that share Wi-Fi and DSL.", rich_help_panel="Fleet")
    ] = False,
    lte: Annotated[
        bool, typer.Option("--lte", help="Phones on LTE and 3G on the move.", rich_help_panel="Fleet")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace a file of that name.")] = False,
) -> None:
    """Write a commented scenario to start from.

    It runs as it is; change the fleet to yours. --phones, --pis and --lte can be combined. It also writes
    scenario.schema.json, with which editors complete keys and check values.

    \b
    Example:
      fedlapse new campus --phones
    """
    stem = name.removesuffix(".yaml")
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}", stem):
        _refuse(f"{name!r} cannot name a scenario; use letters, digits, dots, hyphens and underscores, such as campus")
    file = Path(f"{stem}.yaml")
    if file.exists() and not force:
        _refuse(f"{file} exists already; choose another name, or replace it with --force")
    schema = Path(SCHEMA)
    if schema.is_file() and not force and b'"fleet"' not in schema.read_bytes():  # the key is in each version's
        _refuse(f"{schema} exists already, and is none of fedlapse's; write elsewhere, or replace it with --force")
    shelf = resources.files("scenarios")
    template = shelf.joinpath("study.yaml.txt" if study else "template.yaml.txt").read_text(encoding="utf-8")
    fleets = [kind for kind, asked in {"phones": phones, "pis": pis, "lte": lte}.items() if asked]
    if fleets:
        texts = [shelf.joinpath("fleets", f"{kind}.yaml.txt").read_text(encoding="utf-8") for kind in fleets]
        fleet = mixed(texts) if len(texts) > 1 else texts[0].rstrip("\n")
        template = FLEET.sub(lambda _: fleet, template, count=1)
    with told_in_one_line():
        replace_file(file, template.replace("NAME", stem))
        replace_file(schema, shelf.joinpath(SCHEMA).read_text(encoding="utf-8"))
    typer.echo(f"wrote {file} (and {SCHEMA}, for your editor)")
    if study:
        typer.echo(f"next:  fedlapse study {file} --dry-run    how much would be trained, and how long it takes here")
        typer.echo(f"then:  fedlapse study {file}    which algorithm is fastest, and whether that is significant")
        return
    typer.echo(f"next:  fedlapse check {file}      what a round will cost, without training")
    typer.echo(f"then:  fedlapse compare {file}    which algorithm reaches the target first")


def mixed(fleets: list[str]) -> str:
    """Returns the YAML text of one fleet with the groups of several, which are given as texts.

    The part above `fleet:` (server and topology) comes from the text in which it is longest, because only one of them
    has a topology and all have the same server.
    """
    parts = [re.split(r"^fleet: *(#.*)\n", fleet, maxsplit=1, flags=re.MULTILINE) for fleet in fleets]
    above = max((top for top, _, _ in parts), key=len)
    return above + "fleet:\n" + "".join(f"  {comment}\n{groups}" for _, comment, groups in parts).rstrip("\n")


def _refuse(message: str) -> None:
    typer.echo(f"fedlapse: {message}", err=True)
    raise typer.Exit(BAD_INPUT)
