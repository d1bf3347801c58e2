"""Open files run out: a line says so, what is there is whole, and with a higher limit the runs go on."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from scenarios.load import build, dump
from tests.conftest import SMALL, digests, merged, results

CHANGES = {"algorithms": ["fedavg", "scaffold"]}


@contextmanager
def at_most(more: int) -> Iterator[None]:
    """This process may open that many files more; for the workers it is a limit of its own."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken = {int(path.name) for path in Path("/proc/self/fd").iterdir()}
    free = [number for number in range(len(taken) + more + 1) if number not in taken]
    resource.setrlimit(resource.RLIMIT_NOFILE, (free[more], before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return digests(results(tmp_path_factory.mktemp("plain") / "out", CHANGES))


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="takes Linux's /proc")
# Files that were open when one more could not be are closed once they are garbage, of which Python warns.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(("more", "workers"), [(4, 0), (8, 0), (12, 0), (19, 2), (23, 2)])
def test_where_open_files_run_out_lines_say_so_and_the_runs_go_on_later(
    fedlapse, monkeypatch, tmp_path, expected, more, workers
):
    Path("s.yaml").write_text(dump(build(merged(SMALL, CHANGES))))
    with at_most(more):
        done = fedlapse("compare", "s.yaml", "-q", "--workers", workers, "--out", "out", "--ledger", "ledger")
    said = done.stderr.splitlines()
    assert done.returncode == 1
    assert [line for line in said if not line.startswith("fedlapse: ")] == []
    assert any("too many open files; raise `ulimit -n`" in line for line in said)
    assert said[-1].endswith("fedlapse resume out --ledger ledger")
    assert fedlapse("resume", "out", "-q", "--workers", 0, "--ledger", "ledger").returncode == 0
    assert digests(Path("out")) == expected
