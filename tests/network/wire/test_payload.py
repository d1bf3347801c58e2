"""Facts about messages as bytes: what is written, what is refused, and that nothing else can happen."""

from __future__ import annotations

import struct
from typing import Any

import msgpack
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as some
from msgpack.fallback import Unpacker

from network.wire.envelope import envelope_bytes, pack, unpack
from network.wire.form import NotFinite, RefusedMessage
from network.wire.payload import (
    DTYPES,
    Message,
    check,
    decode,
    digest,
    encode,
    encoded,
    manifest,
    sizes,
    trusted,
    view,
)

few = settings(max_examples=25, deadline=None, derandomize=True)
arrays = st.sampled_from(sorted(DTYPES)).flatmap(
    lambda dtype: some.arrays(dtype, some.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
)
names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8).filter(lambda name: name != "frame")
messages = st.dictionaries(names, st.dictionaries(names, arrays, max_size=3), max_size=3)

# one kind "w" with one array "a", uint8 [1, 2]; written by hand from the msgpack specification
SMALL: Message = {"w": {"a": np.array([1, 2], np.uint8)}}
SMALL_BYTES = b"\x81\xa1w\x81\xa1a\x83\xa4data\xc4\x02\x01\x02\xa5dtype\xa5uint8\xa5shape\x91\x02"


def example() -> Message:
    rng = np.random.default_rng(7)
    return {
        "weights": {
            "conv.weight": rng.standard_normal((4, 3)).astype(np.float32),
            "bias": np.zeros(3, np.float64),
            "steps": np.array(5, np.int64),
        },
        "fisher": {"conv.weight": rng.random((4, 3)).astype(np.float16), "mask": np.array([True, False])},
        "empty": {},
    }


def bits(message: Message) -> dict[str, dict[str, Any]]:
    return {
        kind: {name: (array.dtype, array.shape, array.tobytes()) for name, array in arrays.items()}
        for kind, arrays in message.items()
    }


# --- what is written --------------------------------------------------------------------------------------


def test_the_bytes_are_those_of_the_specification() -> None:
    assert encode(SMALL) == SMALL_BYTES


@pytest.mark.parametrize("size", [65535, 65536])
def test_pieces_are_what_msgpack_packs(size: int) -> None:
    """Bytes whose length has 16 bits, and the least whose length has 32: these are not copied."""
    arrays = {"a": np.arange(size, dtype=np.uint8), "b": np.ones((2, 3), np.float32), "c": np.zeros(size, np.uint8)}
    entries = {
        name: {"data": array.tobytes(), "dtype": array.dtype.name, "shape": list(array.shape)}
        for name, array in arrays.items()
    }
    found = encoded({"weights": arrays})
    assert found.data == msgpack.packb({"weights": entries})
    assert found.nbytes == len(found.data)
    assert sum(np.shares_memory(np.frombuffer(piece, np.uint8), arrays["a"]) for piece in found.pieces) == size // 65536


@few
@given(messages)
def test_decoding_gives_back_every_bit(message: Message) -> None:
    assert bits(decode(encode(message))) == bits(message)


@few
@given(messages)
def test_the_other_implementation_of_msgpack_reads_the_same(message: Message) -> None:
    reader = Unpacker(raw=False, strict_map_key=True)
    reader.feed(encode(message))
    tree = reader.unpack()

    assert {
        kind: {name: (np.dtype(e["dtype"]), tuple(e["shape"]), e["data"]) for name, e in entries.items()}
        for kind, entries in tree.items()
    } == bits(message)


def test_equal_messages_are_equal_bytes_whatever_their_order() -> None:
    message = example()
    turned = {kind: dict(reversed(message[kind].items())) for kind in reversed(message)}

    assert encode(turned) == encode(message)


def test_memory_layout_and_byte_order_of_the_sender_do_not_show() -> None:
    plain = np.arange(12, dtype=np.float32).reshape(3, 4)
    wide = np.zeros((3, 8), np.float32)
    wide[:, ::2] = plain
    for same in (np.asfortranarray(plain), wide[:, ::2], plain.astype(">f4")):
        assert encode({"w": {"a": same}}) == encode({"w": {"a": plain}})


@pytest.mark.parametrize("length", range(1, 18))
def test_arrays_are_aligned_and_writable_copies_wherever_they_lay_in_the_buffer(length: int) -> None:
    data = encode({"w": {"n" * length: np.ones((3, 5), np.float32), "z": np.ones(2, np.uint8)}})

    for array in decode(data)["w"].values():
        assert array.__array_interface__["data"][0] % 64 == 0
        assert array.flags.aligned
        assert array.flags.writeable
        assert array.flags.c_contiguous
        assert not np.shares_memory(array, np.frombuffer(data, np.uint8))
        array += 1  # and that writing leaves the bytes as they were
    assert decode(data)["w"]["z"].tolist() == [1, 1]


def test_a_matrix_product_has_the_same_bits_after_a_journey() -> None:
    rng = np.random.default_rng(3)
    w, x = rng.standard_normal((33, 17)).astype(np.float32), rng.standard_normal(17).astype(np.float32)
    for length in range(1, 9):
        there = decode(encode({"w": {"n" * length: w}}))["w"]["n" * length]
        assert (there @ x).tobytes() == (w @ x).tobytes()


@pytest.mark.parametrize("dtype", ["complex64", "uint16", "int8", "datetime64[s]", "U3", "object"])
def test_dtypes_outside_the_list_are_refused(dtype: str) -> None:
    with pytest.raises(ValueError, match="'w' 'a' has dtype"):
        encode({"w": {"a": np.zeros(2, dtype)}})


def test_what_decoding_would_refuse_is_not_encoded() -> None:
    one = np.zeros(1, np.float32)
    for message in (
        {"frame": {"a": one}},
        {"": {"a": one}},
        {"w": {"n" * 257: one}},
        {"w": {"\ud800": one}},
        {"w": {7: one}},
        {"w": {"a": 1.0}},
        {"w": {str(n): one for n in range(4097)}},
    ):
        with pytest.raises(RefusedMessage):
            encode(message)  # type: ignore[arg-type]


# --- what it weighs ---------------------------------------------------------------------------------------


def test_the_frame_is_what_the_tensors_are_not() -> None:
    assert sizes(SMALL) == {"w": 2, "frame": len(SMALL_BYTES) - 2}
    assert sizes({}) == {"frame": 1}  # msgpack writes an empty map as one byte
    assert sizes(example()) == {
        "weights": 4 * 12 + 8 * 3 + 8,
        "fisher": 2 * 12 + 2,
        "empty": 0,
        "frame": len(encode(example())) - 106,
    }


@few
@given(messages)
def test_sizes_add_up_to_the_encoded_length(message: Message) -> None:
    assert sum(sizes(message).values()) == len(encode(message))
    assert view(encode(message)).sizes == sizes(message)
    assert sizes(message) == {
        **{kind: sum(array.nbytes for array in arrays.values()) for kind, arrays in message.items()},
        "frame": sizes(message)["frame"],
    }


def test_a_digest_is_blake3() -> None:
    # The first test vector of https://github.com/BLAKE3-team/BLAKE3: no input.
    assert digest(b"") == "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"


# --- what is refused --------------------------------------------------------------------------------------


def entry(**other: object) -> bytes:
    """A message as a stranger may write it: SMALL, with other contents."""
    fields = {"data": b"\x01\x02", "dtype": "uint8", "shape": [2]} | other
    return bytes(msgpack.packb({"w": {"a": {key: fields[key] for key in sorted(fields)}}}))


HOSTILE = {
    "nothing": b"",
    "trailing bytes": SMALL_BYTES + b"\xc0",
    "two objects": SMALL_BYTES * 2,
    "a list": b"\x90",
    "an int": b"\x05",
    "a kind that is a list": b"\x81\xa1w\x90",
    "an entry that is a list": b"\x81\xa1w\x81\xa1a\x93\x01\x02\x03",
    "an entry that is raw bytes": b"\x81\xa1w\x81\xa1a\xc4\x01\x00",
    "a key that is an int": b"\x81\x01\x80",
    "a key that is bytes": b"\x81\xc4\x01w\x80",
    "a key that is nil": b"\x81\xc0\x80",
    "a key that is not UTF-8": b"\x81\xa1\xff\x80",
    "an empty key": b"\x81\xa0\x80",
    "the same kind twice": b"\x82\xa1w\x80\xa1w\x80",
    "kinds out of order": b"\x82\xa1x\x80\xa1w\x80",
    "a kind named frame": b"\x81\xa5frame\x80",
    "an extension": b"\x81\xa1w\xd4\x05\x00",
    "an empty extension": b"\x81\xa1w\xc7\x00\x05",
    "a timestamp": b"\x81\xa1w\xd6\xff\x00\x00\x00\x00",
    "a longer form than needed": b"\xde\x00\x00",
    "an int in a longer form": SMALL_BYTES[:-1] + b"\xcc\x02",
    "an unknown key": entry(extra=1),
    "a key too few": SMALL_BYTES.replace(b"\x83\xa4data\xc4\x02\x01\x02", b"\x82"),
    "another key": SMALL_BYTES.replace(b"\xa5shape", b"\xa5shapf"),
    "data as text": entry(data="ab"),
    "data as nil": entry(data=None),
    "an unknown dtype": entry(dtype="uint16"),
    "a dtype that names a class": entry(dtype="object"),
    "a dtype in bytes": entry(dtype=b"uint8"),
    "a dtype that cannot be hashed": entry(dtype=[]),
    "a shape that is an int": entry(shape=2),
    "a bool in the shape": entry(data=b"\x01", shape=[True]),
    "a float in the shape": entry(shape=[2.0]),
    "a negative shape": entry(shape=[-1, -2]),
    "a shape too large": entry(shape=[3]),
    "a shape too small": entry(shape=[1]),
    "a huge shape": entry(shape=[2**63]),
    "a shape whose product wraps to 2": entry(shape=[2**32 + 1, 2**32, 2]),
    "a shape whose product wraps to 0": entry(data=b"", shape=[2**32, 2**32]),
    "an empty array with a huge dimension": entry(data=b"", shape=[0, 2**63]),
    "too many dimensions": entry(shape=[2] + [1] * 64),
    "bytes that are no whole number of floats": entry(dtype="float32", shape=[1]),
    "a bool that is 2": entry(dtype="bool"),
    "a string that promises 4 GiB": b"\xdb\xff\xff\xff\xff",
    "bytes that promise 4 GiB": b"\x81\xa1w\xc6\xff\xff\xff\xff",
    "an array that promises 10 million": b"\xdd\x00\x98\x96\x80",
    "a map that promises 10 million": b"\xdf\x00\x98\x96\x80",
    "nesting without end": b"\x91" * 100_000,
    "maps without end": b"\x81\xa1w" * 100_000,
    "large arrays in large arrays": b"\xdd\x00\x0f\x42\x40" * 200_000,
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE.keys())
def test_strange_bytes_are_refused_in_one_sentence(data: bytes) -> None:
    for read in (decode, view):
        with pytest.raises(RefusedMessage) as refusal:
            read(data)
        assert 0 < len(str(refusal.value)) < 200
        assert str(refusal.value).isprintable()


def test_a_message_over_the_limit_is_refused() -> None:
    assert bits(decode(SMALL_BYTES, limit=len(SMALL_BYTES))) == bits(SMALL)
    with pytest.raises(RefusedMessage, match=f"at most {len(SMALL_BYTES) - 1}"):
        decode(SMALL_BYTES, limit=len(SMALL_BYTES) - 1)


@few
@given(messages)
def test_a_trusted_message_is_seen_as_if_it_were_checked(message: Message) -> None:
    data = encode(message)
    seen, checked = trusted(data), view(data)
    assert seen.sizes == checked.sizes
    assert bits(seen.arrays()) == bits(checked.arrays()) == bits(message)
    for kind, arrays in message.items():
        assert bits({kind: {name: seen.array(kind, name) for name in arrays}}) == bits({kind: arrays})


def with_bias(*values: float) -> Message:
    return {**example(), "weights": {**example()["weights"], "bias": np.array(values)}}


@pytest.mark.parametrize(
    ("message", "fault", "text"),
    [
        (example(), None, ""),
        (with_bias(1.0, np.nan, 0.0), NotFinite, "'weights' 'bias' holds a value that is not finite"),
        (with_bias(1.0, -np.inf, 0.0), NotFinite, "'weights' 'bias' holds a value that is not finite"),
        (with_bias(-np.inf, 0.0, np.inf), NotFinite, "'weights' 'bias' holds a value that is not finite"),
        (with_bias(1.7e308, 1.7e308, 1.7e308), None, ""),
        (with_bias(1.0, 0.0), RefusedMessage, r"'weights' 'bias' is float64 \(2,\); it must be float64 \(3,\)"),
        ({"weights": example()["weights"]}, RefusedMessage, "the message lacks 'empty'"),
        (with_bias(*range(2000)), RefusedMessage, "needs 16[0-9]{3} bytes when decoded; at most"),
    ],
)
def test_a_view_is_checked(message: Message, fault: type[RefusedMessage] | None, text: str) -> None:
    shapes = manifest(example())
    seen = view(encode(message))
    if fault is None:
        seen.check(shapes)
    else:
        with pytest.raises(fault, match=text) as refusal:
            seen.check(shapes)
        assert type(refusal.value) is fault


def test_an_empty_array_keeps_its_shape() -> None:
    assert decode(encode({"w": {"a": np.zeros((0, 3), np.int32)}}))["w"]["a"].shape == (0, 3)


def mutated(data: bytes, rng: np.random.Generator) -> bytes:
    """One to three random edits: a byte changed, cut off, cut out, repeated."""
    edited = bytearray(data)
    for _ in range(rng.integers(1, 4)):
        at, until = sorted(int(n) for n in rng.integers(0, len(edited) + 1, 2))
        match rng.integers(5):
            case 0:
                edited = edited[:at]
            case 1:
                edited[at : at + 1] = rng.bytes(1)
            case 2:
                edited[at:at] = rng.bytes(int(rng.integers(1, 9)))
            case 3:
                del edited[at : min(until, at + 8)]
            case 4:
                edited[at:at] = edited[at:until]
    return bytes(edited)


def only_refused_may_escape(seed: int, cases: int) -> int:
    rng = np.random.default_rng(seed)
    data, refused = encode(example()), 0
    for _ in range(cases):
        strange = mutated(data, rng)
        try:
            message = decode(strange)
        except RefusedMessage:
            refused += 1
        else:
            assert encode(message) == strange
    return refused


def test_of_mutated_bytes_some_decode_to_what_encodes_to_them_and_all_others_are_refused() -> None:
    assert 0 < only_refused_may_escape(seed=1, cases=3000) < 3000


@pytest.mark.slow
def test_of_many_mutated_bytes_too() -> None:
    assert 0 < only_refused_may_escape(seed=2, cases=60_000) < 60_000


def test_every_truncation_is_refused() -> None:
    data = encode(example())
    for length in range(len(data)):
        with pytest.raises(RefusedMessage):
            decode(data[:length])


def test_every_single_changed_bit_is_refused_or_seen() -> None:
    data = encode(example())
    for place in range(8 * len(data)):
        strange = bytearray(data)
        strange[place // 8] ^= 1 << place % 8
        try:
            message = decode(bytes(strange))
        except RefusedMessage:
            continue
        assert bits(message) != bits(example())


# --- the manifest -----------------------------------------------------------------------------------------


def test_a_message_passes_its_own_manifest() -> None:
    check(decode(encode(example())), manifest(example()))
    assert manifest(SMALL) == {"w": {"a": ("uint8", (2,))}}


def altered(kind: str, name: str, array: Any) -> Message:
    message = example()
    message[kind] = {**message.get(kind, {}), name: array}
    return message


NAN, INF = np.full((4, 3), np.nan, np.float32), np.full((4, 3), -np.inf, np.float16)


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ({kind: arrays for kind, arrays in example().items() if kind != "fisher"}, "message lacks 'fisher'"),
        ({**example(), "gradient": {}}, "message has an unexpected 'gradient'"),
        (altered("weights", "more", np.zeros(1)), "kind 'weights' has an unexpected 'more'"),
        ({**example(), "fisher": {}}, "kind 'fisher' lacks 'conv.weight'"),
        (altered("weights", "bias", np.zeros(3, np.float32)), r"'weights' 'bias' is float32 \(3,\)"),
        (altered("weights", "bias", np.zeros((3, 1))), r"'weights' 'bias' is float64 \(3, 1\)"),
        (altered("weights", "conv.weight", NAN), "'weights' 'conv.weight' holds a value that is not finite"),
        (altered("fisher", "conv.weight", INF), "'fisher' 'conv.weight' holds a value that is not finite"),
    ],
)
def test_a_message_that_differs_from_the_manifest_is_refused_by_name(message: Message, reason: str) -> None:
    with pytest.raises(RefusedMessage, match=reason):
        check(message, manifest(example()))


# --- the envelope -----------------------------------------------------------------------------------------

HEADER = {"round": 3, "counted": None, "device": "pi-4"}


def test_an_envelope_is_a_length_a_header_and_the_body() -> None:
    data = pack({"a": 1}, b"body")

    assert data == b"\x00\x00\x00\x04\x81\xa1a\x01body"
    assert unpack(data) == ({"a": 1}, b"body")
    assert envelope_bytes({"a": 1}) == 8


@few
@given(
    st.dictionaries(
        names,
        st.none()
        | st.integers(-(2**63), 2**64 - 1)
        | st.floats(allow_nan=False)
        | st.text(st.characters(exclude_categories=["Cs"])),
        max_size=5,
    ),
    st.binary(),
)
def test_an_envelope_gives_back_what_was_put_in(header: dict[str, float | str | None], body: bytes) -> None:
    assert unpack(pack(header, body)) == (header, body)
    assert len(pack(header, body)) == envelope_bytes(header) + len(body)


@pytest.mark.parametrize(
    "header",
    [{"a": True}, {"a": b""}, {"a": []}, {"a": 2**64}, {"a": "x" * 4096}, {1: 1}, {"": 1}],
)
def test_headers_of_other_things_are_not_packed(header: dict[str, Any]) -> None:
    with pytest.raises(RefusedMessage):
        pack(header, b"")


def framed(header: bytes, length: int | None = None) -> bytes:
    return struct.pack(">I", len(header) if length is None else length) + header


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x00\x00",
        framed(b""),
        framed(b"\x80", length=2),
        framed(b"\x80", length=2**32 - 1),
        framed(b"\x81\xa1a\xd9\xff", length=5),
        framed(msgpack.packb({"a": "x" * 5000})),
        framed(msgpack.packb({"a": "x" * 2500, "b": "x" * 2500})),
        framed(b"\x90"),
        framed(b"\xc0"),
        framed(b"\x80\x80"),
        framed(b"\x81\xa1a\x90"),
        framed(b"\x81\xa1a\x81\xa1b\x01"),
        framed(b"\x81\xa1a\xc3"),
        framed(b"\x81\xa1a\xc4\x00"),
        framed(msgpack.packb({"a": 1.5}, use_single_float=True)),  # not as it is packed
        framed(b"\x81\xa1a\xd6\xff\x00\x00\x00\x00"),
        framed(b"\x82\xa1a\x01\xa1a\x01"),
        framed(b"\x81\xa1a\xcc\x01"),
    ],
)
def test_strange_envelopes_are_refused(data: bytes) -> None:
    with pytest.raises(RefusedMessage):
        unpack(data)


def test_mutated_envelopes_are_refused_or_pack_to_the_same_bytes() -> None:
    rng, data, accepted = np.random.default_rng(4), pack(HEADER, b"body"), 0
    for _ in range(3000):
        strange = mutated(data, rng)
        try:
            header, body = unpack(strange)
        except RefusedMessage:
            continue
        accepted += 1
        assert pack(header, body) == strange
    assert 0 < accepted < 3000


@pytest.mark.parametrize("data", [b"\x82\xa1w\x80\xa1w\x80", b"\x81\xa1w\x82\xa1b\x80\xa1b\x80"])
def test_a_name_that_comes_twice_is_named_in_the_refusal(data: bytes) -> None:
    """This holds for kinds and for arrays.  A map that kept the last of two would decode to less than was sent."""
    with pytest.raises(RefusedMessage, match="^the name '[wb]' comes twice"):
        decode(data)
