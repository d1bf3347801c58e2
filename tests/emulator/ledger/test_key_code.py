"""Which algorithm it is, with which options and source files, is in the key."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import pytest

from algorithms.algorithm import Training
from algorithms.fedavg import FedAvg
from algorithms.fedcurv import FedCurv
from algorithms.networks import Network
from devices.device import Device, Profile
from emulator.lab.faulty import Faulty
from emulator.lab.guarded import Unmade
from emulator.lab.jobs import blocks, start
from emulator.lab.lab import Lab
from emulator.ledger.key import Keys
from emulator.messages.files import Memory
from scenarios.builders import own_code, plugins
from tests.emulator.ledger.small import (
    ALL,
    DEVICE,
    DOWN,
    JOBS,
    MEMORY,
    NAMES,
    RUN,
    RUNS,
    TRAINING,
    changed,
    keys,
    lab,
    opening,
)

# ---- algorithms and their options


def stepped(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    return value + "x" if isinstance(value, str) else value + 1


def with_option(algorithm: Any, name: str, value: Any) -> Any:
    """A copy with another value, whether the class would take it or not."""
    found = copy(algorithm)
    object.__setattr__(found, name, value)
    return found


@pytest.mark.parametrize("key", sorted(plugins.kinds()))
def test_each_option_of_each_algorithm_is_in_the_keys_of_its_jobs(key: str) -> None:
    training = replace(TRAINING, per_cycle=1)  # of continual learning
    algorithm = plugins.kinds()[key](training)
    before, penalty = keys(lab(algorithm)), set(algorithm.penalty_options)
    for option in fields(algorithm):
        if option.name != "training":
            other = with_option(algorithm, option.name, stepped(getattr(algorithm, option.name)))
            expected = DEVICE if option.name in penalty else RUNS
            assert changed(before, keys(lab(other))) == expected, option.name


@pytest.mark.parametrize("name", [each.name for each in fields(Training)])
def test_each_value_of_the_training_is_in_the_keys_of_the_algorithms_jobs(name: str) -> None:
    other = with_option(TRAINING, name, stepped(getattr(TRAINING, name)))
    fleet = dict.fromkeys(NAMES, Device("any", Profile("any", 100.0, 1e9, 0.0, 1000, "")))  # `seconds` counts on it
    assert changed(keys(lab(fleet=fleet)), keys(lab(FedAvg(other), fleet=fleet))) == RUNS


def test_the_strength_of_a_penalty_counts_where_it_can_act() -> None:
    """FedCurv's can once there are sums of what others have learnt: the Fisher information that came down."""
    weak, strong = (lab(FedCurv(TRAINING, strength=strength)) for strength in (1.0, 2.0))
    kept = opening(MEMORY)
    for kinds, jobs in ((("weights",), set()), (("weights", "fisher", "fisher_theta"), DEVICE)):
        noted = (opening(DOWN, *kinds), kept)
        assert changed(keys(weak, JOBS, "here", *noted), keys(strong, JOBS, "here", *noted)) == jobs


def test_a_strength_counts_where_nobody_knows_what_came_down() -> None:
    weak, strong = (lab(FedCurv(TRAINING, strength=strength)) for strength in (1.0, 2.0))
    for noted in ([], [opening(DOWN, "weights")], [opening(MEMORY)]):
        assert changed(keys(weak, JOBS, "here", *noted), keys(strong, JOBS, "here", *noted)) == DEVICE


@dataclass(frozen=True)
class Derived(FedCurv):
    """FedCurv, of which nobody has said that its strength is read by the penalty alone."""


def test_what_a_base_says_of_its_penalty_does_not_hold_for_a_class_that_derives_from_it() -> None:
    noted = (opening(DOWN, "weights"), opening(MEMORY))
    weak, strong = (keys(lab(Derived(TRAINING, strength=each)), JOBS, "here", *noted) for each in (1.0, 2.0))
    assert changed(weak, strong) == RUNS


@dataclass(frozen=True)
class Strange(FedAvg):
    what: Any = None


def test_a_job_that_cannot_be_told_from_others_has_no_key() -> None:
    def refused(of: Lab, what: str, job: Any = start, args: tuple[Any, ...] = (RUN,)) -> None:
        with pytest.raises(ValueError, match=what):
            Keys(of, "here").key(job, args)

    refused(lab(), r"^emulator\.lab\.jobs\.blocks has no key; these jobs have: emulator\.", blocks, (RUN, "test", 0))
    refused(lab(Strange(TRAINING, object())), "builtins.object has no canonical bytes")


def test_an_algorithm_that_could_not_be_made_has_a_key_and_its_job_says_why() -> None:
    unmade = lab(Unmade(Faulty("mine", "", "it cannot be made")))
    assert Keys(unmade, "here").key(start, (RUN,)) != Keys(lab(), "here").key(start, (RUN,))
    with pytest.raises(Faulty, match="^mine: it cannot be made$"):
        start(unmade, Memory(), RUN)


# ---- source files


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """An algorithm and a model of a user's own, in files of which each imports another one."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "ledger_helper.py").write_text("HALF = 0.5\n")
    (tmp_path / "ledger_layers.py").write_text("WIDTH = 8\n")
    (tmp_path / "ledger_model.py").write_text(
        "from ledger_layers import WIDTH\nfrom torch import nn\n"
        "def net():\n    return nn.Sequential(nn.Flatten(), nn.Linear(64, WIDTH), nn.Linear(WIDTH, 10))\n"
    )
    (tmp_path / "ledger_mine.py").write_text(
        "from dataclasses import dataclass\nfrom algorithms.fedavg import FedAvg\n"
        "@dataclass(frozen=True)\nclass Mine(FedAvg):\n"
        "    def round_kind(self, round):\n        from ledger_helper import HALF\n        return str(HALF)\n"
    )
    algorithm = plugins.kind_at("ledger_mine:Mine")(TRAINING)
    return tmp_path, lab(algorithm, model=Network("ledger_model:net"))


@pytest.mark.parametrize(
    ("file", "jobs"),
    [
        ("ledger_mine.py", RUNS),
        ("ledger_helper.py", RUNS),
        ("ledger_model.py", ALL),
        ("ledger_layers.py", ALL),
        ("ledger_else.py", set()),
    ],
)
def test_the_files_that_a_users_code_imports_are_in_the_keys(written: Any, file: str, jobs: set[str]) -> None:
    folder, mine = written
    before = keys(mine)
    path = folder / file
    path.write_text((path.read_text() if path.exists() else "") + "# changed\n")
    own_code.renew()  # as before another call, or in another command
    assert changed(before, keys(mine)) == jobs


def test_code_that_has_changed_since_it_was_imported_has_no_key(written: Any) -> None:
    folder, mine = written
    Keys(mine, "here").key(start, (RUN,))
    (folder / "ledger_helper.py").write_text("HALF = 0.6\n")
    with pytest.raises(ValueError, match="^the code of mine is in no file, or in one that has changed since"):
        Keys(mine, "here").key(start, (RUN,))


@pytest.mark.parametrize(
    ("file", "jobs"),
    [
        ("algorithms/training/local.py", ALL),
        ("algorithms/fedavg.py", RUNS),
        ("emulator/lab/guarded.py", RUNS),
        ("algorithms/fedcurv.py", set()),  # a sibling
        ("emulator/lab/jobs.py", ALL),
        ("emulator/lab/training.py", ALL),
        ("emulator/lab/parties.py", ALL),
        ("emulator/messages/codec.py", ALL),
        ("network/wire/encoding.py", ALL),
        ("devices/data/dataset.py", ALL),
        ("emulator/play/run.py", set()),
        ("emulator/commands/run.py", set()),
    ],
)
def test_fedlapses_own_files_are_in_the_keys_of_those_jobs_that_import_them(
    file: str, jobs: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before, real = keys(lab()), Path.read_bytes
    edited = Path(__file__).parents[3] / file
    assert edited.is_file()
    monkeypatch.setattr(Path, "read_bytes", lambda path: real(path) + (b"# changed\n" if path == edited else b""))
    assert changed(before, keys(lab())) == jobs


def test_code_that_is_in_no_file_has_no_key() -> None:
    space: dict[str, Any] = {"__name__": "nowhere", "FedAvg": FedAvg}
    exec("class Typed(FedAvg): pass", space)
    with pytest.raises(ValueError, match=r"^the code of mine is in no file, or in one that has changed since"):
        Keys(lab(space["Typed"](TRAINING)), "here").key(start, (RUN,))
