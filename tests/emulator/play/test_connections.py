"""The number of files that a run over sockets opens, and the error if the system allows fewer."""

import resource

import pytest

from emulator.play.over_sockets import make_room
from scenarios.text.faults import BadScenario


@pytest.fixture
def limits(monkeypatch):
    """Limits of open files that this process is said to have, and what becomes of them."""
    known = {"soft": 1024, "hard": 4096}
    monkeypatch.setattr(resource, "getrlimit", lambda _: (known["soft"], known["hard"]))
    monkeypatch.setattr(resource, "setrlimit", lambda _, both: known.update(soft=both[0], hard=both[1]))
    return known


def test_the_soft_limit_becomes_the_hard_one(limits):
    make_room(520, 1)
    assert limits == {"soft": 4096, "hard": 4096}


def test_of_1024_files_474_devices_have_both_ends_of_their_connections(limits):
    """A record's three files, a listening socket, eight strangers and 64 more: 2 x 474 + 12 + 64 = 1024."""
    limits["hard"] = 1024
    make_room(474, 1)
    for devices, needed in ((475, 1026), (520, 1116), (900, 1876)):
        with pytest.raises(
            BadScenario,
            match=rf"{devices} devices in 1 run over sockets need {needed} open files; .* 1024 .* enough for 474;",
        ):
            make_room(devices, 1)


def test_runs_of_one_command_share_the_files(limits):
    """(4096 - 64) // 3 = 1344 for each of three runs, of which (1344 - 12) / 2 = 666 devices have two each."""
    make_room(666, 3)
    with pytest.raises(BadScenario, match="667 devices in 3 runs over sockets .* enough for 666;"):
        make_room(667, 3)


def test_records_listening_sockets_strangers_and_workers_are_files_too(limits):
    """50 runs of 2 devices, each with 4 ends, 3 files, a listening socket and 8 strangers: 800.  2 pipes a worker."""
    limits["hard"] = 64 + 800 + 2 * 16
    make_room(2, 50, workers=16)
    with pytest.raises(BadScenario, match="2 devices in 50 runs .* enough for 1;"):
        make_room(2, 50, workers=17)


def test_where_not_even_the_records_can_be_opened_no_device_fits(limits):
    limits["hard"] = 70
    with pytest.raises(BadScenario, match="enough for 0;"):
        make_room(2, 1)


def test_where_nothing_bounds_open_files_no_more_are_asked_for_than_are_needed(limits):
    limits["hard"] = resource.RLIM_INFINITY
    make_room(10, 1)
    assert limits["soft"] == 1024
    make_room(2000, 1)
    assert limits["soft"] == 64 + 12 + 4000
