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
    """Print the JSON schema of scenario files, for editors.

    It is of draft 7, with keys, units, options and examples. The first line of a scenario names it:
    # yaml-language-server: $schema=scenario.schema.json

    \b
    Example:
      fedlapse schema > scenario.schema.json
    """
    from scenarios.describe import json_schema, text  # torch
    from scenarios.reference import markdown

    typer.echo(markdown(json_schema()) if as_markdown else text())
