"""The plain values of a scenario's text, and the place of each value in the text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError

Loc = tuple[str | int, ...]  # such as ("fleet", 0, "link", "up_mbit_s")
Mark = tuple[int, int]  # line and column, from 0

MOST_VALUES = 50_000  # in a scenario, with aliases expanded: a few hundred are usual
DEEPEST = 20  # levels of nesting; a scenario has at most seven


class Unreadable(ValueError):  # noqa: N818  a state, and not an error
    """The error that a text is not the YAML of a scenario; `mark` is the line and column, if known."""

    def __init__(self, message: str, mark: Mark | None = None) -> None:
        super().__init__(message)
        self.mark = mark


@dataclass
class YamlSource:
    """A scenario as plain values (dict, list, str, int, float, bool, None), with the place of each in the scenario's
    text."""

    name: str  # name of the file, for errors
    text: str = ""
    plain: Any = None
    keys: dict[Loc, Mark] = field(default_factory=dict)  # positions of the keys of mappings
    values: dict[Loc, Mark] = field(default_factory=dict)
    said: dict[Loc, str] = field(default_factory=dict)  # changes from the command line, as typed
    changes: tuple[str, ...] = ()  # all changes in full, in their order
    file: bytes | None = None  # the file as read; None: a built-in scenario, or one from a program

    def mark(self, loc: Loc, of_key: bool = False) -> Mark | None:
        """Returns the line and column of the value at `loc`, or of the nearest value around it; None if the text has
        neither.  `of_key`: that of the value's key."""
        places = (self.keys, self.values) if of_key else (self.values, self.keys)
        for length in range(len(loc), 0, -1):
            for found in (place.get(loc[:length]) for place in places):
                if found is not None:
                    return found
        return None

    def typed(self, loc: Loc) -> str | None:
        """Returns the change on the command line, as typed, that set the value at `loc`, or a value around or inside
        it; None if there is none."""
        made = {} if loc in self.values else {place[: len(loc)]: said for place, said in self.said.items()}
        return made.get(loc) or next((said for place, said in self.said.items() if loc[: len(place)] == place), None)


def read(text: str, name: str) -> YamlSource:
    """Returns the values of a YAML text with their places; `name` is that of the file, for errors.

    Raises Unreadable if it is not YAML, or if anchors are cyclic or expand to more than MOST_VALUES values.
    """
    yaml = YAML(typ="safe", pure=True)
    try:
        node = yaml.compose(text)
        source = YamlSource(name, text)
        if node is not None:
            source.plain = _Reader(yaml.constructor, source).value(node, (), ())
    except MarkedYAMLError as error:
        mark = error.problem_mark
        place = (mark.line, mark.column) if mark else None
        raise Unreadable(f"not YAML: {error.problem}; {_likely(str(error.problem))}", place) from None
    except YAMLError as error:
        raise Unreadable(f"not YAML: {' '.join(str(error).split())}") from None
    except RecursionError:
        raise Unreadable(f"nested deeper than {DEEPEST} levels") from None
    return source


def _likely(problem: str) -> str:
    """Returns the likely cause of an error that the YAML parser notices only later in the text."""
    if "'\\t'" in problem:
        return "indent with spaces, not tabs"
    return "look for a colon, quote or bracket that is missing here or in the line before"


class _Reader:
    """A reader of the nodes of a YAML document, which returns their plain values and notes their places in `source`."""

    def __init__(self, constructor: Any, source: YamlSource) -> None:
        self.constructor, self.source, self.count = constructor, source, 0

    def value(self, node: Any, loc: Loc, around: tuple[int, ...]) -> Any:
        """Returns the plain value of a node of the YAML document, and notes its place.  `around`: the identities of the
        nodes that contain this node."""
        mark = (node.start_mark.line, node.start_mark.column)
        self.source.values.setdefault(loc, mark)
        self.count += 1
        if id(node) in around:
            raise Unreadable("an anchor that contains itself", mark)
        if self.count > MOST_VALUES or len(loc) > DEEPEST:
            raise Unreadable(f"more than {MOST_VALUES} values, or nested deeper than {DEEPEST} levels", mark)
        if node.id == "scalar":
            return self._scalar(node, mark)
        if node.tag not in ("tag:yaml.org,2002:map", "tag:yaml.org,2002:seq"):
            raise Unreadable(f"the tag {node.tag} means nothing here", mark)
        inside = (*around, id(node))
        if node.id == "sequence":
            return [self.value(item, (*loc, number), inside) for number, item in enumerate(node.value)]
        return self._mapping(node, loc, inside)

    def _scalar(self, node: Any, mark: Mark) -> Any:
        try:
            value = self.constructor.construct_object(node)
        except YAMLError:
            raise
        except Exception:  # such as IndexError, for !!int without a value
            kind = node.tag.rpartition(":")[2]
            raise Unreadable(f"not YAML: {node.value[:60]!r} is not of the kind {kind}", mark) from None
        _check_characters(node.value, mark)
        return value if isinstance(value, (str, int, float, bool, type(None))) else node.value  # dates, bytes

    def _mapping(self, node: Any, loc: Loc, inside: tuple[int, ...]) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key, value in node.value:
            mark = (key.start_mark.line, key.start_mark.column)
            if key.id != "scalar":
                raise Unreadable("a key must be a word", mark)
            if key.tag == "tag:yaml.org,2002:merge":
                continue
            _check_characters(key.value, mark)
            if key.value in result:
                first = self.source.keys[*loc, key.value][0] + 1
                raise Unreadable(f"the key {key.value!r} is given twice, first in line {first}", mark)
            self.source.keys.setdefault((*loc, key.value), mark)
            result[key.value] = self.value(value, (*loc, key.value), inside)
        for merged in self._merged(node, loc, inside):
            result = {**merged, **result}
        return result

    def _merged(self, node: Any, loc: Loc, inside: tuple[int, ...]) -> Iterator[Mapping[str, Any]]:
        """Yields the mappings that `<<: *anchor` merges into this one.  The caller gives keys of the mapping itself
        precedence."""
        for key, value in node.value:
            if key.id == "scalar" and key.tag == "tag:yaml.org,2002:merge":
                for one in value.value if value.id == "sequence" else [value]:
                    merged = self.value(one, loc, inside)
                    if not isinstance(merged, dict):
                        raise Unreadable("<< takes a mapping", (one.start_mark.line, one.start_mark.column))
                    yield merged


def _check_characters(text: str, mark: Mark) -> None:
    """Raises Unreadable for halves of surrogate pairs, such as "\\ud83d", which cannot be written as text."""
    half = next((letter for letter in text if "\ud800" <= letter <= "\udfff"), None)
    if half:
        raise Unreadable(f"{half!r} is half a character; write the character itself", mark)
