"""--executor ray and --ray-address: what is wrong is said before anything is started.  Ray need not be installed."""

from __future__ import annotations

from typing import Any

import pytest

from emulator.compute.crew import no_more
from emulator.compute.executors import Cluster
from emulator.sessions import computing
from emulator.sessions.computing import Computing, ExecutorName, crew_of
from emulator.sessions.replay_runs import Replaying
from scenarios.load import BadScenario

LOCAL, ELSEWHERE = Cluster(), Cluster(address="auto")


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(computing, "find_spec", lambda name: name)


def test_without_ray_a_line_says_how_to_install_it(fedlapse: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(computing, "find_spec", lambda name: None)
    done = fedlapse("compare", "--executor", "ray", "--out", "new")
    assert done.returncode == 2
    assert "Ray is not installed; pip install 'fedlapse[ray]'\n" in done.stderr


def test_an_address_is_for_ray(fedlapse: Any) -> None:
    done = fedlapse("compare", "--ray-address", "auto")
    assert done.returncode == 2
    assert "--ray-address auto is for --executor ray" in done.stderr


def test_a_replay_that_trains_nothing_needs_no_executor(fedlapse: Any, installed: None) -> None:
    """As with --device."""
    batch: Any = type("Batch", (), {"source": type("Source", (), {"train": False})})
    with pytest.raises(ValueError, match="--executor is for --train"):
        Replaying(executor=ExecutorName.ray).player(batch)


@pytest.mark.parametrize("address", [None, "auto", "ray://head:10001"])
def test_addresses(installed: None, address: str | None) -> None:
    assert Computing(executor=ExecutorName.ray, ray_address=address).cluster == Cluster(address=address)


def test_an_address_that_ray_cannot_have_is_refused(installed: None) -> None:
    with pytest.raises(BadScenario, match=r"--ray-address head:6379: it must be auto, or such as ray://"):
        _ = Computing(executor=ExecutorName.ray, ray_address="head:6379").cluster


@pytest.mark.parametrize(
    ("count", "cluster", "found"),
    [
        (None, LOCAL, Cluster(4)),
        (3, LOCAL, Cluster(3)),
        (None, ELSEWHERE, ELSEWHERE),
        (9, ELSEWHERE, Cluster(9, "auto")),
    ],
)
def test_workers_are_as_many_as_cores_here_and_elsewhere_as_the_cluster_has(
    monkeypatch: pytest.MonkeyPatch, count: int | None, cluster: Cluster, found: Cluster
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    assert crew_of(count, ("cpu",), cluster) == found


@pytest.mark.parametrize(
    ("count", "places", "said"),
    [(0, ("cpu",), "--workers 0 trains in this process"), (1, ("cuda:1",), "--device cuda:1: with --executor ray say")],
)
def test_what_cannot_be_on_ray_is_refused(count: int, places: tuple[str, ...], said: str) -> None:
    with pytest.raises(BadScenario, match=said):
        crew_of(count, places, LOCAL)


def test_no_more_workers_than_have_something_to_do() -> None:
    assert no_more(4, 3) == 3
    assert no_more(LOCAL, 3) == Cluster(most=3)
