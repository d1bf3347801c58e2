"""`fedlapse report`: results as a page, Markdown, JSON, pictures, or a trace for Perfetto."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from emulator.record.seal import renew
from emulator.record.writing import replace_file
from emulator.report.comparison import MADE_BY
from emulator.report.markdown import markdown
from emulator.results.results import Results, read
from emulator.results.soundness import missing, shared, soundness
from emulator.terminal.errors import told_in_one_line
from emulator.terminal.lines import busy
from emulator.terminal.reliance import soundness_told, tell


class ReportFormat(str, Enum):  # noqa: UP042  typer shows the values of this kind
    html = "html"
    markdown = "markdown"
    json = "json"


def report(
    outs: Annotated[
        list[Path],
        typer.Argument(metavar="RUN", help="Folders that `compare` or `run` wrote; several are compared."),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH", help="File or folder to write. Default: RUN/report.html, or ./report.html for several."
        ),
    ] = None,
    format: Annotated[
        ReportFormat | None,
        typer.Option(help="Default: html. markdown and json are printed, unless --out names a file."),
    ] = None,
    png: Annotated[
        bool, typer.Option("--png", help="Also write the charts next to it, as charts/NAME.svg and .png.")
    ] = False,
    perfetto: Annotated[
        Path | None,
        typer.Option(
            metavar="OUT.json",
            help="Write instead a timeline of devices and server for ui.perfetto.dev.",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite a file that fedlapse did not write.")] = False,
) -> None:
    """Write the report of one or several folders of results.

    Several are shown side by side; the first is the baseline.

    \b
    Example:
      fedlapse report runs/campus-0001 runs/campus-0002 --out both.html
    """
    with told_in_one_line(ValueError):
        if perfetto:
            given = [name for name, value in {"--out": out, "--format": format, "--png": png}.items() if value]
            if given:
                raise ValueError(f"--perfetto OUT.json writes no report; leave out {' and '.join(given)}")
    with soundness_told(outs):
        results = [_read(folder) for folder in outs]
        if perfetto:
            from emulator.report.perfetto import perfetto as traced  # imports altair

            _write(perfetto, traced(results), force, "trace")
            return
        form = format or ReportFormat.html
        path = _path(outs, out, form)
        with busy("making the report"):
            text = _made(results, form, path)
        if path is None:
            typer.echo(text, nl=False)
        else:
            _write(path, text, force)
        if png:
            _draw(results, (path or Path("report")).parent / "charts")


def _read(folder: Path) -> Results:
    found = read(folder)
    gaps = list(missing(found))
    tell(folder, gaps)
    return replace(found, notes=(*soundness(folder).notes, *gaps), shared=shared(found))


def _made(results: Sequence[Results], format: ReportFormat, path: Path | None) -> str:
    if format is ReportFormat.html:
        from emulator.report.page import page  # altair takes a second to import

        return page(results, elsewhere=path is None or path.parent.resolve() != results[0].folder.resolve())
    if format is ReportFormat.markdown:
        return markdown(results)
    from emulator.report.page import plain  # imports altair

    return plain(results)


def _path(outs: Sequence[Path], out: Path | None, format: ReportFormat) -> Path | None:
    """Returns the path of the report's file; None if the report is printed.

    `outs`: the folders of results.  `out`: the option --out, a file or a folder.
    """
    suffixes = {ReportFormat.html: "html", ReportFormat.markdown: "md", ReportFormat.json: "json"}
    name = f"report.{suffixes[format]}"
    if out is not None:
        return out / name if out.is_dir() or not out.suffix else out
    if format is not ReportFormat.html:
        return None
    return outs[0] / name if len(outs) == 1 else Path(name)


def _write(path: Path, text: str, force: bool, what: str = "report") -> None:
    # results, and the page in their folder, are ours even if damaged; other files are not
    ours = path.name == "report.html" and (path.parent / "scenario.yaml").is_file()
    if path.is_file() and not force and not ours and MADE_BY not in path.read_text(errors="replace")[:2000]:
        raise ValueError(f"{path} was not made by fedlapse; give another --out, or --force")
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, text)
    renew(path.parent, [path.name])
    typer.echo(f"{what}: {path}")


def _draw(results: Sequence[Results], folder: Path) -> None:
    from emulator.report.page import pictures  # imports altair

    folder.mkdir(parents=True, exist_ok=True)
    drawn = []
    with busy("drawing the charts"):
        for name, content in pictures(results):
            replace_file(folder / name, content)
            drawn.append(f"{folder.name}/{name}")
    renew(folder.parent, drawn)
    typer.echo(f"charts: {folder}")
