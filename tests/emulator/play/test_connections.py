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
    """Both ends of a connection: 2 x (n + 10) + the spare ones <= 4096."""
    most = (4096 - SPARE) // 2 - 10
    make_room(most, TEN, 1)
    needed = SPARE + 2 * (most + 11)
    with pytest.raises(
        BadScenario, match=rf"{most + 1} devices in 1 run over sockets need {needed} open files; .* 4096"
    ):
        make_room(most + 1, TEN, 1)


def test_runs_of_one_command_share_the_files(limits):
    make_room(900, TEN, 2)
    with pytest.raises(BadScenario, match="900 devices in 3 runs over sockets"):
        make_room(900, TEN, 3)


def test_where_nothing_bounds_open_files_no_more_are_asked_for_than_are_needed(limits):
    limits["hard"] = resource.RLIM_INFINITY
    make_room(10, TEN, 1)
    assert limits["soft"] == 1024
    make_room(2000, TEN, 1)
    assert limits["soft"] == SPARE + 2 * 2010
