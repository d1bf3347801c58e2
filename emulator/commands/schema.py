"""`fedlapse schema`: the keys and values of a scenario file, as a JSON schema."""

from __future__ import annotations


def schema() -> None:
    """Prints the JSON schema of scenario files (draft 7), for editors: keys, units, options, examples.

    The first line of each scenario names it: # yaml-language-server: $schema=...
    """
    import typer

    from scenarios.describe import text

    typer.echo(text())
