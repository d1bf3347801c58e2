"""The short training by which `check` measures this computer."""

import pytest

from emulator.forecast import host
from emulator.lab.build import lab_of
from emulator.lab.faulty import Faulty
from scenarios.load import build
from tests.conftest import SMALL, merged
from tests.runs import nets


def test_it_takes_no_batch_that_the_runs_never_take(monkeypatch: pytest.MonkeyPatch) -> None:
    """Devices of 21 examples, of which each run takes 20, and a network that cannot train on one example."""
    monkeypatch.setattr(host, "SECONDS", 0.0)
    monkeypatch.setattr(host, "PATIENCE", 0.0)
    changes = {
        "model": f"{nets.__name__}:batch_normed",
        "data": {"split": {"kind": "draw", "each": 21}, "validation": 0},
        "training": {"batch": 10, "steps": 2},
    }
    lab = lab_of(build(merged(SMALL, changes)))
    assert {len(lab.held(1, name)) for name in lab.fleet} == {21}
    assert len(host.measured(lab, 1, 1).samples) == 3


def test_a_network_without_a_price_is_told_of_the_users_algorithm(monkeypatch: pytest.MonkeyPatch) -> None:
    """The training that is measured is fedlapse's own; its name says nothing to a user."""

    def unpriced(*_: object, **__: object) -> float:
        raise Faulty("plain", ", device a", "declares work that has no price")

    monkeypatch.setattr(host, "_rates", unpriced)
    with pytest.raises(Faulty, match="^fedprox, device a: declares work that has no price$"):
        host.measured(lab_of(build(merged(SMALL, {"algorithms": ["fedprox"]}))), 1, 1)
