"""Reads a table of measured training steps: a CSV file with a network, a batch and seconds in each row."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import torch
from torch import Tensor, nn

import devices.data.tv  # noqa: F401  torchvision, which timm imports, may lack operators
from algorithms import models
from algorithms.algorithm import Phase
from algorithms.counting.cost import Meter, sgd_traffic
from algorithms.counting.step_counts import StepCounts
from algorithms.training.copied import on_meta, shapes
from devices.device import Profile
from emulator.forecast.fitting import Cell, Judged, fitted, left_out, overhead, told
from scenarios.builders import plugins
from scenarios.text.faults import BadScenario

NEEDED, FURTHER = ("network", "batch", "seconds"), ("shape", "trains", "software")
SHAPE = re.compile(r"[1-9]\d*(x[1-9]\d*)*( tokens)?")
SHAPES = "such as 3x224x224 for images, 64 for 64 numbers, or `80 tokens` for a text"


@dataclass(frozen=True)
class MeasuredStep:
    """One row of the table: a training step of plain SGD, its counts, and its seconds on the device."""

    network: str
    batch: int
    trains: str  # all | head
    step: StepCounts
    seconds: float
    software: str = ""

    @property
    def name(self) -> str:
        return f"{self.network}, batch {self.batch}{', head only' if self.trains == 'head' else ''}"


@dataclass(frozen=True)
class Fit:
    """A profile that is fitted to a table of measured steps.

    `told`: the rates (fitting.RATES) that the steps tell; the others are those of the profile that it was drawn to,
    times one factor.  `judged`: each step beside the prediction by all other networks; empty if there are none.
    `factors`: how many factors of rates the steps tell, no more than there are steps.
    """

    profile: Profile
    told: Collection[str]
    judged: Sequence[Judged]
    factors: int


def fit(steps: Sequence[MeasuredStep], like: Profile) -> Fit:
    """Returns the profile that fits the steps best, drawn to the rates of `like`.  All steps of a network are left out
    together.

    Raises BadScenario if a step took no longer than what `like` takes to start it: all rates would be endless.
    """
    starts = {each: overhead(each.step, like) for each in steps}
    if short := [f"{each.name}: {each.seconds:g} s, of {s:.3g} s" for each, s in starts.items() if each.seconds <= s]:
        raise BadScenario(
            f"steps that are shorter than the overheads of {like.name} alone: {'; '.join(short)}; --like must name a "
            "profile with smaller ones"
        )
    cells: dict[str, list[Cell]] = {}
    for each in steps:
        cells.setdefault(each.network, []).append((each.step, each.seconds))
    profile = fitted([cell for own in cells.values() for cell in own], like)
    others = {network: iter(seconds) for network, seconds in left_out(cells, like).items()} if len(cells) > 1 else {}
    judged = [(each.name, each.seconds, next(others[each.network])) for each in steps if others]
    tell = told([each.step for each in steps], profile)
    return Fit(profile, tell, judged, min(len({each.step for each in steps}), len(tell)))


def read(path: Path) -> list[MeasuredStep]:
    """Returns the rows of the table.

    Raises OSError if the file cannot be read, and BadScenario, with the line, the column, the value, and what would be
    right, for a row that is wrong.
    """
    try:
        reader = csv.DictReader(path.read_text(encoding="utf-8-sig").splitlines(), strict=True, skipinitialspace=True)
        heads = [head.strip() for head in reader.fieldnames or ()]
        if len({*heads}) < len(heads) or not {*NEEDED} <= {*heads} <= {*NEEDED, *FURTHER}:
            right = f"{','.join(NEEDED)}, with any of {','.join(FURTHER)}"
            _wrong(path, 1, f"the columns are {','.join(heads)!r}", right)
        reader.fieldnames, rows = heads, []
        for line in reader:
            if None in line or None in line.values():
                _wrong(path, reader.line_num, "the row has more or fewer cells than the columns", ",".join(heads))
            rows.append(_row(path, reader.line_num, {column: str(cell).strip() for column, cell in line.items()}))
    except (UnicodeDecodeError, csv.Error) as error:
        raise BadScenario(f"{path} is not a CSV file in UTF-8: {error}") from None
    if not rows:
        raise BadScenario(f"{path} has no measured steps; its rows are {','.join(NEEDED)}")
    return rows


def _wrong(path: Path, line: int, found: str, right: str) -> NoReturn:
    raise BadScenario(f"{path}, line {line}: {found}; it must be {right}")


def _row(path: Path, line: int, cells: Mapping[str, str]) -> MeasuredStep:
    def number(column: str, right: str, least: float) -> float:
        try:
            value = float(cells[column])
        except ValueError:
            value = math.nan
        if not least <= value < 1e6 or value <= 0:
            _wrong(path, line, f"{column} is {cells[column]!r}", right)
        return value

    batch, seconds = (
        number("batch", "a whole number from 1 on", 1),
        number("seconds", "the seconds of one step, positive and below 1e6", 0),
    )
    shape, trains = cells.get("shape", ""), cells.get("trains") or "all"
    if batch % 1:
        _wrong(path, line, f"batch is {cells['batch']!r}", "a whole number from 1 on")
    if trains not in ("all", "head"):
        _wrong(path, line, f"trains is {trains!r}", "all (weights), or head: the last layer alone")
    if shape and not SHAPE.fullmatch(shape):
        _wrong(path, line, f"shape is {shape!r}", SHAPES)
    try:
        step = counted(cells["network"], int(batch), shape, trains)
    except Unshaped as error:
        _wrong(path, line, f"shape is {shape!r}", str(error))
    except (Exception, SystemExit) as error:  # a user's code may raise anything
        said = " ".join(str(error).split())
        advice = f"; {plugins.advice(cells['network'], error)}" if isinstance(error, ModuleNotFoundError) else ""
        raise BadScenario(f"{path}, line {line}: network is {cells['network']!r}: {said}{advice}") from None
    return MeasuredStep(cells["network"], int(batch), trains, step, seconds, cells.get("software", ""))


class Unshaped(ValueError):  # noqa: N818  a state, and not an error
    """The error that a network needs another shape; its message says which."""


def counted(network: str, batch: int, shape: str = "", trains: str = "all") -> StepCounts:
    """Returns the counts of one training step of plain SGD, on torch's meta device.

    `network`: the name of one that comes with fedlapse, `torchvision:NAME`, `timm:NAME`, or a user's own
    `package.module:thing`.  `shape`: of one example, as in SHAPES; "" if the network has only one.  `trains`: "head"
    trains the last layer alone.  Raises Unshaped, and whatever the network's code raises.
    """
    sizes, text = tuple(map(int, shape.split(" ")[0].split("x"))) if shape else (), shape.endswith("tokens")
    model, sizes = _built(network, sizes, text)
    if trains == "head":
        model.requires_grad_(False)
        for layer in _head(model):
            layer.requires_grad_(True)
    trained = sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
    dtype = torch.int64 if text else torch.float32
    with shapes(), torch.no_grad():
        outputs: Tensor = on_meta(model).eval()(torch.empty(2, *sizes, dtype=dtype))
    meter = Meter(model, sizes, models.cross_entropy, dtype, tuple(outputs.shape[1:-1]))
    return meter.step(Phase("train", "batch", batch, batch, traffic=sgd_traffic(trained, 0.0)))


def _built(network: str, shape: tuple[int, ...], text: bool) -> tuple[nn.Module, tuple[int, ...]]:
    """Returns the network and the shape of its examples."""
    library, _, name = network.partition(":")
    usual: Sequence[int] = ()
    if library == "torchvision":
        from torchvision.models import get_model

        with torch.device("meta"):
            model: nn.Module = get_model(name)
    elif library == "timm":
        try:
            import timm
        except ModuleNotFoundError:
            raise ValueError("networks of timm need it here too; `pip install timm`") from None
        with torch.device("meta"):
            model = timm.create_model(name)
        usual = timm.data.resolve_model_data_config(model)["input_size"]
    elif name:
        model = models.build(network, 0, None, shape or None, text)
    else:
        model, usual = models.build(network, 0), models.MODELS[network].input_shape or ()
        if shape and not models.fits(network, shape, text):
            raise Unshaped(f"that of {models.takes(network)}, {SHAPES}")
    if not (shape or usual):
        raise Unshaped(f"that of one example, {SHAPES}")
    return model, shape or tuple(usual)


def _head(model: nn.Module) -> Sequence[nn.Module]:
    """Returns the layers that timm calls the classifier, or the last layer with weights."""
    if classifier := getattr(model, "get_classifier", None):
        last = classifier()
        return last if isinstance(last, tuple) else (last,)
    return [layer for layer in model.modules() if any(True for _ in layer.parameters(recurse=False))][-1:]
