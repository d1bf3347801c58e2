import pytest
import vl_convert

from emulator.report import vega


@pytest.fixture
def bundled(monkeypatch, tmp_path):
    """A bundle of one line, and how often it was made."""
    made = []
    monkeypatch.setattr(vl_convert, "javascript_bundle", lambda code: made.append(code) or "x = '</script>'")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return made


def read():
    vega.script_of_vega.cache_clear()
    try:
        return vega.script_of_vega()
    finally:
        vega.script_of_vega.cache_clear()


def test_it_is_made_once_and_cannot_end_the_element_it_stands_in(bundled):
    assert read() == read() == r"x = '<\/script>'"
    assert len(bundled) == 1


def test_another_version_has_another(bundled, monkeypatch):
    read()
    monkeypatch.setattr(vega, "version", lambda _: "2.0")
    read()
    assert len(bundled) == 2


@pytest.mark.parametrize("data", [b"", b"x = 1", b"0\nx = 1", b"\xff"])
def test_what_is_not_whole_is_made_anew(bundled, tmp_path, data):
    read()
    [kept] = (tmp_path / "fedlapse" / "vega").iterdir()
    whole = kept.read_bytes()
    kept.write_bytes(data)
    assert read() == r"x = '<\/script>'"
    assert kept.read_bytes() == whole


def test_where_it_cannot_be_kept_it_is_made_each_time(bundled, tmp_path):
    (tmp_path / "fedlapse").write_text("a file, no folder")
    assert read() == read() == r"x = '<\/script>'"
    assert len(bundled) == 2


def test_somebody_without_a_home_has_it_all_the_same(bundled, monkeypatch):
    def nobody():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr("pathlib.Path.home", nobody)
    assert read() == r"x = '<\/script>'"
