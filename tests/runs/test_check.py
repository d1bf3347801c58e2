"""`check`, `algorithms`, `devices` and `scenarios`, as a person at the prompt runs them."""

import json
import subprocess
import sys

import pytest

from emulator.forecast import algorithm_costs
from emulator.forecast.algorithm_costs import catalogue
from scenarios.load import load
from tests.all_of import all_of

pytestmark = pytest.mark.slow

QUICK = ("quickstart", "--seed", "1", "--rounds", "3")


@pytest.fixture
def told(fedlapse, monkeypatch):
    """The output of a command on a terminal of 80 columns."""
    monkeypatch.setenv("COLUMNS", "80")

    def call(*arguments):
        done = fedlapse(*arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return call


def test_check_tells_what_it_will_take_and_trains_nothing(told, tmp_path):
    page = told("check", *QUICK)
    for words in ("6 phone-mid", "weights", "GFLOP", "Memory of a training device", "This computer", "--speedup", "█"):
        assert words in page
    assert "a round of fedcurv takes" in " ".join(page.split())
    assert "it is faster only if it needs fewer than" in " ".join(page.split())
    assert max(map(len, page.splitlines())) <= 80
    assert list(tmp_path.iterdir()) == []


def test_check_tells_programs_the_same(told):
    plan = json.loads(told("check", *QUICK, "--format", "json"))
    assert plan["prices"].keys() == {"fedavg", "fedprox", "fedcl-n10", "fedcurv"}
    assert {"groups", "ratios", "sentences", "memory", "labels", "effort", "warnings"} <= plan.keys()
    assert sum(group["count"] for group in plan["groups"]) == len(plan["labels"]) == 16


def test_check_and_the_run_agree_about_bytes_and_seconds(told, tmp_path):
    shorter = ("training.epochs=1", "rounds.targets=[]", "evaluate.every=0")
    changes = ("quickstart", "--seed", "1", "--rounds", "2", *shorter)
    plan = json.loads(told("check", *changes, "--format", "json"))
    told("run", *changes, "--algorithm", "fedcurv", "--workers", "0", "--out", "out")
    row = json.loads((tmp_path / "out" / "fedcurv-s1" / "rounds.jsonl").read_text().splitlines()[1])
    assert plan["prices"]["fedcurv"]["up_bytes"] == row["bytes"]["up"]
    assert plan["prices"]["fedcurv"]["span_s"] == row["time_s"]


@pytest.mark.parametrize("command", [("check",), ("compare", "--workers", "0"), ("run", "--algorithm", "fedavg")])
def test_a_deadline_that_nobody_can_meet_is_one_line_and_exit_code_2(fedlapse, tmp_path, command):
    done = fedlapse(command[0], "quickstart", "rounds.deadline_s=0.5", *command[1:])
    assert done.returncode == 2
    assert done.stderr.startswith("fedlapse: rounds.deadline_s=0.5: rounds.deadline_s: it is 0.5, but ")
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["check", "algorithms"])
def test_a_bad_scenario_is_told_and_exit_code_2(fedlapse, tmp_path, command):
    done = fedlapse(command, "quickstart", "rounds.fraction=2")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("fedlapse: ")
    assert "rounds.fraction" in done.stderr


@pytest.fixture(scope="module")
def every():
    """All algorithms and what they cost: seconds of work, for both ways in which they are told."""
    return catalogue(load("quickstart"), "")


@pytest.fixture
def counted(every, monkeypatch):
    """No algorithm is counted again."""
    monkeypatch.setattr(algorithm_costs, "catalogue", lambda scenario, only: every)


def test_algorithms_tells_payloads_work_and_state(told, counted):
    known = {one["name"]: one for one in json.loads(told("algorithms", "--format", "json"))}
    assert {"fedavg", "fedprox", "fedcl", "fedcurv"} <= known.keys()
    curv, cl = known["fedcurv"]["cost"], known["fedcl"]["cost"]
    assert (curv["down"], curv["up"]) == (pytest.approx(3, rel=0.01), pytest.approx(3, rel=0.01))
    assert {name for name, one in known.items() if not one["stacked"]} == {"uga"}
    assert curv["kept_models"] == 4  # two sums of the model's size, in float64
    assert curv["device_flops"] == pytest.approx(1 / 10)  # a gradient of each example beside ten epochs
    assert (cl["down"], cl["up"], cl["device_flops"]) == (pytest.approx(2, rel=0.01), 1, 0)
    # 72 proxy examples once, beside 5 devices with 77 examples and ten epochs
    assert cl["server_flops"] == pytest.approx(72 / (5 * 77 * 10))
    assert {k: known["fedavg"]["cost"][k] for k in ("down", "up", "kept_bytes")} == {
        "down": 1,
        "up": 1,
        "kept_bytes": 0,
    }
    assert {option["name"]: option["default"] for option in known["fedcl"]["options"]}["interval"] == 1


OWN = """
from dataclasses import dataclass
from algorithms.fedavg import FedAvg

@dataclass(frozen=True)
class Twice(FedAvg):
    \"\"\"Sends its weights twice.\"\"\"

    uploads = ("weights", "again")
    size: float = 1.0
    \"\"\"Not used.\"\"\"

    def train(self, download, device):
        from dataclasses import replace

        reply = super().train(download, device)
        return replace(reply, upload={**reply.upload, "again": reply.upload["weights"]})
"""


def test_algorithms_tells_those_of_a_scenario_with_their_options(told, tmp_path):
    (tmp_path / "own.py").write_text(OWN, encoding="utf-8")
    group = "{profile: pi-4, count: 2, link: {up_mbit_s: 8, down_mbit_s: 8}, presence: {off: [[1, 2]]}}"
    said = f"name: mine\nrounds: {{max: 3}}\nfleet: [{group}]"
    entries = '[{"own:Twice": {size: 2.0}, name: two}, {fedcurv: {strength: 0.5}}]'
    (tmp_path / "mine.yaml").write_text(f"{said}\nalgorithms: {entries}\n", encoding="utf-8")
    known = json.loads(told("algorithms", "mine.yaml", "--format", "json"))
    assert [(one["name"], one["key"]) for one in known] == [
        ("fedavg", "fedavg"),
        ("two", "own:Twice"),
        ("fedcurv", "fedcurv"),
    ]
    assert known[1]["given"] == {"size": 2.0}
    assert known[1]["says"] == "Sends its weights twice."
    assert (known[1]["cost"]["down"], known[1]["cost"]["up"]) == (1, pytest.approx(2, rel=0.01))
    assert "two size=2.0" in told("algorithms", "mine.yaml")
    alone = json.loads(told("algorithms", "own:Twice", "--format", "json"))
    assert [one["key"] for one in alone] == ["fedavg", "own:Twice"]


@pytest.mark.parametrize("command", ["devices", "scenarios"])
def test_lists_import_neither_torch_nor_altair(tmp_path, command):
    program = (
        "import sys; from typer.testing import CliRunner; from emulator.__main__ import app; "
        f"assert CliRunner().invoke(app, [{command!r}]).exit_code == 0; "
        "print({'torch', 'altair'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.stdout.strip() == "set()", done.stderr


def test_algorithms_says_the_same_to_people(told, counted):
    page = told("algorithms")
    assert "FedCurv (Shoham et al. 2019)" in page
    assert "interval: integer, default 1" in page
    assert "3.00x 3.00x +10.0 %" in " ".join(page.split())


def test_devices_tells_who_measured_what(told):
    page = told("devices")
    assert "phone-mid" in page
    assert "~4000" in page  # assumed
    assert "Redmi Note 7 0.588 s per batch" in " ".join(told("devices", "phone-mid").split())
    known = json.loads(told("devices", "--format", "json"))
    assert known["phone-mid"]["speed"]["measured"]
    assert not known["phone-mid"]["memory"]["measured"]
    assert known["phone-mid"]["memory"]["unit"] == "MB"


def test_an_algorithm_is_shown_alone(told):
    page = told("algorithms", "fedcurv")
    assert page.startswith("fedcurv\n")
    assert "fedprox" not in page
    assert "3.00x" in page
    assert [one["key"] for one in json.loads(told("algorithms", "fedcurv", "--format", "json"))] == ["fedcurv"]


def test_papers_are_found_by_a_text(told):
    page = told("papers", "FedCurv")
    assert "papers/fedcurv-search-e10" in page
    found, every = (json.loads(told("papers", *text, "--format", "json")) for text in (("lstm",), ()))
    assert 0 < len(found) < len(every)
    assert all_of("lstm" in str((one["name"], one["says"], one["algorithms"])).lower() for one in found)


def test_scenarios_tells_what_each_teaches_and_how_to_run_it(told):
    page = told("scenarios")
    assert "What it teaches: how long four algorithms take" in " ".join(page.split())
    assert "$ fedlapse compare quickstart" in page
    known = {one["name"]: one for one in json.loads(told("scenarios", "--format", "json"))}
    assert known["quickstart"]["devices"] == 16
    assert known["fedcl-mnist"]["command"] == "fedlapse compare fedcl-mnist"
