"""`fedlapse schema`: the keys and values of a scenario file, as a JSON schema or as tables."""

from __future__ import annotations

from typing import Annotated

import typer


def schema(
    as_markdown: Annotated[
        bool,
        typer.Option("--markdown", help="Print tables to read: keys, values, defaults and meanings."),
    ] = False,
) -> None:
    """Prints the JSON schema of scenario files (draft 7), for editors: keys, units, options, examples.

    The first line of each scenario names it: # yaml-language-server: $schema=...
    """
    from scenarios.describe import json_schema, text  # torch
    from scenarios.reference import markdown

    typer.echo(markdown(json_schema()) if as_markdown else text())
