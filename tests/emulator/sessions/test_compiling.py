"""When the network model is compiled, and that it is said."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from emulator.sessions.compiling import EACH, ONCE, compile_network, compile_replays
from network.windows import compiled, crowd
from scenarios.builders.filling import Peaks
from scenarios.load import load


@pytest.fixture
def made(monkeypatch, tmp_path):
    """The number of compilations on a computer that has no machine code yet."""
    times = []
    monkeypatch.setattr(compiled, "HERE", tmp_path)
    monkeypatch.setattr(compiled, "ready", lambda: bool(times))
    monkeypatch.setattr(crowd, "compile_all", lambda: times.append(1))
    return times


def test_the_quickstart_compiles_nothing(made, capsys):
    compile_network(load("quickstart", algorithms=False))
    assert made == []
    assert capsys.readouterr().err == ""


def test_where_a_link_may_fill_it_is_compiled_once_and_said(made, capsys):
    """5 devices at 10 Mbit/s, on 49."""
    scenario = load("quickstart", ["server.link.up_mbit_s=49"], algorithms=False)
    for _ in range(2):
        compile_network(scenario)
    assert made == [1]
    assert capsys.readouterr().err == f"fedlapse: {ONCE}\n"


def test_where_machine_code_cannot_be_kept_that_is_said(made, capsys, monkeypatch):
    monkeypatch.setattr(compiled, "HERE", None)
    compile_network(load("quickstart", ["server.link.up_mbit_s=49"], algorithms=False))
    assert made == [1]
    assert capsys.readouterr().err == f"fedlapse: {EACH}\n"


def test_other_network_models_need_no_machine_code(made):
    compile_network(load("quickstart", ["server.link.up_mbit_s=1", "network.model=tcp"], algorithms=False))
    assert made == []


def replayed(scenario, *settings, fleet=None, cohort="drawn"):
    """Prepares replays of a run of FedAvg and one with this choice of devices, at these highest rates of links."""
    scripts = [SimpleNamespace(facts=SimpleNamespace(cohort=each)) for each in ("drawn", cohort)]
    batch = SimpleNamespace(source=SimpleNamespace(fleet=fleet), scenario=scenario, scripts=scripts)
    compile_replays(batch, [SimpleNamespace(condition=SimpleNamespace(peaks=each)) for each in settings])


def test_replays_compile_for_the_links_that_they_are_made_on(made):
    scenario = load("quickstart", algorithms=False)
    replayed(scenario, Peaks(down=19e6 / 8))  # 5 x 19 Mbit/s on 100
    assert made == []
    replayed(scenario, Peaks(down=1e6 / 8), Peaks(down=21e6 / 8))
    assert made == [1]


WHOLE = [
    "algorithms=[fedavg, {continual: {variant: alg2, personal: '*'}}]",
    "rounds.per_cycle=2",
    "rounds.targets=[{value: 0.8}]",
    "tuned={}",
]


@pytest.mark.parametrize(("rate", "times"), [(105, []), (99, [1])])
def test_an_algorithm_that_asks_the_whole_fleet_may_fill_a_link(made, rate, times):
    """6 devices at 10 Mbit/s, 4 at 5 and 6 at 4, in the rounds in which all retrain."""
    compile_network(load("quickstart", [*WHOLE, f"server.link.up_mbit_s={rate}"]))
    assert made == times


@pytest.mark.parametrize(("rule", "times"), [("drawn", []), ("chosen", []), ("own", [1])])
def test_its_replays_may_too(made, rule, times):
    """On 99 Mbit/s; the recorded runs say who asked by a rule of its own, without a look at the algorithm."""
    scenario = load("quickstart", [*WHOLE, "server.link.up_mbit_s=99"])
    replayed(scenario, Peaks(), cohort=rule)
    assert made == times


@pytest.mark.parametrize(("rate", "times"), [(5, []), (7, [1])])
def test_on_another_fleet_all_may_transfer_at_once(made, rate, times):
    """16 devices of the other scenario, on 100 Mbit/s."""
    replayed(None, Peaks(down=rate * 1e6 / 8), fleet=load("quickstart", algorithms=False))
    assert made == times
