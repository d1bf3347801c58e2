"""`fedlapse replay`: what finished runs would have cost on other links, or on another fleet."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from emulator.commands.options import BAD_INPUT, Force, Format, FormatOption

if TYPE_CHECKING:
    from emulator.replays.company import Company, Order
    from emulator.replays.conditions import Condition
    from emulator.replays.findings import Finding
    from scenarios.schema import Scenario

OWN = "as recorded"
SEVERAL = ("--down", "--up")


class Several(TyperCommand):
    """A command some of whose options take all words up to the next option."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, list(_repeated(args)))


def _repeated(args: Sequence[str]) -> Iterator[str]:
    """`--down a b` as `--down a --down b`."""
    current = ""
    for number, word in enumerate(args):
        if word.startswith("-"):
            current = word
        elif current in SEVERAL and args[number - 1] != current:
            yield current
        yield word


Run = Annotated[Path, typer.Argument(metavar="RUN", help="A folder that `compare` or `run` wrote, or one run in it.")]
Anyway = Annotated[
    bool, typer.Option("--anyway", help="Go on where a decision comes out otherwise; accuracies stay as recorded.")
]
ServerRate = Annotated[
    str | None, typer.Option(metavar="RATE", help="The server's link, both ways, as 100Mbit/s. Default: as it was.")
]
Fleet = Annotated[
    str | None,
    typer.Option(metavar="SCENARIO", help="Devices, links and server of another scenario. May need the run's data."),
]
Only = Annotated[
    list[str] | None, typer.Option("--algorithm", "-a", help="Only this one, by its label; may be said several times.")
]
Workers = Annotated[int | None, typer.Option(min=0, help="Worker processes. Default: one per core if that pays.")]


def replay(
    run: Run,
    down: Annotated[
        list[str] | None,
        typer.Option(metavar="TRACE...", help="Downlinks of all devices: trace files, folders of them, or 10Mbit/s."),
    ] = None,
    up: Annotated[
        list[str] | None, typer.Option(metavar="TRACE...", help="Uplinks likewise: one, or one each.")
    ] = None,
    up_ratio: Annotated[float | None, typer.Option(min=1e-6, max=1e6, help="Uplink = so much of the downlink.")] = None,
    symmetric: Annotated[bool, typer.Option("--symmetric", help="Uplink = downlink.")] = False,
    latency: Annotated[str | None, typer.Option(metavar="TIME", help="Of all devices, one way, as 40ms.")] = None,
    server_rate: ServerRate = None,
    fleet: Fleet = None,
    algorithm: Only = None,
    anyway: Anyway = False,
    events: Annotated[bool, typer.Option("--events", help="Timelines also where there are several settings.")] = False,
    out: Annotated[Path | None, typer.Option(help="A new folder. Default: runs/NAME-replay-NNNN.")] = None,
    force: Force = False,
    workers: Workers = None,
    format: FormatOption = Format.text,
) -> None:
    """Plays finished runs again, without training, on other links or another fleet.

    Sizes, work and accuracies come from the record; with --down, each trace is a row of the table. A replay is exact
    until a decision comes out otherwise, and stops there. Exit code 2 for bad input.
    """
    with told_in_one_line("replay"):
        from emulator.replays.company import Company, Source

        conditions = _conditions(down or (), up or (), up_ratio, symmetric, latency, server_rate)
        company = Company(Source(run, scenario(fleet), anyway, tuple(algorithm or ())))
        folder = _folder(company, out, force)
        orders = list(_orders(company, conditions, folder, events))
        findings = _findings(company, conditions, orders, workers)
        _keep(company, findings, folder)
        typer.echo(_json(company, findings) if format is Format.json else _text(company, findings, folder))


@contextmanager
def told_in_one_line(command: str) -> Iterator[None]:
    """Whatever is wrong with the input ends a command with one line, and exit code 2."""
    try:
        yield
    except BrokenPipeError:  # who reads has read enough
        raise
    except (OSError, ValueError) as error:  # BadScenario is a ValueError
        typer.echo(f"fedlapse {command}: {' '.join(str(error).split())}", err=True)
        raise typer.Exit(BAD_INPUT) from None


def scenario(name: str | None) -> Scenario | None:
    from emulator.commands.options import scenario_of

    return None if name is None else scenario_of([name])


def _conditions(
    downs: Sequence[str],
    ups: Sequence[str],
    ratio: float | None,
    symmetric: bool,
    latency: str | None,
    server_rate: str | None,
) -> list[Condition]:
    from dataclasses import replace

    from emulator.quantities import RATE, SECONDS
    from emulator.replays.conditions import Condition, Uplink, links_from

    ways = {"--up": bool(ups), "--up-ratio": ratio is not None, "--symmetric": symmetric}
    said = [option for option, given in ways.items() if given]
    if len(said) > 1:
        raise ValueError(f"{' and '.join(said)} are given; an uplink comes from one of them")
    if said and not ups and not downs:
        raise ValueError(f"{said[0]} is said of a downlink; add --down TRACE")
    found = list(links_from(downs, Uplink(ups, ratio, symmetric))) or [Condition("replayed")]
    seconds = None if latency is None else SECONDS.value(latency)
    rate = None if server_rate is None else RATE.value(server_rate)
    return [replace(each, name=name, latency=seconds, server_rate=rate) for name, each in _distinct(found)]


def _distinct(found: Sequence[Condition]) -> Iterator[tuple[str, Condition]]:
    """With names of which each is there once."""
    names: set[str] = set()
    for each in found:
        name, number = each.name, 2
        while name in names:
            name, number = f"{each.name}-{number}", number + 1
        names.add(name)
        yield name, each


def _folder(company: Company, out: Path | None, force: bool) -> Path:
    from emulator.commands.folder import folder

    return folder(out, f"{company.scenario.name}-replay", force)


def _orders(company: Company, conditions: Sequence[Condition], out: Path, events: bool) -> Iterator[Order]:
    """One setting's timelines lie in `out` as those of a run do; several settings have a folder each."""
    from emulator.replays.company import Order

    for condition in conditions:
        where = out if len(conditions) == 1 else out / condition.name.replace("/", "-")
        for number, script in enumerate(company.scripts):
            yield Order(number, condition, where / script.name if len(conditions) == 1 or events else None)


def _findings(
    company: Company, conditions: Sequence[Condition], orders: Sequence[Order], workers: int | None
) -> list[Finding]:
    """The record's first, then one for each condition."""
    from emulator.replays.conditions import loops
    from emulator.replays.findings import finding

    runs = len(company.scripts)
    made = list(company.all(orders, workers))
    findings = [finding(OWN, (), [company.as_recorded(number) for number in range(runs)])]
    for number, condition in enumerate(conditions):
        told = made[number * runs : (number + 1) * runs]
        ends = zip(company.scripts, told, strict=True)
        setting = condition.setting(company.base)
        most = max(loops(setting, script.seed, each.end) for script, each in ends)
        said = [*condition.assumptions, *([company.match] if company.match else [])]
        findings.append(finding(condition.name, said, told, most))
    return findings


def _keep(company: Company, findings: Sequence[Finding], out: Path) -> None:
    """The scenario beside the replays, so that `report` and `audit` read them; and replay.json."""
    from emulator.record import replace_file

    for folder in {out, *(path.parent.parent for path in out.glob("*/*/events.jsonl"))}:
        for name in ("scenario.yaml", "split.json"):
            if (company.home / name).is_file():
                replace_file(folder / name, (company.home / name).read_text(encoding="utf-8"))
    replace_file(out / "replay.json", _json(company, findings) + "\n")


def _json(company: Company, findings: Sequence[Finding]) -> str:
    from emulator.replays.findings import flips

    said = {
        "scenario": company.scenario.name,
        "settings": [each.plain for each in findings],
        "flips": {target: flips(findings, target) for target in findings[0].times},
    }
    return json.dumps(said, indent=1)


def _text(company: Company, findings: Sequence[Finding], out: Path) -> str:
    from emulator.commands.replay_text import text

    return text(company, findings, out)
