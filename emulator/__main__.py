"""The command line.  It only joins the commands."""

from __future__ import annotations

import typer

from emulator.commands.audit import audit
from emulator.commands.compare import compare
from emulator.commands.run import run

app = typer.Typer(
    name="fedlapse",
    help="How long does federated training take on my devices? Real training under a virtual clock.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (compare, run, audit):
    app.command()(command)


def main() -> None:
    app()


if __name__ == "__main__":
    main()
