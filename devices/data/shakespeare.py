"""Shakespeare's plays by role, character by character."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from devices.data.dataset import Dataset
from devices.data.packed import located, unpacked
from devices.data.token_windows import divided, windows

FILE = "shakespeare_roles.json"
PLACES = ("", "shakespeare")
LIMIT = 1 << 24  # bytes; all plays are 5 million


def shakespeare(root: Path, least: int = 1000, length: int = 80) -> Dataset:
    """Returns next-character prediction; owners are the roles ("hamlet/OPHELIA") with at least `least` characters.

    Examples are a role's lines cut into windows of `length` characters that do not overlap, with a label for each
    position; each role's windows are split 9:1.  Characters of the whole file are numbered from 1 in the order of
    Unicode, so that `least` does not change the numbers; 0 is the unknown character and never occurs.
    shakespeare_roles.json, packed or not, is in `root` or `root`/shakespeare.  Raises FileNotFoundError if it is not,
    ValueError, naming the file, for another form and for arguments that leave no windows. Source: McMahan et al. 2017,
    section 3 (roles); LEAF, Caldas et al. 2018 (80 characters).
    """
    if length < 1:
        raise ValueError(f"length is {length}; it must be 1 or more")
    if least <= 2 * length:
        raise ValueError(f"least is {least}; it must be {2 * length + 1} or more, for two windows of {length} a role")
    [file] = located(root, PLACES, [FILE], ".xz", f"Shakespeare's roles ({FILE})")
    lines = _lines(file)
    alphabet = np.unique(np.concatenate([_codes(said) for said in lines.values()]))
    xs, ys, owners, counts = [], [], [], []
    for role, said in lines.items():
        if len(said) < least:
            continue
        x, y = windows(np.searchsorted(alphabet, _codes(said)) + 1, length)
        xs.append(x)
        ys.append(y)
        owners.append(role)
        counts.append(len(x))
    if not owners:
        raise ValueError(f"{file}: no role has {least} characters; take a smaller `least`")
    owner = np.repeat(np.arange(len(owners)), counts)
    x, y = np.concatenate(xs, dtype=np.int64), np.concatenate(ys, dtype=np.int64)
    return divided("shakespeare", x, y, len(alphabet) + 1, owners, owner)


def _lines(path: Path) -> dict[str, str]:
    """Returns the text of each role, by name.  Raises ValueError for a file of another form."""
    try:
        found: Any = json.loads(unpacked(path, LIMIT))
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"{path}: not JSON ({' '.join(str(error).split())})") from None
    data = found.get("user_data") if isinstance(found, dict) else None
    if not isinstance(data, dict) or not data:
        raise ValueError(f"{path}: no user_data; it must be an object of roles, each with its `raw` text")
    for role, said in data.items():
        if not isinstance(said, dict) or not isinstance(said.get("raw"), str):
            raise ValueError(f"{path}: role {role!r} has no `raw` text")
    return {role: said["raw"] for role, said in data.items()}


def _codes(said: str) -> NDArray[np.uint32]:
    """Returns the Unicode number of each character, (characters,); half a surrogate pair, which JSON may have, counts
    as one."""
    return np.frombuffer(said.encode("utf-32-le", "surrogatepass"), np.uint32)
