"""Encodings of a message's floats in fewer bytes, and back.

The arrays of a message are grouped by kind, such as "weights".  An encoding (`float32`, `float16`, `bfloat16`, `int8`,
`int8-sqrt`, `sparse`, `top-0.01`) is a sender's way to write the arrays of one kind.  A coding is the form of one
array; its name takes the place of a plain array's dtype, so that the reader needs no agreement with the sender.  Arrays
of float32 and float64 are encoded, and all but sparse ones decode to float32; other arrays of a kind, such as
BatchNorm's counts, are sent unchanged.  No array takes more bytes than as float32: if its scale or indices would make
it longer, it is written as float32.

Non-finite values stay non-finite, so that payload.check refuses them: float16 and bfloat16 keep NaN and infinity and
round values out of their range to infinity, sparse and top keep them, int8 and int8-sqrt decode to NaN throughout.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from fractions import Fraction
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Floats = NDArray[np.float32]
Coded = tuple[str, bytes | memoryview]  # coding, data
Draws = Callable[[str], np.random.Generator]  # a tensor's name -> the generator of its rounding

INDEX = np.dtype("<u4")
LARGEST = 127  # steps of an int8 in each direction; -128 is never written
SCALED = 2  # smallest number of values of a tensor with a scale: 4 + n bytes are no more than 4 n
NAN_16, NAN_B16 = 0x7E00, 0x7FC0  # the only NaN that is written, in binary16 and in bfloat16
NAN = np.array(0x7FC00000, "<u4").tobytes()  # the scale of a tensor with a non-finite value


@dataclass(frozen=True)
class Encoder:
    """A sender's way to write the arrays of one kind: `code` encodes float32 and float64 arrays, in the order of their
    names."""

    name: str
    lossy: bool  # float32 values may change
    code: Callable[[Mapping[str, Array], Draws], dict[str, Coded]]


@dataclass(frozen=True)
class Coding:
    """The form of one array's data on the wire if they are not plain values."""

    dtype: np.dtype[Any]  # type of the decoded values
    fault: Callable[[bytes, int], str | None]  # of these data for n values: why they are not what we would write
    fill: Callable[[bytes, Array], None]  # writes the values, (n,), from data without fault


def parse(name: str) -> Encoder:
    """Returns the encoding called `name`. Raises ValueError, with the names of all encodings and the most similar one,
    if there is none."""
    if name in ENCODINGS:
        return ENCODINGS[name]
    share = re.fullmatch(r"top-([01](?:\.\d{1,12})?)", str(name))
    if share and 0 < Fraction(share[1]) <= 1:
        fraction = Fraction(share[1])  # exact: 7 % of 100 are 7, but not in binary
        return Encoder(name, True, lambda arrays, _: _top(arrays, fraction))
    near = get_close_matches(str(name), [*ENCODINGS, "top-0.01"], n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise ValueError(
        f"there is no encoding {name!r}; {hint}the encodings are {', '.join(ENCODINGS)} and top-F, which keeps the "
        "fraction F of the values, above 0 and at most 1, as top-0.01"
    )


def encodable(array: Array) -> bool:
    """Returns true if encodings apply to this array, because it is float32 or float64."""
    return array.dtype.kind == "f" and array.dtype.itemsize in (4, 8)


def draws(seed: int, kind: str) -> Draws:
    """Returns a function that makes a random generator from a tensor's name, so that no tensor's rounding depends on
    the others of its kind."""

    def of(name: str) -> np.random.Generator:
        words = hashlib.sha256(repr((seed, kind, name)).encode()).digest()
        return np.random.Generator(np.random.PCG64(int.from_bytes(words[:16], "big")))

    return of


# --- to bytes ---------------------------------------------------------------------------------------------


def _each(code: Callable[[Array, np.random.Generator], Coded]) -> Callable[[Mapping[str, Array], Draws], Any]:
    """Returns a function for Encoder that applies `code` to each tensor independently."""
    return lambda arrays, drawn: {name: code(array, drawn(name)) for name, array in arrays.items()}


def _singles(array: Array) -> Floats:
    """Returns the array's values as float32, (n,), in row order; values out of range become infinite."""
    with np.errstate(over="ignore"):
        return array.astype(np.float32, copy=False).reshape(-1)


def _float32(array: Array, _: np.random.Generator) -> Coded:
    return "float32", _singles(array).astype("<f4", copy=False).tobytes()


def _binary16(array: Array, _: np.random.Generator) -> Coded:
    values = _singles(array)
    with np.errstate(over="ignore"):
        halves = values.astype("<f2").view("<u2")
    halves[np.isnan(values)] = NAN_16
    return "binary16", halves.tobytes()


def _bfloat16(array: Array, _: np.random.Generator) -> Coded:
    """Returns the upper half of each float32 value, rounded to the nearest, and to even in a tie."""
    values = _singles(array)
    bits = values.view(np.uint32)
    upper = (bits + (0x7FFF + (bits >> 16 & 1)) >> 16).astype("<u2")
    upper[np.isnan(values)] = NAN_B16
    return "bfloat16", upper.tobytes()


def _int8(array: Array, rng: np.random.Generator) -> Coded:
    """Returns the values as multiples of max|x| / 127, rounded up or down at random so that the expected value is x."""
    values = _singles(array)
    if len(values) < SCALED:
        return _float32(array, rng)
    steps, scale = _in_steps(np.abs(values))
    low = np.floor(steps)
    return "int8", scale + _rounded(values, low, steps - low, rng)


def _int8_sqrt(array: Array, rng: np.random.Generator) -> Coded:
    """Returns the roots sqrt|x| as multiples of sqrt(max|x|) / 127, with the sign of x, rounded at random so that the
    expected value of their square is |x|."""
    values = _singles(array)
    if len(values) < SCALED:
        return _float32(array, rng)
    steps, scale = _in_steps(np.sqrt(np.abs(values)))
    low = np.floor(steps)
    return "int8-sqrt", scale + _rounded(values, low, (steps - low) * (steps + low) / (2 * low + 1), rng)


def _in_steps(sizes: Floats) -> tuple[Floats, bytes]:
    """Returns each size as a number of steps of one scale, at most 127, and the scale as 4 bytes."""
    largest = sizes.max(initial=np.float32(0))
    if not np.isfinite(largest):
        return np.zeros_like(sizes), NAN
    scale = np.float32(largest / LARGEST)
    if LARGEST * float(scale) < float(largest):  # rounded up, so that no value needs more than 127 steps
        scale = np.nextafter(scale, np.float32(np.inf))
    return sizes / (scale if scale else np.float32(1)), scale.astype("<f4").tobytes()


def _rounded(values: Floats, low: Floats, chance: Floats, rng: np.random.Generator) -> bytes:
    up = rng.random(len(values), np.float32) < chance
    return np.copysign(low + up, values).astype(np.int8).tobytes()


def _top(arrays: Mapping[str, Array], fraction: Fraction) -> dict[str, Coded]:
    """Returns the arrays with only the ⌈F n⌉ values of largest magnitude among all n values of the kind; of equal ones
    the first are kept, all others become 0."""
    values = {name: _singles(array) for name, array in arrays.items()}
    kept = _largest([np.abs(part).view(np.uint32) for part in values.values()], fraction)
    return {name: _kept(part, at) for (name, part), at in zip(values.items(), kept, strict=True)}


def _kept(values: Floats, at: NDArray[np.intp]) -> Coded:
    if 2 * len(at) <= len(values):
        return _indexed("top-float32", values, at)
    dense = np.zeros_like(values)
    dense[at] = values[at]
    return "float32", _little(dense)


def _largest(sizes: list[NDArray[np.uint32]], fraction: Fraction) -> list[NDArray[np.intp]]:
    """Returns, for each array of `sizes`, the indices of its values that are among the largest `fraction` of all
    arrays.  The sizes are the bits of magnitudes: as integers they have the magnitudes' order, with NaN above
    infinity."""
    together = np.concatenate([np.empty(0, np.uint32), *sizes])
    k = ceil(fraction * len(together))
    if k == 0:
        return [np.empty(0, np.intp) for _ in sizes]
    least = np.partition(together, len(together) - k)[len(together) - k]
    spare = k - int(np.count_nonzero(together > least))  # places for values that equal the smallest kept one
    kept = []
    for part in sizes:
        equal = np.flatnonzero(part == least)[:spare]
        spare -= len(equal)
        kept.append(np.union1d(np.flatnonzero(part > least), equal))
    return kept


def _indexed(coding: str, values: Array, at: NDArray[np.intp]) -> Coded:
    return coding, at.astype(INDEX).tobytes() + _little(values[at])


def _sparse(array: Array, _: np.random.Generator) -> Coded:
    """Returns only the values whose bits are not all zero, so that -0.0 is kept, in the shortest of three forms: dense,
    with indices, or with a bitmap."""
    values = array.reshape(-1)
    there = values.view(f"u{values.itemsize}") != 0
    form = _form(values.size, int(np.count_nonzero(there)), values.itemsize)
    if form == "dense":
        return array.dtype.name, _little(values)
    if form == "sparse":
        return _indexed(f"sparse-{array.dtype.name}", values, np.flatnonzero(there))
    flags = np.packbits(there, bitorder="little").tobytes()
    return f"bitmap-{array.dtype.name}", flags + _little(values[there])


def _form(n: int, k: int, itemsize: int) -> str:
    """Returns the name of the form that takes the fewest bytes for n values, k of which are not zero."""
    sizes = {
        "dense": n * itemsize,
        "sparse": k * (INDEX.itemsize + itemsize),
        "bitmap": _flag_bytes(n) + k * itemsize,
    }
    return min(sizes, key=lambda form: sizes[form])


def _little(values: Array) -> bytes:
    return values.astype(values.dtype.newbyteorder("<"), copy=False).tobytes()


def _flag_bytes(n: int) -> int:
    return (n + 7) // 8


# --- from bytes -------------------------------------------------------------------------------------------


def _halves_fault(nan: int, infinity: int) -> Callable[[bytes, int], str | None]:
    def fault(data: bytes, n: int) -> str | None:
        if len(data) != 2 * n:
            return f"has {len(data)} bytes, which is not two for each of its {n} values"
        bits = np.frombuffer(data, "<u2")
        return "holds another NaN than ours" if ((bits & 0x7FFF > infinity) & (bits != nan)).any() else None

    return fault


def _fill_binary16(data: bytes, out: Array) -> None:
    out[...] = np.frombuffer(data, "<f2")


def _fill_bfloat16(data: bytes, out: Array) -> None:
    np.left_shift(np.frombuffer(data, "<u2"), 16, out=out.view(np.uint32), dtype=np.uint32)


def _int8_fault(data: bytes, n: int) -> str | None:
    if len(data) != 4 + n or n < SCALED:
        return f"has {len(data)} bytes; it must be a scale and one for each of its {n} values, of at least {SCALED}"
    scale, steps = np.frombuffer(data, "<f4", 1)[0], np.frombuffer(data, np.int8, offset=4)
    if data[:4] != NAN and (np.signbit(scale) or not np.isfinite(scale)):
        return f"has the scale {scale}; it must be finite and not negative"
    if (steps == -LARGEST - 1).any():
        return f"holds {-LARGEST - 1} steps; the most are {LARGEST} to each side"
    if bool(steps.any()) != bool(scale > 0):
        return f"has the scale {scale}, which does not go with its steps"
    return None


def _fill_int8(data: bytes, out: Array) -> None:
    scale = np.frombuffer(data, "<f4", 1)[0]
    with np.errstate(over="ignore"):
        np.multiply(np.frombuffer(data, np.int8, offset=4), scale, out=out, dtype=np.float32)


def _fill_int8_sqrt(data: bytes, out: Array) -> None:
    _fill_int8(data, out)
    with np.errstate(over="ignore"):
        out *= np.abs(out)


def _index_fault(dtype: np.dtype[Any], exact: bool) -> Callable[[bytes, int], str | None]:
    """Returns a function that names the fault of sparse data, None if there is none.  It always requires that float32
    would not be shorter; if `exact`, also that no value is zero and no other form is shorter."""

    def fault(data: bytes, n: int) -> str | None:
        k, rest = divmod(len(data), INDEX.itemsize + dtype.itemsize)
        if rest or 2 * k > n:
            return f"has {len(data)} bytes, which is no whole number of indices and values, or too many for {n}"
        at = np.frombuffer(data, INDEX, k)
        if k and (int(at[-1]) >= n or (at[1:] <= at[:-1]).any()):
            return f"has indices that do not rise, or reach its {n} values' end"
        return _waste("sparse", np.frombuffer(data, dtype, offset=k * INDEX.itemsize), n) if exact else None

    return fault


def _fill_indexed(dtype: np.dtype[Any]) -> Callable[[bytes, Array], None]:
    def fill(data: bytes, out: Array) -> None:
        k = len(data) // (INDEX.itemsize + dtype.itemsize)
        out[...] = 0
        out[np.frombuffer(data, INDEX, k)] = np.frombuffer(data, dtype, offset=k * INDEX.itemsize)

    return fill


def _bitmap_fault(dtype: np.dtype[Any]) -> Callable[[bytes, int], str | None]:
    def fault(data: bytes, n: int) -> str | None:
        flags = _flag_bytes(n)
        if len(data) < flags:
            return f"has {len(data)} bytes; the flags of its {n} values alone are {flags}"
        bits = np.unpackbits(np.frombuffer(data, np.uint8, flags), bitorder="little")
        k = int(np.count_nonzero(bits))
        if bits[n:].any() or len(data) != flags + k * dtype.itemsize:
            return f"has {len(data)} bytes, which is not what its flags need"
        return _waste("bitmap", np.frombuffer(data, dtype, offset=flags), n)

    return fault


def _fill_bitmap(dtype: np.dtype[Any]) -> Callable[[bytes, Array], None]:
    def fill(data: bytes, out: Array) -> None:
        flags = np.frombuffer(data, np.uint8, _flag_bytes(len(out)))
        out[...] = 0
        there = np.unpackbits(flags, count=len(out), bitorder="little").view(np.bool_)
        out[there] = np.frombuffer(data, dtype, offset=len(flags))

    return fill


def _waste(form: str, values: Array, n: int) -> str | None:
    if not (values.view(f"<u{values.itemsize}") != 0).all():
        return "has zeros among the values that are not zero"
    return None if _form(n, values.size, values.itemsize) == form else "could have been written shorter"


ENCODINGS: dict[str, Encoder] = {
    encoding.name: encoding
    for encoding in (
        Encoder("float32", False, _each(_float32)),
        Encoder("float16", True, _each(_binary16)),
        Encoder("bfloat16", True, _each(_bfloat16)),
        Encoder("int8", True, _each(_int8)),
        Encoder("int8-sqrt", True, _each(_int8_sqrt)),
        Encoder("sparse", False, _each(_sparse)),
    )
}
_SINGLE = np.dtype("<f4")
CODINGS: dict[str, Coding] = {
    "binary16": Coding(_SINGLE, _halves_fault(NAN_16, 0x7C00), _fill_binary16),
    "bfloat16": Coding(_SINGLE, _halves_fault(NAN_B16, 0x7F80), _fill_bfloat16),
    "int8": Coding(_SINGLE, _int8_fault, _fill_int8),
    "int8-sqrt": Coding(_SINGLE, _int8_fault, _fill_int8_sqrt),
    "top-float32": Coding(_SINGLE, _index_fault(_SINGLE, exact=False), _fill_indexed(_SINGLE)),
}
for _dtype in (_SINGLE, np.dtype("<f8")):
    CODINGS[f"sparse-{_dtype.name}"] = Coding(_dtype, _index_fault(_dtype, exact=True), _fill_indexed(_dtype))
    CODINGS[f"bitmap-{_dtype.name}"] = Coding(_dtype, _bitmap_fault(_dtype), _fill_bitmap(_dtype))
