"""The same scenario over real sockets: the same weights, the same accounts, an audited record."""

import asyncio
import itertools
import socket

import aiohttp
import pytest

from emulator.compute.executors import Processes
from emulator.lab.build import lab_of
from emulator.play.conduct import Conduct
from emulator.play.over_sockets import run_sockets
from emulator.play.run import run_virtual
from emulator.record.lines import read_lines
from emulator.record.run import Run
from scenarios.load import build, dump, load
from tests.all_of import all_of
from tests.conftest import audit_run
from tests.runs.lateness import with_lateness

pytestmark = pytest.mark.slow

SPEEDUP = 2.0  # of the rounds of the quickstart, which take 13 s


def quickstart(**rounds):
    raw = load("quickstart").model_dump(mode="json")
    return raw | {"seeds": [2], "rounds": raw["rounds"] | {"targets": []} | rounds, "evaluate": {"every": 0}}


@pytest.fixture(scope="module")
def pool(tmp_path_factory):
    """A worker that has trained before: torch's first step takes a second.  Links and presence are not its concern."""
    lab = lab_of(small())
    with Processes(lab, 1) as worker:
        conduct, folder = Conduct.of(small(rounds={"max": 1, "fraction": 1.0})), tmp_path_factory.mktemp("warm")
        asyncio.run(run_virtual(lab, Run("fedavg", 1), conduct, worker, folder / "fedavg-s1"))
        yield worker


def both(scenario, label, folder, pool, lab):
    """The run in both worlds, one after the other; the first with how late the machine was."""
    run, conduct = Run(label, scenario.seeds[0]), Conduct.of(scenario)

    async def played():
        sockets = await with_lateness(
            run_sockets(lab, run, conduct, pool, folder / f"{label}-sockets", speedup=SPEEDUP)
        )
        return *sockets, await run_virtual(lab, run, conduct, pool, folder / f"{label}-virtual")

    return played()


def test_rounds_of_the_quickstart_end_with_the_same_weights_and_in_the_same_time(tmp_path, capsys):
    """Two rounds: in the second Fisher sums go down too, and of seed 2 two are asked again, who use what they kept."""
    scenario = build(quickstart(max=2))
    lab, labels = lab_of(scenario), ("fedcl-n10", "fedcurv")

    async def played(pool):
        return await asyncio.gather(*(both(scenario, label, tmp_path, pool, lab) for label in labels))

    with Processes(lab, 2) as pool:
        outcomes = asyncio.run(played(pool))
    for label, (real, late, virtual) in zip(labels, outcomes, strict=True):
        folders = [tmp_path / f"{label}-{world}" for world in ("sockets", "virtual")]
        assert [audit_run(folder) for folder in folders] == [[], []]
        models = [(folder / "final.safetensors").read_bytes() for folder in folders]
        assert models[0] == models[1]
        took, predicted = real.rows[-1]["time_s"], virtual.rows[-1]["time_s"]
        with capsys.disabled():
            print(
                f"\nself-consistency of {label}: sockets {took:.2f} s, virtual {predicted:.2f} s, "
                f"{took / predicted - 1:+.2%}, {len(real.overruns)} overruns, {late:.2f} s late"
            )
        asked = [line["asked"] for line in read_lines(folders[0] / "events.jsonl") if line["event"] == "open"]
        assert set(asked[0]) & set(asked[1])
        for mine, theirs in zip(real.rows, virtual.rows, strict=True):
            assert mine["bytes"] == theirs["bytes"]
            assert mine["flops"] == theirs["flops"]
        if not real.overruns:
            assert 0.95 * predicted < took < 1.05 * predicted + SPEEDUP * late


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"rounds": {"max": 2, "fraction": 1.0, "deadline_s": 1.8}}, "deadline"),
        ({"rounds": {"max": 2, "fraction": 0.5, "ask": 4}}, "first"),
        ({"rounds": {"max": 3, "fraction": 1.0, "deadline_s": 1.8, "stragglers": "finish"}}, "deadline"),
    ],
)
def test_deadlines_and_the_first_k_leave_a_clean_record(pool, tmp_path, changes, reason):
    outcome = over_sockets(small(**changes), pool, tmp_path)
    assert audit_run(tmp_path / "fedavg-s1") == []
    closes = [line for line in read_lines(tmp_path / "fedavg-s1" / "events.jsonl") if line["event"] == "close"]
    assert reason in {line["reason"] for line in closes}
    assert all_of(row["asked"] == row["counted"] + row["late"] + row["lost"] + row["refused"] for row in outcome.rows)
    assert sum(row["late"] for row in outcome.rows) > 0


@pytest.mark.parametrize("off", [0.1, 0.4, 0.9])
def test_devices_that_vanish_while_they_download_compute_or_upload_leave_a_clean_record(pool, tmp_path, off):
    scenario = small(presence={"off": [[off, off + 1.0]]}, rounds={"max": 2, "fraction": 1.0})
    outcome = over_sockets(scenario, pool, tmp_path)
    assert audit_run(tmp_path / "fedavg-s1") == []
    assert outcome.rows[0]["lost"] == 2
    lines = list(read_lines(tmp_path / "fedavg-s1" / "events.jsonl"))
    assert {line["why"] for line in lines if line["event"].endswith(".cut") and line["round"] == 0} == {"off"}


@pytest.mark.parametrize("off", [0.4, 0.9])
def test_over_sockets_too_an_absence_puts_off_what_may_go_on(pool, tmp_path, off):
    rounds = {"max": 1, "fraction": 1.0, "when_off": "pause", "transfers": "resume"}
    scenario = small(presence={"off": [[off, off + 1.0]]}, rounds=rounds)
    outcome = over_sockets(scenario, pool, tmp_path)
    assert audit_run(tmp_path / "fedavg-s1") == []
    assert (outcome.rows[0]["counted"], outcome.rows[0]["lost"]) == (4, 0)
    lines = list(read_lines(tmp_path / "fedavg-s1" / "events.jsonl"))
    cut = {line["then"] for line in lines if line["event"].endswith(".cut")}
    assert cut
    assert cut <= {"pause", "resume"}
    assert outcome.rows[0]["wasted_bytes"] == 0


def test_over_sockets_too_a_device_that_is_too_small_refuses_by_name(pool, tmp_path):
    scenario = small(rounds={"max": 1, "fraction": 1.0})
    phones, pis = scenario.fleet
    fleet = (phones, pis.model_copy(update={"memory_mb": 0.5}))
    outcome = over_sockets(scenario.model_copy(update={"fleet": fleet}), pool, tmp_path)
    assert audit_run(tmp_path / "fedavg-s1") == []
    assert (outcome.rows[0]["counted"], outcome.rows[0]["refused"]) == (2, 2)
    lines = list(read_lines(tmp_path / "fedavg-s1" / "events.jsonl"))
    assert {line["device"][:4] for line in lines if line["event"] == "refused" and line["kind"] == "device"} == {"pi-4"}


@pytest.fixture
def address(monkeypatch):
    """The address of the run's server, once it listens."""
    found, create = [], socket.create_server

    def created(address, **options):
        listening = create(address, **options)
        found.append(listening.getsockname())
        return listening

    monkeypatch.setattr(socket, "create_server", created)
    return found


def test_strangers_are_counted_and_leave_the_weights_as_they_are(pool, tmp_path, address):
    """The strangers call in the place of every device, as long as the run lasts."""
    scenario = small(rounds={"max": 2, "fraction": 1.0})

    async def strangers():
        while not address:
            await asyncio.sleep(0.001)
        host, port = address[0]
        async with aiohttp.ClientSession(f"http://{host}:{port}") as session:
            for name in itertools.cycle(["phone-mid-0", "phone-mid-1", "pi-4-0", "pi-4-1"]):
                for method in ("get", "post"):
                    async with session.request(method, f"/?device={name}", data=bytes(1000)) as response:
                        assert response.status == 401

    async def attacked(work):
        calling = asyncio.ensure_future(strangers())
        try:
            return await work
        finally:
            assert not calling.done() or isinstance(calling.exception(), aiohttp.ClientError)  # the server has gone
            calling.cancel()

    lab, run, conduct = lab_of(scenario), Run("fedavg", 1), Conduct.of(scenario)
    real = asyncio.run(attacked(run_sockets(lab, run, conduct, pool, tmp_path / "real")))
    asyncio.run(run_virtual(lab, run, conduct, pool, tmp_path / "virtual"))
    assert real.failure is None
    assert real.strangers > 10
    assert audit_run(tmp_path / "real") == []
    models = [(tmp_path / world / "final.safetensors").read_bytes() for world in ("real", "virtual")]
    assert models[0] == models[1]


def over_sockets(scenario, pool, folder):
    run, conduct = Run("fedavg", 1), Conduct.of(scenario)
    return asyncio.run(run_sockets(lab_of(scenario), run, conduct, pool, folder / "fedavg-s1"))


def small(presence=None, **changes):
    """Two phones, and two Pis whose uplink is slow: they are the last, and the ones that vanish."""
    link = {"up_mbit_s": 8, "down_mbit_s": 8, "latency_ms": 0}
    raw = {
        "name": "small",
        "data": {"split": {"kind": "iid"}, "proxy": {"fraction": 0.05}},
        "training": {"epochs": 1, "batch": 64, "lr": 0.1},
        "evaluate": {"every": 0},
        "server": {"link": {"up_mbit_s": 1000, "down_mbit_s": 1000}},
        "fleet": [
            {"profile": "phone-mid", "count": 2, "link": link},
            {"profile": "pi-4", "count": 2, "link": {**link, "up_mbit_s": 1}, "presence": presence or {}},
        ],
        "algorithms": ["fedavg"],
    }
    return build(raw | changes)


def test_a_resolved_scenario_reads_back_as_the_same(tmp_path):
    scenario = load("quickstart")
    (tmp_path / "again.yaml").write_text(dump(scenario))
    assert load(str(tmp_path / "again.yaml")) == scenario
