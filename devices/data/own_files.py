"""A user's own files: tables, arrays, and folders of images."""

from __future__ import annotations

import csv
import struct
import zipfile
from collections.abc import Mapping
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
from numpy import ndarray
from numpy.lib import format as npy

from devices.data import tv

TABLES = (".npz", ".csv", ".tsv", ".parquet")
LOCAL_HEADER = 30  # bytes, before a member's name (PKWARE's APPNOTE, 4.3.7)


def torchvision(name: str, root: Path, download: bool = False, **options: Any) -> tuple[Any, Any]:
    """Returns the training and the test part of a class of torchvision.datasets; None if it has no test part.
    `options`: further arguments of the class.  Raises ValueError if there is no such class, and what the class raises.
    """
    kind = getattr(tv.datasets(), name, None)
    if not isinstance(kind, type):
        raise ValueError(f"torchvision.datasets has no class {name!r}")
    takes = signature(kind).parameters
    given = {name: value for name, value in (("root", root), ("download", download)) if name in takes} | options
    parts: list[dict[str, Any]] = [{}]
    if "train" in takes:
        parts = [{"train": True}, {"train": False}]
    elif "split" in takes and "split" not in options:
        parts = [{"split": "train"}, {"split": "val" if name == "ImageNet" else "test"}]
    try:
        train, test = (*(kind(**part, **given) for part in parts), None)[:2]
    except TypeError as error:  # an option that the class does not take
        raise ValueError(f"torchvision.datasets.{name}: {error}") from None
    return train, test


def folder(path: Path) -> tuple[Any, Any]:
    """Returns the images below a folder, which has a folder for each class, as torchvision's ImageFolder; if it has
    folders `train` and `test` (or `val`), each has those of its part.  Raises OSError or ValueError."""
    images = tv.datasets().ImageFolder
    test = next((path / name for name in ("test", "val") if (path / name).is_dir()), None)
    if test is None or not (path / "train").is_dir():
        return images(path), None
    parts = images(path / "train"), images(test)
    if parts[0].classes != parts[1].classes:
        strange = min(set(parts[0].classes) ^ set(parts[1].classes))
        raise ValueError(
            f"{path}: class {strange!r} is in one of train and {test.name} only; both need the same classes"
        )
    return parts


def file(path: Path, test: str | None = None) -> Any:
    """Returns the columns of a table by name, or those of `path` and those of `test`, a file in the same folder.

    Arrays of an npz file that are not compressed are mapped.  Raises OSError or ValueError.
    """
    return _columns(path) if test is None else (_columns(path), _columns(path.parent / test))


def _columns(path: Path) -> Mapping[str, Any]:
    match path.suffix.lower():
        case ".npz":
            return _npz(path)
        case ".csv" | ".tsv":
            return _csv(path)
        case ".parquet":
            return _parquet(path)
    raise ValueError(f"{path} ends in {path.suffix or 'nothing'}; it must end in {', '.join(TABLES)}")


def _npz(path: Path) -> dict[str, ndarray]:
    try:
        with path.open("rb") as raw, zipfile.ZipFile(raw) as members, np.load(path, allow_pickle=False) as arrays:
            plain = {info.filename.removesuffix(".npy"): info for info in members.infolist() if not info.compress_type}
            return {name: _mapped(raw, plain[name]) if name in plain else arrays[name] for name in arrays.files}
    except (zipfile.BadZipFile, KeyError, struct.error) as error:
        raise ValueError(f"{path}: not an npz file ({error})") from None


def _mapped(raw: Any, member: zipfile.ZipInfo) -> ndarray:
    """Returns the array of a member that is not compressed, where it lies in the file."""
    raw.seek(member.header_offset)
    raw.seek(sum(struct.unpack("<HH", raw.read(LOCAL_HEADER)[-4:])), 1)  # its name, and what follows
    major, _ = npy.read_magic(raw)
    shape, fortran, dtype = npy.read_array_header_1_0(raw) if major == 1 else npy.read_array_header_2_0(raw)
    if dtype.hasobject:
        raise ValueError(f"{raw.name}: {member.filename} holds objects; it must hold numbers or texts")
    if not all(shape):
        return np.zeros(shape, dtype)
    return np.memmap(raw.name, dtype, "r", raw.tell(), shape, "F" if fortran else "C")


def _csv(path: Path) -> dict[str, ndarray]:
    with path.open(encoding="utf-8-sig", newline="") as text:
        try:
            header, *rows = csv.reader(text, delimiter="\t" if path.suffix.lower() == ".tsv" else ",", strict=True)
        except (csv.Error, ValueError) as error:
            raise ValueError(f"{path}: not a table ({error})") from None
    for number, row in enumerate(rows, start=2):
        if len(row) != len(header):
            raise ValueError(f"{path}: row {number} has {len(row)} columns, and the header {len(header)}")
    return {name: _typed(column) for name, column in zip(header, zip(*rows, strict=True), strict=bool(rows))}


def _typed(column: tuple[str, ...]) -> ndarray:
    """Returns whole numbers, or else numbers, or else texts."""
    for kind in (np.int64, np.float64):
        try:
            return np.array(column).astype(kind)
        except (ValueError, OverflowError):
            continue
    return np.array(column)


def _parquet(path: Path) -> dict[str, ndarray]:
    try:
        return {column.name: column.to_numpy() for column in import_module("polars").read_parquet(path)}
    except ImportError:
        pass
    try:
        table = import_module("pyarrow.parquet").read_table(path)
    except ImportError:
        raise ValueError(f"{path}: Parquet needs polars or pyarrow; install one, as pip install polars") from None
    return {name: table[name].to_numpy() for name in table.column_names}
