"""Whole runs of a network of which a part is frozen: the bytes by hand, and the same results wherever they are made."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load as tensors
from safetensors.torch import save_file
from torch import Tensor, nn

from algorithms import models
from algorithms.algorithm import Load
from algorithms.networks import Network
from emulator.compute.executors import Inline
from emulator.conversation.device import Home
from emulator.forecast.plan import forecast_of
from emulator.forecast.travel import Travel
from emulator.lab.build import built, lab_of
from emulator.lab.doubts import about_model
from emulator.lab.jobs import combine, evaluate, message_limits, request, start
from emulator.lab.lab import Lab
from emulator.lab.scoring import score
from emulator.lab.seeds import seed
from emulator.lab.training import personalise_stack, train
from emulator.ledger.key import Keys
from emulator.messages.codec import decode
from emulator.messages.files import Memory
from emulator.messages.store import EMPTY, NOTHING
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
from tests.runs.nets import DENSE, NORMED

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
    states = [start(lab, Memory(), Run("fedavg", seed)) for seed in (1, 2)]
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

    model = {"name": DENSE, "train": "1.bias 4.*", "keep": "4.bias"}
    changes = {"model": model, "training": {"stack": 2}, "algorithms": [{"fedcurv": {"strength": 0.05}}]}
    alone = digests(results(tmp_path / "0", changes))
    for workers in (1, 2):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("emulator.report.page.page", lambda results: "a page")
            out, playing = tmp_path / str(workers), Playing(workers=workers, quiet=True, no_ledger=True)
            assert play_scenario(build(merged(SMALL, changes)), playing, out=out).code == 0
        assert digests(out) == alone


# ---- what each device keeps


BODY = {"name": DENSE, "keep": "4.*"}
FIRST = 2  # rounds of seed 1 that ask a device each, before one is asked again
WHOLE = {"training": {"batch": 1000, "epochs": 2, "lr": 0.5}, "evaluate": {"personalise_every": 1}}  # full batches
PLAIN = "tests.runs.test_travel:plain"


def plain() -> nn.Sequential:
    """64-12-10, without dropout."""
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 12), nn.ReLU(), nn.Linear(12, 10))


def by_hand(lab: Lab, seed: int, heads: dict[str, dict[str, Tensor]], body: dict[str, Tensor]) -> dict[str, Tensor]:
    """A round of FedPer (Arivazhagan et al. 2019) on all devices in torch: changes the heads, returns the new body."""
    sums, total = {name: torch.zeros_like(value, dtype=torch.float64) for name, value in body.items()}, 0
    for device in lab.names:
        model = plain()
        model.load_state_dict({**body, **heads[device]})
        x, y = lab.examples("train", lab.held(seed, device))
        optimizer = torch.optim.SGD(model.parameters(), 0.5)
        for _ in range(2):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
        heads[device] = {name: value for name, value in model.state_dict().items() if name in heads[device]}
        for name in sums:
            sums[name] += len(y) * model.state_dict()[name].double()
        total += len(y)
    return {name: (value / total).float() for name, value in sums.items()}


def test_two_rounds_are_those_of_fedper_and_the_server_tests_first_heads_and_devices_their_own() -> None:
    lab, run = lab_of(scenario(model={"name": PLAIN, "keep": "3.*"}, **WHOLE)), Run("fedavg", 1)
    store = Memory()
    first = {name: value.clone() for name, value in lab.network(seed(1, "weights")).state_dict().items()}
    body, head = ({n: v for n, v in first.items() if (n[0] == "3") == of} for of in (False, True))
    heads, state, memories = dict.fromkeys(lab.names, head), start(lab, store, run), dict.fromkeys(lab.names, EMPTY)
    for round in range(2):
        down = request(lab, store, run, round, state.message, lab.names).download
        done = {n: train(lab, store, run, n, round, down.ref, memories[n].ref, True) for n in lab.names}
        memories = {n: each.kept for n, each in done.items()}
        replies = {n: (each.upload.ref, each.examples) for n, each in done.items()}
        state = combine(lab, store, run, round, state.message, replies, down.ref)
        own = {n: {**decode(store.get(done[n].upload.ref))["weights"], **decode(store.get(kept.ref))["kept-weights"]}
               for n, kept in memories.items()}  # fmt: skip
        for name in lab.names:
            shown = score(lab, own[name], "test", lab.splits[1].tests[name][0]).summed(lab)
            assert done[name].learnt.personalised[0] == shown
        body = by_hand(lab, 1, heads, body)
    found = decode(store.get(state.weights))["weights"]
    assert found.keys() == body.keys()
    assert all_of(torch.allclose(found[name], value, atol=1e-5) for name, value in body.items())
    for name in lab.names:
        ours = decode(store.get(memories[name].ref))["kept-weights"]
        assert all_of(torch.allclose(ours[n], value, atol=1e-5) for n, value in heads[name].items())
    tested = evaluate(lab, store, run, state.weights, "test", 0, 0)
    indices = np.arange(len(lab.data.y_test))
    assert np.array_equal(tested.loss, score(lab, {**found, **head}, "test", indices).loss)
    trial = personalise_stack(lab, store, run, 2, lab.names[:1], [down.ref], [memories[lab.names[0]].ref])
    assert trial[0][0].loss != done[lab.names[0]].learnt.personalised[0].loss


@pytest.mark.parametrize("algorithm", ["fedavg", {"fedcl": {"interval": 2}}, {"fedcurv": {"strength": 0.05}}], ids=str)
def test_no_message_has_what_is_kept(play: Play, algorithm: Any) -> None:
    run = play(algorithm, model=BODY, rounds={"max": 3})
    assert {n for way in ("down", "up") for row in sent(run, way) for n in row.values()} == {4 * FROZEN}
    assert tensors(run.model).keys() == {"1.weight", "1.bias"}
    facts = json.loads((run.folder / "run.json").read_text())["algorithm"]
    assert facts["keeps_uncounted"] is True


def test_fedbn_keeps_a_batch_norm_and_its_statistics(play: Play) -> None:
    run = play(model={"name": NORMED, "keep": "2.*"})
    assert sent(run, "up") == [{"weights": 4 * (FROZEN + TRAINED)}] * 2
    assert tensors(run.model).keys() == {"1.weight", "1.bias", "4.weight", "4.bias"}


def test_what_a_device_keeps_outlasts_rounds_without_it(play: Play) -> None:
    """Until a device is asked again, its memory does not matter; from then on it does."""

    def both(rounds: int) -> list[bytes]:
        """Final models of a run, and of one whose devices forget."""
        changes = {"rounds": {"max": rounds, "fraction": 0.25}, "training": {"batch": 1000}}
        with pytest.MonkeyPatch.context() as patch:
            found = [play(model=BODY, **changes)]
            patch.setattr(Home, "keep", lambda *_: None)
            asked = [line["asked"][0] for line in found[0].of("open")]
            assert (len({*asked}) == len(asked)) == (rounds == FIRST)
            return [each.model for each in (*found, play(model=BODY, **changes))]

    one, other = both(FIRST)
    assert one == other
    one, other = both(FIRST + 1)
    assert one != other


def test_without_a_penalty_the_others_keep_fedavgs_bits(play: Play) -> None:
    fedavg = play(model=BODY).model
    for algorithm in ({"fedprox": {"mu": 0.0}}, {"fedcl": {"strength": 0.0}}, {"fedcurv": {"strength": 0.0}}):
        assert play(algorithm, model=BODY).model == fedavg


def test_keys_of_jobs_know_what_is_kept_and_how_it_begins() -> None:
    lab = lab_of(scenario(model=BODY, seeds=[1, 2]))
    keys, other = Keys(lab, ""), Keys(lab_of(scenario(model=DENSE, seeds=[1, 2])), "")
    job = NOTHING, "test", 0, 0
    assert keys.key(evaluate, (Run("fedavg", 1), *job)) != keys.key(evaluate, (Run("fedavg", 2), *job))
    assert other.key(evaluate, (Run("fedavg", 1), *job)) == other.key(evaluate, (Run("fedavg", 2), *job))
    assert keys.key(evaluate, (Run("fedavg", 1), *job)) != other.key(evaluate, (Run("fedavg", 1), *job))


def test_check_and_warnings_say_what_is_kept() -> None:
    made = scenario(model={"name": DENSE, "train": "1.bias 4.*", "keep": "4.bias", "preloaded": True})
    plan = forecast_of(made, 1, draws=1)
    assert plan.travel == Travel(4 * (12 + 120), 40, 4 * 64 * 12, 0)
    said = " ".join(text(plan).split())
    assert "40 B never leave a device, which keeps its own; 3.07 kB are frozen, and are on the devices already" in said
    assert [each for each in plan.warnings if "'4.bias', kept by devices, has its first values" in each]
    assert plan.memory["fedavg"].kept == 0  # counted among the parameters


# ---- pretrained weights


def test_a_run_begins_with_the_weights_of_the_file_and_its_scenario_names_them_by_digest(tmp_path: Path) -> None:
    save_file(models.build(DENSE, 77).state_dict(), tmp_path / "w")
    said, lab = built(scenario(seeds=[1, 5], model={**HEAD, "weights": str(tmp_path / "w")}))
    first = start(lab, Memory(), Run("fedavg", 1))
    assert first == start(lab, Memory(), Run("fedavg", 5))
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
