"""A job's key: another one for whatever its result depends on, and the same one for everything else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import pytest
import torch

from algorithms.fedavg import FedAvg
from algorithms.fedcurv import FedCurv
from algorithms.networks import Network
from emulator.lab.guarded import Guarded
from emulator.lab.jobs import evaluate, start
from emulator.lab.lab import Division, Lab
from emulator.lab.seeds import seed as derive
from emulator.lab.training import train
from emulator.ledger import key
from emulator.ledger.key import Keys
from emulator.record.run import Run
from tests.emulator.ledger.rounds import rounds
from tests.emulator.ledger.small import (
    ALL,
    DEVICE,
    DOWN,
    EVALUATIONS,
    JOBS,
    MEMORY,
    NOBODY,
    REPLIES,
    ROUND,
    RUN,
    RUNS,
    SERVER,
    SHARD,
    TRAINING,
    UP_A,
    UP_B,
    changed,
    dataset,
    keys,
    lab,
    ref,
    split,
    touched,
)


@dataclass(frozen=True)
class Same(FedAvg):
    """FedAvg by another name: nobody knows whether it does the same."""


def with_data(**changes: Any) -> Lab:
    return lab(dataset=replace(dataset(), **changes))


def with_split(**changes: Any) -> Lab:
    return lab(splits={1: replace(split(), **changes), 2: split()})


def with_held(what: str, device: str, at: int) -> Lab:
    held = dict(getattr(split(), what))
    shards = held[device]
    held[device] = (*shards[:at], touched(shards[at]), *shards[at + 1 :])
    return with_split(**{what: held})


def with_one_more() -> Lab:
    more = {name: {**getattr(split(), name), "d": getattr(split(), name)["c"]} for name in ("train", "tests")}
    return replace(with_split(**more), fleet=dict.fromkeys("abcd", NOBODY))


def with_other_name() -> Lab:
    return lab(fleet=dict.fromkeys(("a", "b", "z"), NOBODY))


STUDIES: dict[str, tuple[Callable[[], Lab], set[str]]] = {
    "a number of an image": (lambda: with_data(x=touched(dataset().x)), ALL - {"test"}),
    "a label": (lambda: with_data(y=(dataset().y + (np.arange(30) == 3)) % 10), ALL - {"test"}),
    "a number of a test image": (lambda: with_data(x_test=touched(dataset().x_test)), {*SHARD, "test"}),
    "a label of a test image": (lambda: with_data(y_test=(dataset().y_test + 1) % 10), {*SHARD, "test"}),
    "the number of classes": (lambda: with_data(classes=11), ALL),
    "the model": (lambda: lab(model=Network("mlp")), ALL),
    "the precision of training": (lambda: lab(FedAvg(replace(TRAINING, precision="bf16"))), RUNS),
    "the algorithm's class": (lambda: lab(Same(TRAINING)), RUNS),
    "an index of the device's shard": (lambda: with_held("train", "a", 0), DEVICE),
    "the order of its shard": (
        lambda: with_split(train={**split().train, "a": (split().train["a"][0][::-1],)}),
        DEVICE,
    ),
    "an index of its test shard": (lambda: with_held("tests", "a", 0), SHARD),
    "an index of its next test shard": (lambda: with_held("tests", "a", 1), SHARD),
    "an index of the proxy set": (lambda: with_split(proxy=touched(split().proxy)), SERVER),
    "an index of a validation shard": (lambda: with_held("validation", "c", 0), {"validation"}),
    "one device more": (with_one_more, RUNS),
    "another device's name": (with_other_name, SERVER),
    "how uploads are encoded": (lambda: lab(up={"mine": {"weights": "bfloat16"}}), RUNS),
    "how downloads are encoded": (lambda: lab(down={"mine": {"weights": "int8"}}), RUNS),
}

NOTHING_ELSE: dict[str, Callable[[], Lab]] = {
    "another device's shard": lambda: with_held("train", "b", 0),
    "another device's test shard": lambda: with_held("tests", "b", 0),
    "the shard of another time slice": lambda: with_held("train", "a", 1),
    "the test examples that metrics are of": lambda: with_split(test=np.arange(2)),
    "another seed's shards": lambda: lab(splits={1: split(), 2: replace(split(), proxy=np.arange(2))}),
    "the names of a data set and its owners": lambda: with_data(name="other"),
    "profiles and presence": lambda: lab(fleet=dict.fromkeys("abc", object())),
    "links": lambda: lab(links={"a": object()}, server_link=object(), topology={"cell": object()}),
    "the server's profile": lambda: lab(server=object()),
    "how many are asked": lambda: lab(asked={"mine": 7}, always_on=True),
    "another algorithm's encoding": lambda: lab(up={"other": {"weights": "int8"}}, down={"other": {}}),
    "how many train as one stack": lambda: lab(stack={"mine": 7}),
    "algorithms beside it": lambda: lab(algorithms={"other": Guarded("other", Same(TRAINING)), **lab().algorithms}),
}


def with_other(old: Any, new: Any) -> dict[str, tuple[Any, ...]]:
    """All jobs with the arguments of this value replaced, also inside a stack of one."""
    return {
        name: tuple(new if arg == old else (new,) if arg == (old,) else arg for arg in args)
        for name, args in JOBS.items()
    }


def stack(names: str) -> tuple[Any, ...]:
    job, run, round, *_ = JOBS["stack"]
    return job, run, round, tuple(names), (DOWN,) * len(names), (MEMORY,) * len(names), False


ARGUMENTS: dict[str, tuple[str, tuple[Any, ...]]] = {
    "the device": ("train", (JOBS["train"][0], RUN, "b", *JOBS["train"][3:])),
    "whom a round asks": ("request", (*JOBS["request"][:-1], ("a", "c"))),
    "who answered": ("combine", (*JOBS["combine"][:4], {"a": REPLIES["a"]}, DOWN)),
    "whose an upload is": ("combine", (*JOBS["combine"][:4], {"a": REPLIES["a"], "c": REPLIES["b"]}, DOWN)),
    "an upload": ("combine", (*JOBS["combine"][:4], {**REPLIES, "a": (UP_B, 5)}, DOWN)),
    "how many examples an upload counts for": ("combine", (*JOBS["combine"][:4], {**REPLIES, "a": (UP_A, 6)}, DOWN)),
    "a memory that the model has": ("train", (*JOBS["train"], {"a": ref("older")})),
    "a memory that the model has, in a stack": ("stack", (*JOBS["stack"], {"a": ref("older")})),
    "how stale a reply is": ("combine", (*JOBS["combine"], {"a": (2, DOWN)})),
    "the part that is evaluated": ("test", (*JOBS["test"][:3], "validation", 0, 0)),
    "the block that is evaluated": ("test", (*JOBS["test"][:5], 1)),
    "the devices of its stack": ("stack", stack("ab")),
    "whether it is measured": ("train", JOBS["measured"]),
    "the job": ("measured", JOBS["personalise"]),
}


@pytest.fixture(scope="module")
def before() -> dict[str, str]:
    return keys(lab())


def test_equal_studies_have_equal_keys_and_each_job_one_of_its_own(before: dict[str, str]) -> None:
    assert keys(lab()) == before
    assert len(set(before.values())) == len(JOBS)


@pytest.mark.parametrize("what", STUDIES)
def test_what_a_job_reads_of_the_study_is_in_its_key(what: str, before: dict[str, str]) -> None:
    other, jobs = STUDIES[what]
    assert changed(before, keys(other())) == jobs


@pytest.mark.parametrize("what", NOTHING_ELSE)
def test_what_no_job_reads_is_in_no_key(what: str, before: dict[str, str]) -> None:
    assert keys(NOTHING_ELSE[what]()) == before


@pytest.mark.parametrize("what", ARGUMENTS)
def test_each_argument_that_counts_is_in_the_key(what: str, before: dict[str, str]) -> None:
    name, other = ARGUMENTS[what]
    assert keys(lab(), {name: other})[name] != before[name]


def test_in_which_round_the_next_version_is_counts_for_the_server_s_jobs_alone() -> None:
    """Version 3 is in round 0 with 4 or 5 at work, but only with 4 is the next one in round 1."""
    four, five = (keys(lab(buffer={"mine": 1}, asked={"mine": asked})) for asked in (4, 5))
    assert changed(four, five) == {"request", "combine"}


def test_the_order_of_a_stack_counts() -> None:
    found = keys(lab(), {names: stack(names) for names in ("ab", "ba")})
    assert found["ab"] != found["ba"]


@pytest.mark.parametrize(
    ("what", "old", "new", "jobs"),
    [
        ("seed", RUN, Run("mine", 2), RUNS),
        ("round", ROUND, ROUND + 1, RUNS - {"start"}),
        ("state", JOBS["request"][3], ref("other"), {"request", "combine"}),
        ("memory", MEMORY, ref("other"), DEVICE),
        ("download", DOWN, ref("other"), DEVICE),
        ("weights", JOBS["test"][2], ref("other"), EVALUATIONS),
    ],
)
def test_each_thing_that_jobs_are_given_is_in_the_keys_of_those_that_use_it(
    what: str, old: Any, new: Any, jobs: set[str], before: dict[str, str]
) -> None:
    assert changed(before, keys(lab(), with_other(old, new))) == jobs


@pytest.mark.parametrize(
    ("purpose", "jobs"),
    [
        ("weights", {"start"}),
        ("server", SERVER),
        ("train", DEVICE),
        ("encode", DEVICE | {"request"}),
    ],
)
def test_each_seed_that_a_job_draws_from_is_in_its_key(
    purpose: str, jobs: set[str], before: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key, "derive", lambda root, *names: derive(root, *names) + (names[0] == purpose))
    assert changed(before, keys(lab())) == jobs


def test_device_and_round_count_beside_the_seeds_that_are_derived_from_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key, "derive", lambda *_names: 0)
    shard = split().train["a"]
    alike = with_split(train=dict.fromkeys("abc", shard), tests=dict.fromkeys("abc", shard))
    before = keys(alike)
    for old, new, jobs in (("a", "b", DEVICE), (ROUND, ROUND + 1, RUNS - {"start"})):
        assert changed(before, keys(alike, with_other(old, new))) == jobs


def test_what_keys_have_looked_at_before_changes_none() -> None:
    """As each array is looked at once."""
    held = {name: (np.arange(2), np.arange(3)) for name in "abc"}
    own = replace(split(), proxy=np.arange(2), train=held, validation=held)
    whole = lab(FedAvg(replace(TRAINING, per_cycle=2)), splits={1: split(), 2: own})
    runs = (RUN, Run("mine", 2))
    given = [
        *((start, run) for run in runs),
        *((train, run, name, round, DOWN, MEMORY, True) for run in runs for name in "ab" for round in (1, 2)),
        *((evaluate, run, DOWN, "validation", cycle, 0) for run in runs for cycle in (0, 1)),
        *((evaluate, RUN, DOWN, part, 0, block) for part in ("validation", "test") for block in (0, 1)),
    ]
    one = Keys(whole, "here")
    assert [one.key(job, args) for job, *args in given] == [Keys(whole, "here").key(job, args) for job, *args in given]


def test_a_combine_depends_on_what_went_down_only_if_uploads_are_differences_to_it() -> None:
    other = {"combine": (*JOBS["combine"][:-1], ref("other"))}
    for way, sees in (({}, False), ({"mine": {"fisher": "int8"}}, False), ({"mine": {"weights": "int8"}}, True)):
        assert (keys(lab(up=way), other)["combine"] != keys(lab(up=way))["combine"]) is sees


def test_a_later_time_slice_brings_other_examples() -> None:
    drifting = FedAvg(replace(TRAINING, per_cycle=2))  # so round 3 is of slice 1
    other = with_held("train", "a", 1)
    other = replace(other, algorithms={"mine": Guarded("mine", drifting)})
    assert changed(keys(lab(drifting)), keys(other)) == DEVICE


def test_the_order_in_which_replies_came_does_not_count(before: dict[str, str]) -> None:
    backwards = {"combine": (*JOBS["combine"][:4], dict(reversed(REPLIES.items())), DOWN)}
    assert keys(lab(), backwards)["combine"] == before["combine"]


def test_the_label_does_not_count(before: dict[str, str]) -> None:
    run = Run("other", 1)
    renamed = {name: (job, run, *args) for name, (job, _, *args) in JOBS.items()}
    assert keys(lab(label="other"), renamed) == before


def test_equal_weights_are_evaluated_once_whatever_made_them(before: dict[str, str]) -> None:
    other = keys(lab(Same(replace(TRAINING, lr=7.0))))
    assert {name for name in EVALUATIONS if other[name] == before[name]} == EVALUATIONS


@pytest.mark.parametrize("of", ["torch", "torch_git", "numpy", "numerics"])
def test_versions_and_the_machines_arithmetic_are_in_every_key(
    of: str, before: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, name = {"torch": (torch, "__version__"), "torch_git": (torch.version, "git_version")}.get(
        of, (np, "__version__")
    )
    if of != "numerics":
        monkeypatch.setattr(owner, name, "another")
    assert changed(before, keys(lab(), JOBS, "there" if of == "numerics" else "here")) == ALL


def watched(thing: Any, read: set[str]) -> Any:
    """A copy that notes which of its fields are read."""
    names = {each.name for each in fields(thing)}

    def note(self: Any, name: str) -> Any:
        read.update({name} & names)
        return object.__getattribute__(self, name)

    found = copy(thing)
    object.__setattr__(found, "__class__", type("Watched", (type(thing),), {"__getattribute__": note}))
    return found


@pytest.mark.slow
def test_jobs_read_nothing_of_the_study_but_what_keys_know_of() -> None:
    read: dict[str, set[str]] = {"lab": set(), "split": set(), "data": set()}
    whole = lab(FedCurv(TRAINING))
    splits: Mapping[int, Division] = {1: watched(split(), read["split"])}
    parts = replace(whole, splits=splits, dataset=watched(dataset(), read["data"]))
    rounds(watched(parts, read["lab"]), rounds=2)
    of_the_round = {"buffer", "asked"}  # which turn the round is for algorithms: keys have the turn
    of_the_probe = {"trains_on"}  # what it computes, and its hardware, differ from one place to the next: "numerics"
    assert read == {
        "lab": {
            "model",
            "dataset",
            "splits",
            "algorithms",
            "fleet",
            "augment",
            "selections",
            "up",
            "down",
            "metrics",
            "task_name",
        }
        | of_the_round
        | of_the_probe,
        "split": {"train", "validation", "tests", "proxy"},
        "data": {"x", "y", "x_test", "y_test", "classes", "inputs"},
    }


def test_an_optimiser_of_one_s_own_is_own_code_and_its_file_is_in_the_key(before: dict[str, str]) -> None:
    job, *args = JOBS["train"]
    path = "tests.algorithms.training.test_optimizers:lars"
    own = lab(FedAvg(replace(TRAINING, optimizer=path)))
    assert (Keys(lab(), "n").own(job, args), Keys(own, "n").own(job, args)) == (False, True)
    parts = Keys(own, "n").parts(job, args)
    assert parts["sources"] != Keys(lab(), "n").parts(job, args)["sources"]
    assert parts["algorithm"]["training"]["optimizer"] == path
    assert keys(own)["train"] != before["train"]
