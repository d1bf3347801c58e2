"""Loads a scenario from its file, and writes it as YAML.  The objects that it names are made by the modules in
builders/."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from functools import lru_cache
from importlib import resources
from pathlib import Path, PurePosixPath
from typing import Any

from pydantic import ValidationError
from ruamel.yaml import YAML

from scenarios import names, sense
from scenarios.builders import boards, machines, wiring
from scenarios.overrides import change
from scenarios.schema.scenario import Scenario
from scenarios.text.faults import BadScenario, Fault, faults_of, in_one_line, listing, placed, unreadable
from scenarios.text.yaml_source import Unreadable, YamlSource, read

__all__ = ["BadScenario", "build", "dump", "load", "parse", "shipped"]

LARGEST = 1_000_000  # bytes of a scenario file


def load(
    path: str,
    changes: Sequence[str] = (),
    small: bool = False,
    recordings: bool = False,
    algorithms: bool = True,
) -> Scenario:
    """Returns the scenario in a YAML file, with `path=value` changes; a bare name is a built-in scenario.

    `small`: first applies the changes under the scenario's own `small:`; `recordings`: also reads recordings of links
    and tries the fleet; `algorithms`: checks the options of algorithms, last, because that imports torch.  Raises
    BadScenario, which lists all faults with their places.
    """
    text, file = _read(path)
    scenario = parse(text, path, changes, small, recordings, algorithms)
    assert scenario.source
    scenario.source.file = file
    return scenario


def parse(
    text: str,
    where: str,
    changes: Sequence[str] = (),
    small: bool = False,
    recordings: bool = False,
    algorithms: bool = True,
) -> Scenario:
    """Returns the scenario in a YAML text; `where` names the text in errors.  The other arguments are those of `load`.
    Raises BadScenario."""
    try:
        source = read(text, where)
    except Unreadable as error:
        raise unreadable(YamlSource(where, text), str(error), error.mark) from None
    if not isinstance(source.plain, dict):
        held = "nothing" if source.plain is None else f"a {type(source.plain).__name__}"
        raise BadScenario(f"{in_one_line(where)}: a scenario is a mapping with `name:` and `fleet:`; this holds {held}")
    return _made(source, changes, small, recordings, algorithms)


def _made(source: YamlSource, changes: Sequence[str], small: bool, recordings: bool, algorithms: bool) -> Scenario:
    source.changes = (*(_small(source) if small else ()), *changes)
    change(source, source.changes)
    scenario = _checked(source, algorithms=False)
    if recordings:
        if faults := list(wiring.faults(scenario)):
            raise listing(source, faults)
        with placed(source):
            machines.fleet(scenario)
    if algorithms and (faults := _of_algorithms(scenario)):
        raise listing(source, faults)
    vars(scenario)["source"] = source
    return scenario


def recorded(out: Path) -> Scenario:
    """Returns the scenario that a command has written to the folder of results OUT, with every default.

    It is not checked again, because that would run the code of plug-ins and import torch.  Raises ValueError or OSError
    if it cannot be read.
    """
    path = out / "scenario.yaml"
    if not path.is_file():
        raise ValueError(f"there is no {path.name} next to the run")
    return _recorded(path.read_text(encoding="utf-8"), path.name)


@lru_cache(maxsize=4)  # all runs of a folder share one
def _recorded(text: str, name: str) -> Scenario:
    plain = read(text, name).plain
    try:
        scenario = Scenario.model_validate_json(json.dumps(plain, default=str))
    except (ValueError, TypeError, RecursionError):
        raise ValueError(f"{name} is not as `fedlapse compare` writes it") from None
    if isinstance(scenario.profiles, str):
        raise ValueError(f"{name} names a file of profiles; that of a run has them written out")
    named = {scenario.server.profile, *(group.profile for group in scenario.fleet)}
    if strange := named - boards.known(scenario).keys():
        raise ValueError(f"there is no profile {min(strange)!r}")
    return scenario


def _small(source: YamlSource) -> list[str]:
    said = source.plain.get("small")
    if not isinstance(said, dict) or not said:
        raise BadScenario(f"{in_one_line(source.name)} has no `small:`, so there is no quick version of it")
    return [f"{path}={json.dumps(value, default=str)}" for path, value in said.items()]


def build(raw: Mapping[str, Any], where: str = "scenario") -> Scenario:
    """Returns a scenario from plain values, checked as far as possible without reading data.  Raises BadScenario."""
    return _checked(YamlSource(where, plain=raw))


def given(
    scenario: Mapping[str, Any] | Scenario, changes: Sequence[str] = (), small: bool = False, algorithms: bool = True
) -> Scenario:
    """Returns the scenario that a program has passed, with `path=value` changes.  Its recordings are read, too; errors
    name no place in a text.

    The other arguments are those of `load`.  Raises BadScenario.
    """
    raw = plain(scenario) if isinstance(scenario, Scenario) else scenario
    try:
        source = YamlSource("scenario", plain=json.loads(json.dumps(raw, default=str)))
    except (ValueError, TypeError, RecursionError) as error:
        raise BadScenario(f"scenario: {error}") from None
    return _made(source, changes, small, True, algorithms)


def dump(scenario: Scenario) -> str:
    """Returns the scenario as YAML with every default; `parse` reads it back as an equal scenario.

    The text of the last scenario is cached, because a command needs it two or three times.
    """
    global _written
    known = _written
    if known is None or known[0] is not scenario:  # an equal one may have its keys in another order
        _written = known = scenario, _text_of(scenario)
    return known[1]


_written: tuple[Scenario, str] | None = None


def plain(scenario: Scenario) -> dict[str, Any]:
    """Returns the scenario as dicts, lists, strings and numbers, with every default."""
    found = scenario.model_dump(mode="json")
    found["algorithms"] = [{entry.key: dict(entry.options), "name": entry.name} for entry in scenario.algorithms]
    return found


def _text_of(scenario: Scenario) -> str:
    text = io.StringIO()
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = None
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    yaml.dump(plain(scenario), text)
    return text.getvalue()


def shipped() -> dict[str, str]:
    """Returns the scenarios that come with fedlapse: name -> text."""
    return {**_in_folder(""), **_in_folder("benchmarks"), **_in_folder("papers"), **_in_folder("studies")}


def _in_folder(folder: str) -> dict[str, str]:
    files = resources.files("scenarios").joinpath(folder).iterdir()
    here = {Path(file.name).stem: file for file in files if file.name.endswith(".yaml")}
    return {str(PurePosixPath(folder, name)): here[name].read_text(encoding="utf-8") for name in sorted(here)}


def _read(path: str) -> tuple[str, bytes | None]:
    """Returns the text and the bytes of a file, which is read only once because it may be a pipe; or the text of a
    built-in scenario, and None.  Raises BadScenario."""
    name = in_one_line(path)
    try:
        if not Path(path).exists() and path in (known := shipped()):
            return known[path], None
        with Path(path).open("rb") as file:
            data = file.read(LARGEST + 1)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise BadScenario(f"cannot read {name}: {why}; {_near(path)}") from None
    if len(data) > LARGEST:
        raise BadScenario(f"{name} is larger than {LARGEST / 1e6:g} MB; a scenario has a few kB")
    try:
        return data.decode("utf-8-sig"), data
    except UnicodeDecodeError:
        raise BadScenario(f"{name} is not UTF-8 text; save it with that encoding") from None


def _near(path: str) -> str:
    """Returns a hint for a path that is no scenario: the scenario with the most similar name, ignoring endings, or the
    command that lists all."""
    names = {Path(name).with_suffix("").as_posix(): name for name in (*shipped(), *map(str, Path().glob("*.yaml")))}
    near = get_close_matches(Path(path).with_suffix("").as_posix(), names, n=1, cutoff=0.8)
    return f"did you mean {names[near[0]]}?" if near else "`fedlapse scenarios` lists those with a name"


def _checked(source: YamlSource, algorithms: bool = True) -> Scenario:
    _write_out_profiles(source)
    unknown = names.faults(source.plain)
    try:
        # JSON mode accepts a YAML list for a tuple of the schema
        scenario = Scenario.model_validate_json(json.dumps(source.plain, default=str))
    except ValidationError as error:
        raise listing(source, [*faults_of(error, Scenario), *unknown]) from None
    except (ValueError, TypeError, RecursionError) as error:
        raise BadScenario(f"{source.name}: {error}") from None
    if faults := [*unknown, *sense.faults(scenario)]:
        raise listing(source, faults)
    if algorithms and (faults := _of_algorithms(scenario)):
        raise listing(source, faults)
    return scenario


def _of_algorithms(scenario: Scenario) -> list[Fault]:
    """Returns the faults that the algorithms' own classes find in their options.  This imports torch, so it comes after
    all other checks."""
    from scenarios.builders import plugins, selections

    entries = enumerate(scenario.algorithms)
    shared, rounds = scenario.training, scenario.rounds
    found = [fault for n, entry in entries for fault in plugins.faults(entry, shared, ("algorithms", n), rounds)]
    return [*found, *selections.faults(scenario)]


def _write_out_profiles(source: YamlSource) -> None:
    """Replaces the name of a file of hardware profiles by its content, so that the stored scenario needs no other
    file."""
    said = source.plain.get("profiles")
    if isinstance(said, str):
        try:
            source.plain = {**source.plain, "profiles": boards.written_out(said)}
        except BadScenario as error:
            raise listing(source, [Fault(("profiles",), str(error))]) from None
