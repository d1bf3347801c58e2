import gzip
import hashlib
import lzma
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devices.data import packed

PACKERS = {"gzip": lambda content: gzip.compress(content, mtime=0), "xz": lzma.compress, "": bytes}


def read(folder, content: bytes, limit: int = 10_000) -> bytes:
    path = folder / "file"
    path.write_bytes(content)
    return packed.unpacked(path, limit)


@given(st.binary(max_size=200), st.sampled_from(sorted(PACKERS)))
def test_what_was_packed_is_unpacked_whatever_packed_it(tmp_path_factory, content, packer):
    # the letter in front: plain content that starts as a gzip does would be one
    assert read(tmp_path_factory.getbasetemp(), PACKERS[packer](b"a" + content)) == b"a" + content


@pytest.mark.parametrize("kind", ["gzip", "xz"])
def test_a_packed_file_that_was_cut_short_is_refused(tmp_path, kind):
    content = PACKERS[kind](b"some words that are packed")
    for length in range(8, len(content)):
        with pytest.raises(ValueError, match=rf"file: (truncated|damaged) {kind}"):
            read(tmp_path, content[:length])


@pytest.mark.parametrize("kind", ["gzip", "xz"])
def test_a_packed_file_with_something_after_it_or_a_wrong_checksum_is_refused(tmp_path, kind):
    content = PACKERS[kind](b"some words that are packed")
    with pytest.raises(ValueError, match=f"file: 1 trailing bytes after the {kind}"):
        read(tmp_path, content + b"!")
    # gzip's checksum and length are its last 8 bytes; xz's file ends with the checked footer
    with pytest.raises(ValueError, match=f"file: damaged {kind}"):
        read(tmp_path, content[:-8] + b"\1" * 8)


@pytest.mark.parametrize("kind", ["gzip", "xz"])
def test_a_file_that_unpacks_without_end_is_stopped_at_the_limit(tmp_path, kind):
    zeros = b"\0" * 5_000_000
    bomb = gzip.compress(zeros) if kind == "gzip" else lzma.compress(zeros, preset=0)  # 0: a window of 256 kB
    tracemalloc.start()
    with pytest.raises(ValueError, match="unpacks to more than 10000 bytes"):
        read(tmp_path, bomb)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1_000_000  # a fifth of what it would unpack to


def test_the_limit_itself_is_allowed_and_one_byte_more_is_not(tmp_path):
    assert len(read(tmp_path, bytes(100), limit=100)) == 100
    assert len(read(tmp_path, gzip.compress(bytes(100)), limit=100)) == 100
    with pytest.raises(ValueError, match="file: 101 bytes"):
        read(tmp_path, bytes(101), limit=100)
    with pytest.raises(ValueError, match="unpacks to more than 100 bytes"):
        read(tmp_path, gzip.compress(bytes(101)), limit=100)


def test_content_of_another_md5_is_refused_with_both(tmp_path):
    right = hashlib.md5(b"right").hexdigest()
    packed.check_md5(b"right", right, tmp_path, "ours")
    with pytest.raises(ValueError, match=f"{hashlib.md5(b'wrong').hexdigest()}; ours's is {right}"):
        packed.check_md5(b"wrong", right, tmp_path, "ours")


def test_files_are_found_in_the_first_place_that_has_all_and_packed_before_unpacked(tmp_path):
    for name in ("a", "one/a.gz", "two/a", "two/b", "two/b.gz"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert packed.find(tmp_path, ("", "one", "two"), ["a", "b"], ".gz") == [tmp_path / "two/a", tmp_path / "two/b.gz"]
    assert packed.find(tmp_path, ("", "one"), ["a", "b"], ".gz") is None


def test_the_error_for_absent_files_offers_a_download_only_where_there_is_one(tmp_path):
    assert "download: true" in str(packed.absent("files", tmp_path, [""]))
    assert "download: true" not in str(packed.absent("files", tmp_path, [""], fetched=False))
