"""Whole runs of a network of which a part is frozen: the bytes by hand, and the same results wherever they are made."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load as tensors
from safetensors.torch import save_file

from algorithms import models
from algorithms.algorithm import Load
from algorithms.networks import Network
from emulator.compute.executors import Inline
from emulator.forecast.plan import forecast_of
from emulator.lab.build import built, lab_of
from emulator.lab.doubts import about_model
from emulator.lab.jobs import evaluate, message_limits, request, start
from emulator.ledger.key import Keys
from emulator.messages.store import NOTHING
from emulator.play.conduct import Conduct
from emulator.play.over_sockets import run_sockets
from emulator.play.run import run_virtual
from emulator.pricing.costs import Costs
from emulator.pricing.memory import footprint
from emulator.record.run import Run
from emulator.results.settings import settings
from emulator.wording.plan_text import text
from scenarios.load import BadScenario, build, dump, parse
from tests.all_of import all_of
from tests.conftest import SMALL, Play, Played, digests, merged, results
from tests.runs.nets import DENSE

HEAD = {"name": DENSE, "train": "4.*"}
TRAINED, FROZEN = 4 * (12 * 10 + 10), 4 * (64 * 12 + 12)  # bytes: 64-12-10
LINK = {"up_mbit_s": 8, "down_mbit_s": 8}


def scenario(**changes: Any) -> Any:
    return build(merged(SMALL, {"model": HEAD, **changes}))


def sent(run: Played, way: str) -> list[dict[str, int]]:
    """Bytes of all devices by kind in each round, without the frames."""
    return [{kind: n for kind, n in row["bytes"][way].items() if kind != "frame"} for row in run.rounds]


# ---- bytes


@pytest.mark.parametrize(
    ("algorithm", "down", "up"),
    [
        ("fedavg", [{"weights": 4}] * 3, [{"weights": 4}] * 3),
        ({"fedcl": {"interval": 2}}, [{"weights": 4, "importance": 4}, {"weights": 4}, {"weights": 4, "importance": 4}],
         [{"weights": 4}] * 3),
        ({"fedcurv": {"strength": 0.05}}, [{"weights": 4}, *[{"weights": 4, "fisher": 4, "fisher_theta": 4}] * 2],
         [{"weights": 4, "fisher": 4, "fisher_theta": 4}] * 3),
    ],
    ids=["fedavg", "fedcl", "fedcurv"],
)  # fmt: skip
def test_each_message_has_what_is_trained_and_the_first_one_also_what_is_frozen(
    play: Play, algorithm: Any, down: list[dict[str, int]], up: list[dict[str, int]]
) -> None:
    run = play(algorithm, model=HEAD, rounds={"max": 3})
    assert sent(run, "up") == [{kind: n * TRAINED for kind, n in row.items()} for row in up]
    wanted = [{kind: n * TRAINED for kind, n in row.items()} for row in down]
    assert sent(run, "down") == [{**wanted[0], "frozen": 4 * FROZEN}, *wanted[1:]]
    there = play(algorithm, model={**HEAD, "preloaded": True}, rounds={"max": 3})
    assert sent(there, "down") == wanted
    assert there.model == run.model
    assert all_of(value.numel() * 4 in (480, 40) for value in tensors(run.model).values())


def test_a_smaller_encoding_is_of_what_travels(play: Play) -> None:
    run = play({"fedavg": {"encoding": {"up": {"weights": "float16"}, "down": {"weights": "float16"}}}}, model=HEAD)
    assert sent(run, "up") == [{"weights": 4 * TRAINED // 2}] * 2
    assert sent(run, "down") == [{"weights": 2 * TRAINED, "frozen": 4 * FROZEN}, {"weights": 2 * TRAINED}]


def test_a_device_that_is_asked_later_gets_it_then_and_each_gets_it_once(play: Play) -> None:
    run = play(model=HEAD, rounds={"max": 6, "fraction": 0.25})
    asked = [line["asked"] for line in run.of("open")]
    new = [len(set(names) - {name for row in asked[:k] for name in row}) for k, names in enumerate(asked)]
    assert [row.get("frozen", 0) for row in sent(run, "down")] == [FROZEN * n for n in new]
    assert 0 in new
    assert sum(new) > 1


def test_a_device_whose_first_download_was_lost_gets_it_again(play: Play) -> None:
    """3,640 bytes at 8 kB/s take 0.455 s; it goes away after 0.2 s, and the second round finds it back."""
    slow = {"profile": "pi", "count": 1, "link": {"up_mbit_s": 8, "down_mbit_s": 0.064}}
    fleet = [slow, {"profile": "phone-mid", "count": 1, "link": LINK, "presence": {"off": [[0.0005, 0.3]]}}]
    run = play(model=HEAD, fleet=fleet, rounds={"max": 2})
    assert [row["lost"] for row in run.rounds] == [1, 0]
    assert sent(run, "down")[1]["frozen"] == FROZEN


def test_asynchronous_versions_bring_it_once_to_each_device(play: Play) -> None:
    rounds = {"max": 3, "mode": "async", "buffer": 1, "in_flight": 2}
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(SMALL, "rounds", {})
        run = play(model=HEAD, rounds=rounds)
    devices = {name for line in run.events for name in line.get("asked", ())}
    assert len(devices) > 2
    assert sum(row.get("frozen", 0) for row in sent(run, "down")) == FROZEN * len(devices)


def test_over_sockets_the_same_bytes_travel(tmp_path: Path) -> None:
    made = scenario(rounds={"max": 2})
    lab, run, conduct = lab_of(made), Run("fedavg", 1), Conduct.of(made)
    asyncio.run(run_virtual(lab, run, conduct, Inline(lab), tmp_path / "virtual"))
    asyncio.run(run_sockets(lab, run, conduct, Inline(lab), tmp_path / "sockets", speedup=4.0))
    one, other = (Played(tmp_path / world, None) for world in ("virtual", "sockets"))
    assert sent(one, "down") == sent(other, "down") == [{"weights": 4 * TRAINED, "frozen": 4 * FROZEN},
                                                        {"weights": 4 * TRAINED}]  # fmt: skip
    assert one.model == other.model


def test_the_limit_of_a_download_has_room_for_it() -> None:
    one, other = (message_limits(lab_of(scenario(model={**HEAD, **more})), Run("fedavg", 1))
                  for more in ({}, {"preloaded": True}))  # fmt: skip
    assert one[0] - other[0] == FROZEN
    assert one[1] == other[1]


# ---- results


def test_without_a_penalty_the_others_are_fedavg_bit_for_bit(play: Play) -> None:
    plain = play(model=HEAD).model
    for algorithm in ({"fedprox": {"mu": 0.0}}, {"fedcl": {"strength": 0.0}}, {"fedcurv": {"strength": 0.0}}):
        assert play(algorithm, model=HEAD).model == plain


def test_frozen_weights_are_the_same_for_all_seeds_and_trained_ones_are_not() -> None:
    lab = lab_of(scenario(seeds=[1, 2]))
    states = [start(lab, Inline(lab).store, Run("fedavg", seed)) for seed in (1, 2)]
    assert states[0].weights != states[1].weights
    assert lab.frozen.keys() == {"1.weight", "1.bias"}
    assert torch.equal(lab.frozen["1.weight"], lab_of(scenario(seeds=[2])).frozen["1.weight"])


def test_a_name_alone_is_what_it_always_was(play: Play) -> None:
    assert play(model=DENSE).model == play(model={"name": DENSE}).model
    assert "model: tests.runs.nets:dense\n" in dump(scenario(model={"name": DENSE}))


@pytest.mark.slow
def test_workers_change_no_byte(tmp_path: Path) -> None:
    from emulator.sessions.computing import Playing
    from emulator.sessions.one_scenario import play_scenario

    changes = {"model": HEAD, "training": {"stack": 2}, "algorithms": [{"fedcurv": {"strength": 0.05}}]}
    alone = digests(results(tmp_path / "0", changes))
    for workers in (1, 2):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("emulator.report.page.page", lambda results: "a page")
            out, playing = tmp_path / str(workers), Playing(workers=workers, quiet=True, no_ledger=True)
            assert play_scenario(build(merged(SMALL, changes)), playing, out=out).code == 0
        assert digests(out) == alone


# ---- pretrained weights


def test_a_run_begins_with_the_weights_of_the_file_and_its_scenario_names_them_by_digest(tmp_path: Path) -> None:
    save_file(models.build(DENSE, 77).state_dict(), tmp_path / "w")
    said, lab = built(scenario(seeds=[1, 5], model={**HEAD, "weights": str(tmp_path / "w")}))
    first = start(lab, Inline(lab).store, Run("fedavg", 1))
    assert first == start(lab, Inline(lab).store, Run("fedavg", 5))
    digest = said.model.digest
    assert digest
    again = parse(dump(said), "scenario.yaml")
    assert built(again)[0].model == said.model
    keys = [Keys(each, "") for each in (lab, lab_of(scenario()), lab_of(scenario(model=DENSE)))]
    models_of = [each.parts(evaluate, (Run("fedavg", 1), NOTHING, "test", 0, 0))["model"] for each in keys]
    assert [set(each) - {"name", "classes", "task"} for each in models_of] == [{"weights", "train"}, {"train"}, set()]
    assert models_of[0]["weights"] == digest
    save_file(models.build(DENSE, 78).state_dict(), tmp_path / "w")
    with pytest.raises(BadScenario, match=r"w has SHA-256 .*\.\.\.; it must be the same file"):
        built(again)


def test_a_request_with_frozen_weights_has_a_key_of_its_own() -> None:
    lab = lab_of(scenario())
    keys, args = Keys(lab, ""), (Run("fedavg", 1), 0, NOTHING, ("phone-mid-0", "pi-4-0"))
    assert len({keys.key(request, (*args, *more)) for more in ((), (("pi-4-0",),), (("phone-mid-0",),))}) == 3


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ({"weights": "nowhere.safetensors"}, "cannot read nowhere.safetensors: No such file"),
        ({"train": "9.*"}, "which matches none of"),
        ({"digest": "0" * 64}, "digest belongs to weights"),
        ({"preloaded": True}, "preloaded is of frozen weights"),
    ],
)
def test_what_cannot_be_is_told_in_one_line(model: dict[str, Any], said: str) -> None:
    with pytest.raises(BadScenario, match=said) as told:
        lab_of(build(merged(SMALL, {"model": {"name": DENSE, **model}})))
    assert "\n" not in str(told.value)


def test_a_key_of_a_model_that_was_a_name_can_be_changed_for_one_run() -> None:
    found = parse(dump(scenario(model=DENSE)), "x.yaml", ["model.train=4.*"])
    assert (found.model.name, found.model.train) == (DENSE, "4.*")


# ---- what users are told


def test_frozen_weights_count_in_memory_and_have_no_gradient() -> None:
    parts = [footprint(lab_of(scenario(model=model)), "fedavg", Load(0, 100, 910), TRAINED, 0, 0)
             for model in (HEAD, DENSE)]  # fmt: skip
    assert [part.parameters for part in parts] == [TRAINED + FROZEN] * 2
    assert [part.gradients for part in parts] == [TRAINED, TRAINED + FROZEN]
    assert parts[0].activations < parts[1].activations


def test_a_device_needs_no_second_room_for_frozen_weights_that_have_just_arrived() -> None:
    costs, received = Costs(lab_of(scenario()), "fedavg", 1), {"weights": TRAINED, "frame": 86}
    assert costs.duty("pi-4-0", 0, {**received, "frozen": FROZEN}, {}) == costs.duty("pi-4-0", 0, received, {})


def test_check_says_what_travels_and_leaves_the_first_messages_out_of_its_means() -> None:
    plan = forecast_of(scenario(rounds={"max": 5}), 1, draws=1)
    assert plan.travel
    assert (plan.travel.travels, plan.travel.frozen, plan.travel.brought) == (TRAINED, FROZEN, FROZEN)
    assert plan.prices["fedavg"].down_bytes["weights"] == 4 * TRAINED
    assert "frozen" not in plan.prices["fedavg"].down_bytes
    said = " ".join(text(plan).split())
    assert "Of the model 520 B travel with each message; 3.12 kB are frozen, and travel once to each device" in said
    there = replace(plan, travel=replace(plan.travel, brought=0))
    assert "3.12 kB are frozen, and are on the devices already." in " ".join(text(there).split())


def test_random_weights_that_stay_random_are_warned_of() -> None:
    lab = lab_of(scenario(model={"name": "digits-mlp", "train": "fc2.*"}))
    assert [said for said in about_model(lab) if "random" in said]
    given = replace(lab, model=Network("digits-mlp", "w", "0", "fc2.*"))
    assert not [said for said in about_model(given) if "random" in said]


def test_settings_name_what_is_trained() -> None:
    assert "model.train 4.*" in str(settings(scenario()).rows[0])
    assert "model" not in str(settings(scenario(model=DENSE)).rows[0])
