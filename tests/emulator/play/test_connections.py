"""How many files a run over sockets opens, and what is said where the system allows fewer."""

import resource

import pytest

from emulator.conversation.rounds import RoundRules
from emulator.play.over_sockets import SPARE, connections, make_room
from scenarios.text.faults import BadScenario

TEN = RoundRules(max=1, needed=10, ask=10)


@pytest.fixture
def limits(monkeypatch):
    """Limits of open files that this process is said to have, and what becomes of them."""
    known = {"soft": 1024, "hard": 4096}
    monkeypatch.setattr(resource, "getrlimit", lambda _: (known["soft"], known["hard"]))
    monkeypatch.setattr(resource, "setrlimit", lambda _, both: known.update(soft=both[0], hard=both[1]))
    return known


def test_a_device_has_one_connection_and_a_second_one_while_it_uploads():
    assert connections(520, TEN) == 530
    assert connections(5, TEN) == 10
    assert connections(520, RoundRules(max=1, needed=10, ask=10, finish_stragglers=True)) == 1040


def test_the_soft_limit_becomes_the_hard_one(limits):
    make_room(520, TEN, 1)
    assert limits == {"soft": 4096, "hard": 4096}


def test_what_just_fits_is_played_and_one_device_more_is_refused_with_the_numbers(limits):
    """Both ends of a connection, a record's three files, a listening socket: 2 x (n + 10) + 4 + the spare <= 4096."""
    most = (4096 - SPARE - 4) // 2 - 10
    make_room(most, TEN, 1)
    needed = SPARE + 4 + 2 * (most + 11)
    with pytest.raises(
        BadScenario, match=rf"{most + 1} devices in 1 run over sockets need {needed} open files; .* 4096"
    ):
        make_room(most + 1, TEN, 1)


def test_runs_of_one_command_share_the_files(limits):
    make_room(900, TEN, 2)
    with pytest.raises(BadScenario, match="900 devices in 3 runs over sockets"):
        make_room(900, TEN, 3)


def test_records_listening_sockets_and_workers_are_files_too(limits):
    """50 runs of 2 devices, each with 8 ends of connections, 3 files and a listening socket: 600.  2 pipes a worker."""
    limits["hard"] = SPARE + 600 + 2 * 16
    two = RoundRules(max=1, needed=2, ask=2)
    make_room(2, two, 50, workers=16)
    with pytest.raises(BadScenario, match="2 devices in 50 runs"):
        make_room(2, two, 50, workers=17)


def test_where_nothing_bounds_open_files_no_more_are_asked_for_than_are_needed(limits):
    limits["hard"] = resource.RLIM_INFINITY
    make_room(10, TEN, 1)
    assert limits["soft"] == 1024
    make_room(2000, TEN, 1)
    assert limits["soft"] == SPARE + 4 + 2 * 2010
