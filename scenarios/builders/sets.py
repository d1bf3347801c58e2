"""Reads the data sets that scenarios may name."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from inspect import signature
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from pydantic import ConfigDict, ValidationError, validate_call

from devices.data import own_files
from devices.data.dataset import Dataset
from devices.data.finite import check_finite
from devices.data.recognised import changed, recognised
from scenarios.builders.plugins import UnknownName, thing
from scenarios.builders.recordings import place
from scenarios.builders.transforms import pipeline
from scenarios.schema.scenario import Data
from scenarios.text.faults import BadScenario, did_you_mean

SETS: Mapping[str, str] = {  # imported on demand: some imports take a second
    "babble": "devices.data.babble:babble",
    "cifar10": "devices.data.cifar:cifar10",
    "digits": "devices.data.digits:digits",
    "fashion-mnist": "devices.data.idx:fashion_mnist",
    "femnist": "devices.data.leaf:femnist",
    "leaf-reddit": "devices.data.leaf_text:leaf_reddit",
    "leaf-shakespeare": "devices.data.leaf_text:leaf_shakespeare",
    "mnist": "devices.data.idx:mnist",
    "qmnist": "devices.data.qmnist:qmnist",
    "reddit": "devices.data.reddit:reddit",
    "shakespeare": "devices.data.shakespeare:shakespeare",
}
FORMS: Mapping[str, Callable[..., Any]] = {  # of FORM:WHAT, as folder:birds
    "torchvision": own_files.torchvision,
    "folder": own_files.folder,
    "file": own_files.file,
}
SET = ("data", "set")
OF_THE_DATA = ("root", "download")  # arguments of readers that are keys of their own


def dataset(said: Data) -> Dataset:
    """Returns the data that a scenario names.

    Raises BadScenario if files are missing or damaged, options are wrong, or a value is not finite.
    """
    from algorithms.training.seeding import seeded  # imports torch

    transform = pipeline(said.transform, ("data", "transform")) if said.transform else None
    found = _found(said)
    seeded(0)  # transforms that draw draw the same in each run, and so does a user's own code
    try:
        if not isinstance(found, Dataset):
            made = recognised(said.set, found, said.columns.model_dump(), said.test, transform)
        elif transform:
            made = replace(found, x=changed(found.x, transform), x_test=changed(found.x_test, transform))
        else:
            made = found
    except (Exception, SystemExit) as error:  # data sets of users are their own code
        kind = "" if isinstance(error, ValueError) else f"{type(error).__name__}: "
        raise BadScenario(f"{said.set}: {kind}{' '.join(str(error).split())}", SET) from None
    try:
        check_finite(made)
    except ValueError as error:
        raise BadScenario(str(error), SET) from None
    return made


def _found(said: Data) -> Any:
    """Returns what a scenario names: a Dataset, or what `recognised` makes one of.  Raises BadScenario."""
    form, _, what = said.set.partition(":")
    if not what:
        return _read(said, resolve_name(SETS[said.set]), {})
    if form not in FORMS:
        return _own(said.set, said.options)
    if form == "torchvision":
        return _read(said, FORMS[form], {"name": what})
    return _read(said, FORMS[form], {"path": place(what)})


def _read(said: Data, reader: Callable[..., Any], given: Mapping[str, Any]) -> Any:
    """Returns what a reader makes of the scenario's options and those that are `given`.  Raises BadScenario."""
    takes = signature(reader).parameters
    known = [option for option in takes if option not in (*OF_THE_DATA, *given)]
    for name in () if "options" in takes else said.options:
        if name not in known:
            hint = did_you_mean(name, known) if known else f"{said.set} takes none"
            raise BadScenario(f"there is no option {name!r}; {hint}", ("data", "options", name))
    options = {**said.options, **given}
    if "root" in takes:
        options["root"] = _folder(said)
    if "download" in takes:
        options["download"] = said.download
    try:
        made = validate_call(config=ConfigDict(arbitrary_types_allowed=True))(reader)(**options)
    except ValidationError as error:
        first = error.errors()[0]
        raise BadScenario(f"{first['msg']}, not {first['input']!r}", ("data", "options", *first["loc"])) from None
    except (OSError, ValueError, RuntimeError, ImportError) as error:
        raise BadScenario(" ".join(str(error).split()), ("data",)) from None
    return made


def _folder(said: Data) -> Path:
    root = said.root or os.environ.get("FEDLAPSE_DATA") or "data"
    try:
        return Path(root).expanduser()
    except RuntimeError:
        raise BadScenario(f"there is no such home folder as in {root!r}", ("data", "root")) from None


def _own(path: str, options: Mapping[str, Any]) -> Any:
    from algorithms.training.seeding import seeded  # imports torch

    seeded(0)  # global generators draw the same in each run
    try:
        found = thing(path)
        return found(**options) if callable(found) else found
    except UnknownName as error:
        raise BadScenario(str(error), SET) from None
    except (Exception, SystemExit) as error:  # a user's code may raise anything; its message helps the user
        said = " ".join(str(error).split())
        raise BadScenario(f"{path}() failed: {type(error).__name__}: {said}", SET) from None
