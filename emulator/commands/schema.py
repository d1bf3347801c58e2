"""`fedlapse schema`: what a scenario file may say, as JSON schema."""

from __future__ import annotations


def schema() -> None:
    """Prints the JSON schema of scenario files (draft 7), for editors: keys, units, options, examples.

    The first line of each scenario names it: # yaml-language-server: $schema=...
    """
    import json

    import typer

    from scenarios.describe import json_schema

    typer.echo(json.dumps(json_schema(), indent=1))
