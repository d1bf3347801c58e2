"""Facts about encodings: what they lose, what they weigh, and what is refused of what claims to be encoded."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from math import ceil
from typing import Any

import msgpack
import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as some
from numpy.typing import NDArray

from network.wire.encoding import ENCODINGS, parse
from network.wire.form import RefusedMessage
from network.wire.payload import Message, check, decode, decoded, encode, manifest, sizes, view
from tests.all_of import all_of

few = settings(max_examples=25, deadline=None, derandomize=True)
NAMES = (*ENCODINGS, "top-0.3")
LOSSY = [name for name in NAMES if parse(name).lossy]
shapes = some.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=6)
singles = some.arrays(np.float32, shapes, elements=st.floats(width=32))
finite = some.arrays(np.float32, shapes, elements=st.floats(-(2.0**100), 2.0**100, width=32))
many_zeros = some.arrays(np.float32, shapes, elements=st.just(0.0) | st.floats(width=32), fill=st.just(0.0))
kinds = st.dictionaries(st.sampled_from("abcd"), finite, max_size=4)

Array = NDArray[Any]


def through(array: Array, encoding: str, seed: int = 0) -> Array:
    return decoded("w", {"a": array}, encoding, seed)["a"]


def entry_of(array: Array, encoding: str, seed: int = 0) -> tuple[str, bytes]:
    entry = msgpack.unpackb(encode({"w": {"a": array}}, {"w": encoding}, seed))["w"]["a"]
    return entry["dtype"], entry["data"]


def weight(arrays: Mapping[str, Array], encoding: str) -> int:
    return sizes({"w": arrays}, {"w": encoding})["w"]


# --- names ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "nearest"),
    [("int-8", "int8"), ("bfloat", "bfloat16"), ("sprse", "sparse"), ("top-0,01", "top-0.01"), ("top-2", "top-0.01")],
)
def test_an_unknown_encoding_is_told_with_the_nearest_and_with_all(name: str, nearest: str) -> None:
    with pytest.raises(ValueError, match=f"no encoding '{name}'; did you mean '{nearest}'") as told:
        parse(name)
    assert all_of(known in str(told.value) for known in ENCODINGS)


@pytest.mark.parametrize("name", ["top-0", "top-0.0", "top-1.5", "top--1", "top-1e-2", "top-nan", "top-", "", 8, None])
def test_fractions_outside_0_to_1_and_other_things_are_no_encodings(name: Any) -> None:
    with pytest.raises(ValueError, match="there is no encoding"):
        parse(name)


def test_an_encoding_that_does_not_exist_is_told_before_anything_is_sent() -> None:
    with pytest.raises(ValueError, match="there is no encoding 'int9'"):
        encode({"w": {}}, {"w": "int9"})


def test_encodings_of_kinds_that_the_message_lacks_do_nothing() -> None:
    message = {"w": {"a": np.ones(3, np.float32)}}

    assert encode(message, {"fisher": "int8"}) == encode(message)


# --- what all have in common ------------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", NAMES)
@few
@given(st.dictionaries(st.sampled_from("abcd"), singles, max_size=4))
def test_whatever_is_encoded_decodes_to_float32_of_the_same_shape(encoding: str, arrays: Message) -> None:
    there = decode(encode({"w": arrays}, {"w": encoding}, 3))

    assert manifest(there) == manifest({"w": arrays})  # type: ignore[arg-type, dict-item]
    assert [array.flags.aligned and array.flags.writeable for array in there["w"].values()] == [True] * len(arrays)


@pytest.mark.parametrize("encoding", NAMES)
def test_what_is_not_float32_or_float64_travels_as_it_is(encoding: str) -> None:
    arrays = {
        "count": np.array(7, np.int64),
        "mask": np.array([True, False]),
        "half": np.array([1.5, 70.0], np.float16),
        "weight": np.ones(3, np.float32),
    }

    there = decoded("weights", arrays, encoding)

    for name in ("count", "mask", "half"):
        assert there[name].dtype == arrays[name].dtype
        assert there[name].tobytes() == arrays[name].tobytes()


@pytest.mark.parametrize("encoding", ["float32", *LOSSY])
def test_float64_comes_out_of_all_but_sparse_as_float32(encoding: str) -> None:
    assert through(np.array([0.5, -2.0, 0.0]), encoding).dtype == np.float32


@pytest.mark.parametrize("encoding", NAMES)
@few
@given(kinds, st.integers(0, 2**64))
def test_equal_messages_and_seeds_are_equal_bytes_in_any_order(encoding: str, arrays: Message, seed: int) -> None:
    turned = dict(reversed(arrays.items()))
    one, other = (encode({"w": each}, {"w": encoding}, seed) for each in (arrays, turned))  # type: ignore[dict-item]

    assert one == other
    assert view(one).sizes["w"] + view(one).sizes["frame"] == len(one)


@pytest.mark.parametrize("encoding", NAMES)
def test_byte_order_and_layout_of_the_sender_do_not_show(encoding: str) -> None:
    plain = np.random.default_rng(1).standard_normal((3, 4)).astype(np.float32) * np.eye(3, 4, dtype=np.float32)
    wide = np.zeros((3, 8), np.float32)
    wide[:, ::2] = plain

    for same in (np.asfortranarray(plain), wide[:, ::2], plain.astype(">f4")):
        assert entry_of(same, encoding) == entry_of(plain, encoding)


@pytest.mark.parametrize("encoding", NAMES)
@pytest.mark.parametrize("array", [np.zeros(5), np.zeros((0, 3)), np.array(0.0), np.array(-3.0), np.zeros(0)])
def test_zeros_empty_tensors_and_single_numbers_come_back(encoding: str, array: Array) -> None:
    there = through(array.astype(np.float32), encoding)

    assert there.shape == array.shape
    np.testing.assert_allclose(there, array, rtol=2.0**-22, atol=0)  # 127 steps of a rounded scale


@pytest.mark.parametrize("encoding", NAMES)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_diverged_tensor_arrives_so_that_it_is_refused_by_name(encoding: str, value: float) -> None:
    sound, ill = np.ones(4, np.float32), np.array([1, value, 2, 3], np.float32)

    there = decode(encode({"w": {"ill": ill, "sound": sound}}, {"w": encoding}))

    with pytest.raises(RefusedMessage, match="'w' 'ill' holds a value that is not finite"):
        check(there, manifest({"w": {"ill": ill, "sound": sound}}))
    assert np.isfinite(there["w"]["sound"]).all()


@pytest.mark.parametrize(
    ("encoding", "value"), [("float16", 65520.0), ("bfloat16", 3.4e38), ("float32", 1e39), ("int8", 1e39)]
)
def test_a_number_beyond_the_range_is_refused_too(encoding: str, value: float) -> None:
    there = decode(encode({"w": {"a": np.array([value])}}, {"w": encoding}))

    with pytest.raises(RefusedMessage, match="not finite"):
        check(there, {"w": {"a": ("float32", (1,))}})


@pytest.mark.parametrize("encoding", [*NAMES, "top-0.9", "top-1"])
@few
@given(st.dictionaries(st.sampled_from("abcd"), singles, min_size=1, max_size=4))
def test_no_tensor_becomes_longer(encoding: str, arrays: Message) -> None:
    coded = msgpack.unpackb(encode({"w": arrays}, {"w": encoding}))["w"]  # type: ignore[dict-item]

    assert all_of(len(coded[name]["data"]) <= array.nbytes for name, array in arrays.items())


# --- two bytes --------------------------------------------------------------------------------------------


@few
@given(singles)
def test_float16_is_torchs_half(array: Array) -> None:
    ours, theirs = through(array, "float16"), torch.from_numpy(array).half().float().numpy()

    np.testing.assert_array_equal(ours, theirs)  # NaN equals NaN


@few
@given(singles)
@example(np.array([1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-8 + 2**-20], np.float32))  # ties go to even
def test_bfloat16_is_torchs_bfloat16(array: Array) -> None:
    ours, theirs = through(array, "bfloat16"), torch.from_numpy(array).bfloat16().float().numpy()

    np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("encoding", ["float32", "float16", "bfloat16", "sparse"])
@few
@given(singles)
def test_a_second_journey_changes_nothing(encoding: str, array: Array) -> None:
    once = encode({"w": {"a": array}}, {"w": encoding})

    assert encode(decode(once), {"w": encoding}) == once


# --- int8 -------------------------------------------------------------------------------------------------


def test_int8_is_steps_of_the_largest_over_127() -> None:
    coding, data = entry_of(np.array([127, -127, 0, 5], np.float32), "int8")

    assert coding == "int8"
    assert data == struct.pack("<f4b", 1.0, 127, -127, 0, 5)


def test_int8_sqrt_is_steps_of_the_root() -> None:
    coding, data = entry_of(np.array([127**2, -25, 1, 0], np.float32), "int8-sqrt")

    assert coding == "int8-sqrt"
    assert data == struct.pack("<f4b", 1.0, 127, -5, 1, 0)


@few
@given(finite, st.integers(0, 9))
@example(np.array([1e-45, -3e-45, 1e-38], np.float32), 0)
def test_int8_is_off_by_less_than_a_step(array: Array, seed: int) -> None:
    step = np.abs(array).max(initial=0).astype(np.float64) / 127

    off = np.abs(through(array, "int8", seed).astype(np.float64) - array)

    # A float32 of the scale is at most 2^-23 of it, or 2^-149, above; so is each of 127 of them when rounded.
    assert (off <= step * (1 + 2.0**-15) + 128 * 2.0**-149).all()


@few
@given(finite, st.integers(0, 9))
def test_int8_sqrt_is_off_by_less_than_the_squares_of_neighbours(array: Array, seed: int) -> None:
    root = np.sqrt(np.abs(array.astype(np.float64)))
    step = root.max(initial=0) / 127

    off = np.abs(through(array, "int8-sqrt", seed).astype(np.float64) - array)

    # Between (l s)^2 and ((l + 1) s)^2 with l s <= root: apart by (2 l + 1) s^2
    assert (off <= (2 * root * step + step**2) * (1 + 2.0**-14) + root**2 * 2.0**-18 + 2.0**-148).all()


@pytest.mark.parametrize("encoding", ["int8", "int8-sqrt"])
def test_rounding_by_chance_is_right_on_average(encoding: str) -> None:
    values = np.concatenate([np.random.default_rng(4).standard_normal(30), [0.3, -1e-3, 4.0]]).astype(np.float32)
    times = 400
    total = np.zeros(len(values))
    for seed in range(times):
        total += through(values, encoding, seed)

    # Each rounding is off by a variable of mean 0 that lies within a gap between neighbours, so of deviation
    # at most gap / 2; a mean of 400 is off by 5 deviations of its own less than once in a million.
    top = 4.0
    root = np.sqrt(np.abs(values))
    step = np.sqrt(top) / 127
    gap = top / 127 if encoding == "int8" else 2 * root * step + step**2
    assert (np.abs(total / times - values) <= 5 * gap / 2 / np.sqrt(times)).all()


@pytest.mark.parametrize("encoding", ["int8", "int8-sqrt"])
def test_another_seed_kind_or_name_rounds_otherwise_and_other_tensors_do_not(encoding: str) -> None:
    a = np.random.default_rng(0).standard_normal(200).astype(np.float32)

    def bits(kind: str, name: str, seed: int, **others: Array) -> bytes:
        return decoded(kind, {name: a, **others}, encoding, seed)[name].tobytes()

    assert len({bits("w", "a", 0), bits("w", "a", 1), bits("v", "a", 0), bits("w", "b", 0)}) == 4
    assert bits("w", "b", 5) == bits("w", "b", 5, a=a, z=a)


@pytest.mark.parametrize("encoding", ["int8", "int8-sqrt"])
@few
@given(finite)
def test_no_sign_is_ever_turned(encoding: str, array: Array) -> None:
    assert (through(array, encoding) * np.sign(array) >= 0).all()


def test_the_root_keeps_what_a_wide_range_would_lose() -> None:
    fisher = np.array([1.0, 1e-4, 2e-4], np.float32)

    # A step of int8 is 8e-3, eighty times the small values; of the root 8e-3 too, but they are 1e-2 and 1.4e-2.
    assert (through(fisher, "int8", 1)[1:] == 0).all()
    assert (through(fisher, "int8-sqrt", 1)[1:] > 0).all()


# --- top --------------------------------------------------------------------------------------------------


@few
@given(kinds, st.sampled_from(["0.01", "0.07", "0.3", "0.5", "1"]))
def test_top_keeps_exactly_the_largest_of_the_whole_kind(arrays: Message, fraction: str) -> None:
    there = decoded("w", arrays, f"top-{fraction}")

    together = np.concatenate([[], *(arrays[name].ravel() for name in sorted(arrays))])
    k = ceil(round(float(fraction) * len(together), 9))
    order = np.lexsort((np.arange(len(together)), -np.abs(together)))  # by magnitude, then by position
    expected = np.zeros_like(together)
    expected[order[:k]] = together[order[:k]]
    found = np.concatenate([[], *(there[name].ravel() for name in sorted(arrays))])
    np.testing.assert_array_equal(found, expected)
    # An index and a value for each that is kept, but where all of the tensor's values take no more bytes
    kept = [(np.count_nonzero(expected_part), size) for expected_part, size in parts(expected, arrays)]
    if np.count_nonzero(expected) == k:
        assert weight(arrays, f"top-{fraction}") == sum(8 * n if 2 * n <= size else 4 * size for n, size in kept)


def parts(together: Array, arrays: Message) -> list[tuple[Array, int]]:
    """Each tensor's piece, and its size."""
    sizes = [arrays[name].size for name in sorted(arrays)]  # type: ignore[attr-defined]
    return list(zip(np.split(together, np.cumsum(sizes)[:-1]) if sizes else [], sizes, strict=True))


def test_equals_are_kept_from_the_front() -> None:
    arrays = {"a": np.array([1, 2, -1], np.float32), "b": np.array([1, -1], np.float32)}

    there = decoded("w", arrays, "top-0.6")

    assert there["a"].tolist() == [1, 2, -1]
    assert there["b"].tolist() == [0, 0]


def test_a_fraction_is_meant_in_decimals() -> None:
    assert weight({"a": np.arange(100, dtype=np.float32)}, "top-0.07") == 8 * 7  # 0.07 * 100 > 7 in binary


# --- sparse -----------------------------------------------------------------------------------------------


@few
@given(many_zeros)
@example(np.array([0.0, -0.0, 0.0, 0.0], np.float32))
def test_sparse_loses_no_bit_and_is_never_longer(array: Array) -> None:
    assert through(array, "sparse").tobytes() == array.tobytes()
    assert through(array.astype(np.float64), "sparse").tobytes() == array.astype(np.float64).tobytes()
    assert weight({"a": array}, "sparse") <= array.nbytes


@pytest.mark.parametrize(
    ("nonzero", "coding", "nbytes"),
    [
        (0, "sparse-float32", 0),
        (10, "sparse-float32", 80),
        (31, "sparse-float32", 248),
        (32, "bitmap-float32", 125 + 128),  # 1000 flags; indices would be 128 too
        (968, "bitmap-float32", 125 + 3872),
        (969, "float32", 4000),
        (1000, "float32", 4000),
    ],
)
def test_sparse_takes_the_shortest_of_three_forms(nonzero: int, coding: str, nbytes: int) -> None:
    array = np.zeros(1000, np.float32)
    array[np.random.default_rng(0).permutation(1000)[:nonzero]] = 1

    found, data = entry_of(array, "sparse")

    assert (found, len(data)) == (coding, nbytes)


# --- what they weigh --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("encoding", "nbytes"),
    [("float32", 480), ("float16", 240), ("bfloat16", 240), ("int8", 128), ("int8-sqrt", 128), ("top-0.1", 96)],
)
def test_scales_and_indices_are_charged(encoding: str, nbytes: int) -> None:
    rng = np.random.default_rng(0)
    arrays = {"a": rng.standard_normal((10, 10)).astype(np.float32), "b": rng.standard_normal(20)}

    assert weight(arrays, encoding) == nbytes  # 120 values in 2 tensors


# --- what is refused --------------------------------------------------------------------------------------


def claimed(dtype: str, data: bytes, shape: list[int]) -> bytes:
    return bytes(msgpack.packb({"w": {"a": {"data": data, "dtype": dtype, "shape": shape}}}))


NAN, INF = b"\0\0\xc0\x7f", b"\0\0\x80\x7f"
ONE = struct.pack("<f", 1)


def index(*at: int) -> bytes:
    return struct.pack(f"<{len(at)}I", *at)


HOSTILE = {
    "half a half": claimed("binary16", b"\0", [1]),
    "a half too many": claimed("binary16", b"\0\0\0\0", [1]),
    "another NaN in binary16": claimed("binary16", b"\x01\x7e", [1]),
    "a signalling NaN in bfloat16": claimed("bfloat16", b"\x81\x7f", [1]),
    "a negative NaN in bfloat16": claimed("bfloat16", b"\xc0\xff", [1]),
    "no scale": claimed("int8", b"", [0]),
    "a scale alone": claimed("int8", b"\0\0\0\0", [0]),
    "a scale for one": claimed("int8", ONE + b"\x7f", [1]),
    "a scale cut off": claimed("int8", b"\0\0", [2]),
    "a step too few": claimed("int8", ONE + b"\x7f", [2]),
    "a negative scale": claimed("int8", struct.pack("<f", -1) + b"\x7f\0", [2]),
    "a scale of -0": claimed("int8", struct.pack("<f", -0.0) + b"\0\0", [2]),
    "an infinite scale": claimed("int8-sqrt", INF + b"\x7f\0", [2]),
    "another NaN as scale": claimed("int8", b"\x01\0\xc0\x7f\0\0", [2]),
    "steps of NaN": claimed("int8", NAN + b"\x01\0", [2]),
    "steps of zero": claimed("int8", b"\0\0\0\0\x01\0", [2]),
    "a scale without steps": claimed("int8", ONE + b"\0\0", [2]),
    "minus 128": claimed("int8", ONE + b"\x80\x7f", [2]),
    "an index at the end": claimed("top-float32", index(2) + ONE, [2]),
    "indices where floats are shorter": claimed("top-float32", index(0, 2) + ONE + ONE, [3]),
    "an index twice": claimed("top-float32", index(1, 1) + ONE + ONE, [4]),
    "indices that fall": claimed("top-float32", index(2, 1) + ONE + ONE, [4]),
    "more kept than there are": claimed("top-float32", index(0, 1, 2) + 3 * ONE, [2]),
    "an index without a value": claimed("top-float32", index(0), [2]),
    "indices in an empty tensor": claimed("top-float32", index(0) + ONE, [0]),
    "a zero that is not zero": claimed("sparse-float32", index(1) + b"\0\0\0\0", [9]),
    "indices where flags are shorter": claimed("sparse-float32", index(*range(8)) + 8 * ONE, [32]),
    "indices where all are shorter": claimed("sparse-float32", index(0) + ONE, [1]),
    "flags where indices are shorter": claimed("bitmap-float32", b"\x01" + bytes(11) + ONE, [96]),
    "flags cut off": claimed("bitmap-float32", b"\x01", [16]),
    "a flag beyond the end": claimed("bitmap-float32", b"\x0f\xf1" + 5 * ONE, [12]),
    "a flag without a value": claimed("bitmap-float32", b"\x0f\x01" + 4 * ONE, [12]),
    "a value without a flag": claimed("bitmap-float32", b"\x07\x01" + 5 * ONE, [12]),
    "flags for nothing": claimed("bitmap-float32", b"", [0]),
    "sparse integers": claimed("sparse-int64", b"", [3]),
    "an encoding's name": claimed("sparse", b"", [3]),
    "a bomb": claimed("sparse-float32", b"", [2**31]),
    "a bomb of bombs": claimed("top-float32", b"", [2**31]),
    "a bomb beyond all memory": claimed("sparse-float64", b"", [2**40, 2**40]),
    "a bomb of flags": claimed("bitmap-float32", bytes(16), [2**62]),
    "an empty bomb": claimed("top-float32", b"", [0, 2**63]),
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE.keys())
def test_data_that_no_encoding_would_write_are_refused_in_one_sentence(data: bytes) -> None:
    for read in (decode, view):
        with pytest.raises(RefusedMessage) as refusal:
            read(data)
        assert 0 < len(str(refusal.value)) < 250
        assert str(refusal.value).isprintable()


def test_a_reader_says_how_much_room_a_message_may_take() -> None:
    data = encode({"w": {"a": np.zeros((50, 20), np.float32)}}, {"w": "sparse"})

    assert decode(data, room=4000)["w"]["a"].shape == (50, 20)
    with pytest.raises(RefusedMessage, match="needs 4000 bytes when decoded; at most 3999"):
        decode(data, room=3999)


def sample(rng: np.random.Generator) -> tuple[Message, dict[str, str]]:
    """One kind for each encoding, of dense and sparse tensors."""
    dense = rng.standard_normal((3, 4)).astype(np.float32)
    thin = np.where(rng.random(40) < 0.05, 1, 0).astype(np.float32)
    some_ = np.where(rng.random(40) < 0.4, 1, 0).astype(np.float32)
    arrays = {"dense": dense, "some": some_, "thin": thin, "zero": np.zeros(2, np.float32)}
    return dict.fromkeys(NAMES, arrays), {name: name for name in NAMES}


def mutated(data: bytes, rng: np.random.Generator) -> bytes:
    """A few bytes changed, mostly without a change of length, so that msgpack's frame survives."""
    edited = bytearray(data)
    for at in rng.integers(0, len(edited) - 3, rng.integers(1, 4)):
        if rng.random() < 0.8:
            edited[at] = rng.integers(256)
        else:
            edited[at : at + 1] = rng.bytes(int(rng.integers(0, 3)))
    return bytes(edited)


def only_refused_may_escape(seed: int, cases: int) -> int:
    rng = np.random.default_rng(seed)
    message, encodings = sample(rng)
    exact = {name: name for name in NAMES if name not in ("int8", "int8-sqrt", "top-0.3")}
    data, refused = encode(message, encodings, 1), 0
    for _ in range(cases):
        try:
            there = decode(mutated(data, rng), room=10**6)
        except RefusedMessage:
            refused += 1
            continue
        again = encode({kind: there[kind] for kind in exact if kind in there}, exact)
        assert decode(again).keys() <= there.keys()
        assert all_of(
            a.tobytes() == there[kind][n].tobytes() for kind, arrays in decode(again).items() for n, a in arrays.items()
        )
    return refused


def test_of_mutated_bytes_all_that_is_not_understood_is_refused() -> None:
    assert 0 < only_refused_may_escape(seed=1, cases=150) < 150


@pytest.mark.slow
def test_of_many_mutated_bytes_too() -> None:
    assert 0 < only_refused_may_escape(seed=2, cases=4_000) < 4_000


@pytest.mark.parametrize("encoding", ["float16", "bfloat16", "sparse"])
@few
@given(st.binary(max_size=24), st.integers(0, 12), st.sampled_from(["", "bitmap-float32", "sparse-float32"]))
def test_data_that_decode_are_those_that_encode_writes(encoding: str, data: bytes, n: int, coding: str) -> None:
    codings = {"float16": "binary16", "bfloat16": "bfloat16", "sparse": coding or "float32"}
    message = claimed(codings[encoding], data, [n])
    try:
        there = decode(message)
    except RefusedMessage:
        return
    if codings[encoding] != "float32":  # plain floats are written without an encoding, too
        assert encode(there, {"w": encoding}) == message


def test_every_data_of_two_bytes_decodes_to_what_encodes_to_it_or_is_refused() -> None:
    every = np.arange(2**16, dtype="<u2")
    for encoding, coding, infinity in (("float16", "binary16", 0x7C00), ("bfloat16", "bfloat16", 0x7F80)):
        numbers = every[(every & 0x7FFF) <= infinity]
        message = claimed(coding, numbers.tobytes(), [len(numbers)])
        assert encode(decode(message), {"w": encoding}) == message
        assert len(numbers) == 2 * (infinity + 1)
