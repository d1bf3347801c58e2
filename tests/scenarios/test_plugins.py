"""Algorithms that a scenario may name."""

from importlib.metadata import EntryPoint

import pytest

from scenarios import plugins
from scenarios.plugins import GROUP, Unknown, kind, kinds


@pytest.fixture
def installed(monkeypatch):
    """Entry points, as installed packages give them."""

    def install(**points):
        made = [EntryPoint(name, value, GROUP) for name, value in points.items()]
        wanted = lambda group, name=None: [p for p in made if name in (None, p.name)]  # noqa: E731
        monkeypatch.setattr(plugins, "entry_points", wanted)
        kinds.cache_clear()

    yield install
    monkeypatch.undo()
    kinds.cache_clear()


def test_those_that_come_along_are_known_by_their_files():
    assert {"fedavg", "fedprox", "fedcl", "fedcurv"} <= kinds().keys()


def test_an_entry_point_gives_an_algorithm_its_name(installed):
    installed(mean="algorithms.fedavg:FedAvg")
    assert kind("mean") is kind("fedavg")


def test_what_comes_along_keeps_its_name(installed):
    installed(fedavg="algorithms.fedprox:FedProx")
    assert kind("fedavg").__name__ == "FedAvg"


def test_a_broken_entry_point_stops_only_who_names_it(installed):
    installed(broken="no_such_package.x:Y")
    assert "broken" not in kinds()
    assert kind("fedavg").__name__ == "FedAvg"
    with pytest.raises(Unknown, match="No module named 'no_such_package'"):
        kind("broken")
