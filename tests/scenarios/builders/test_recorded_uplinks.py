"""Uplinks that were recorded are replayed; what is assumed is for the others, and is told."""

import pytest

from scenarios.builders.assumed import assumptions
from scenarios.builders.machines import fleet
from scenarios.load import build

PAIR, LOG = ("1\n2\n", "4\n"), "0.5 2.0\n1.0 3.0\n1.7 1.0\n"


@pytest.fixture
def scenario(tmp_path, monkeypatch):
    """Eight devices on the traces of a folder that holds these files."""
    monkeypatch.chdir(tmp_path)

    def of(files, **uplink):
        (tmp_path / "traces").mkdir()
        for name, text in files.items():
            (tmp_path / "traces" / name).write_text(text)
        link = {"trace": {"down": "traces", **uplink}, "latency_ms": 9}
        return build({"name": "t", "fleet": [{"name": "g", "profile": "pi-4", "count": 8, "link": link}]})

    return of


@pytest.mark.parametrize(("uplink", "share"), [({"up_ratio": 0.5}, 0.5), ({"symmetric": True}, 1.0)])
def test_a_pair_keeps_its_uplink_and_a_log_has_a_share_of_its_downlink(scenario, uplink, share):
    said = scenario({"lte.down": PAIR[0], "lte.up": PAIR[1], "log": LOG}, **uplink)
    links = fleet(said)[1].values()
    pairs = [link for link in links if link.down.kind == "capacity"]
    logs = [link for link in links if link.down.kind == "achieved"]
    assert pairs
    assert logs
    assert {link.up.mean for link in pairs} == {375e3}  # one line in 4 ms
    assert {link.up.mean / link.down.mean for link in logs} == {share}
    told = next(iter(assumptions(said)))
    assert told.startswith("g: 1 of 2 recordings have an uplink, which is replayed; that of the others is taken to be")


def test_a_share_that_no_recording_needs_is_said_to_be_of_none(scenario):
    said = scenario({"lte.down": PAIR[0], "lte.up": PAIR[1]}, up_ratio=0.5)
    assert list(assumptions(said)) == [
        "g: their recordings have an uplink, which is replayed; up_ratio is said of none"
    ]


def test_files_that_are_passed_over_are_told(scenario):
    said = scenario({"lte.down": PAIR[0], "lte.up": PAIR[1], "README": "about\n", "lone.up": "1\n"})
    assert list(assumptions(said)) == ["g: left out of traces: README (unknown format), lone.up (an uplink)"]


def test_a_rate_that_no_link_has_is_told(scenario):
    """30 GB/s are 240 Gbit/s; the file has bit/s."""
    said = scenario({"log": "0.5 2\n1.0 240000\n1.7 1\n"}, symmetric=True)
    assert any(
        told.startswith("g: its rates reach 240 Gbit/s, more than any device's link") for told in assumptions(said)
    )
