"""Workers of Ray compute what processes compute, also when they are killed."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from emulator.compute.executors import Cluster, Executor, Processes
from emulator.lab.build import lab_of
from emulator.lab.faulty import Faulty
from emulator.lab.jobs import encode
from emulator.lab.lab import Lab
from emulator.messages.store import Ref, Store
from emulator.play.conduct import Conduct
from emulator.play.run import run_virtual
from emulator.record.run import Run
from scenarios.load import BadScenario, build
from tests.conftest import SMALL, digests, merged
from tests.emulator.compute.test_executors import named, product, sums, whereabouts

if not find_spec("ray"):
    pytest.skip("NO RAY: --executor ray is not tested; pip install 'fedlapse[ray]'", allow_module_level=True)

from emulator.compute.rays import TRIES, Ray, busy
from emulator.compute.workers import KILLED, Gone

pytestmark = pytest.mark.slow
SCENARIO = build(merged(SMALL, {"rounds": {"max": 3}, "algorithms": ["scaffold"]}))


@pytest.fixture(scope="module")
def lab() -> Lab:
    return lab_of(SCENARIO)


@pytest.fixture(scope="module")
def pool(lab: Lab) -> Iterator[Ray]:
    with Ray(lab, Cluster(2)) as workers:
        yield workers


def dies(lab: Lab, store: Store, deaths: Path, times: int) -> int:
    """Kills its worker that many times, and then says how often."""
    died = len(deaths.read_bytes()) if deaths.exists() else 0
    if died < times:
        deaths.write_bytes(bytes(died + 1))
        os.kill(os.getpid(), signal.SIGKILL)
    return died


def faulty(lab: Lab, store: Store) -> None:
    raise Faulty("own", ", round 0", "said so")


def played(lab: Lab, pool: Executor, out: Path, between: Any = lambda: None) -> dict[str, str]:
    """The digests of a run's files; `between` is called before each round."""

    def going_on() -> bool:
        between()
        return True

    run = Run(next(iter(lab.algorithms)), 1)
    asyncio.run(run_virtual(lab, run, Conduct.of(SCENARIO), pool, out / run.name, going_on))
    return digests(out)


def test_an_address_without_a_cluster_is_said_in_one_line(lab: Lab) -> None:
    with pytest.raises(BadScenario, match=r"^--ray-address auto: [^\n]+$"):
        Ray(lab, Cluster(1, "auto"))


@pytest.mark.parametrize("free", [{"CPU": 1.0}, {"CPU": 7.5, "GPU": 0.0}])
def test_a_cluster_with_a_free_cpu_is_not_waited_for(free: dict[str, float]) -> None:
    assert busy("CPU", free) is None


@pytest.mark.parametrize("free", [{}, {"CPU": 0.5}, {"CPU": 0.0, "GPU": 4.0}])
def test_a_wait_for_a_full_cluster_is_said(free: dict[str, float]) -> None:
    assert busy("CPU", free) == "fedlapse: the cluster has no free CPU; the command waits until it has one"


def test_a_run_whose_worker_is_killed_is_that_of_processes_byte_for_byte(lab: Lab, pool: Ray, tmp_path: Path) -> None:
    deaths: list[Any] = []
    calls = count()

    def kill() -> None:  # the round's trainings that wait for the same worker are lost with it
        if next(calls) == 1:
            deaths.append(pool.submit(dies, tmp_path / "deaths", 1))

    on_ray = played(lab, pool, tmp_path / "ray", kill)
    assert [death.result() for death in deaths] == [1]
    with Processes(lab, 2) as processes:
        assert on_ray == played(lab, processes, tmp_path / "processes")


def test_jobs_run_in_the_main_threads_of_other_processes_with_torch_set_as_everywhere(pool: Ray) -> None:
    process, *found = pool.submit(whereabouts).result()
    assert process != os.getpid()
    assert found == [True, 1, True]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_workers_ignore_what_stops_the_main_process(pool: Ray, number: int) -> None:
    before = {pool.submit(whereabouts).result()[0] for _ in range(4)}
    for process in before:
        os.kill(process, number)
    assert {pool.submit(whereabouts).result()[0] for _ in range(8)} & before == before


def test_messages_go_with_the_result_that_names_them(pool: Ray) -> None:
    given: Any = named(2)
    made = pool.submit(product, pool.store.put(encode(given).data)).result()
    expected = encode({"weights": {"y": given["weights"]["x"] @ given["weights"]["w"]}}).data
    assert bytes(pool.store.get(made)) == expected
    digest = made.digest
    gc.disable()
    try:
        del made
        pool.submit(sums, 1.0).result()  # the thread that brings results holds on to none before
        assert not pool.store.has(Ref(digest, len(expected)))
    finally:
        gc.enable()


def test_an_error_of_an_algorithm_comes_as_it_is(pool: Ray) -> None:
    with pytest.raises(Faulty, match="^own, round 0: said so$"):
        pool.submit(faulty).result()


def test_a_job_that_kills_each_worker_ends_all_with_a_reason(pool: Ray, tmp_path: Path) -> None:
    """The last one: no worker is left then."""
    deadly = pool.submit(dies, tmp_path / "deaths", TRIES)
    with pytest.raises(Gone) as ended:
        deadly.result()
    assert str(ended.value) == KILLED
    with pytest.raises(Gone):
        pool.submit(sums, 1.0).result()
