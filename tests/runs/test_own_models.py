"""Users' networks: their logits are found wherever they are, and what is no network for this is told in one line."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load as tensors

from algorithms import models, own
from emulator.forecast.rehearsal import rehearse
from emulator.lab.build import lab_of
from emulator.lab.doubts import about_model
from emulator.lab.lab import Lab
from emulator.play.conduct import Conduct
from emulator.record.run import Run
from scenarios.load import BadScenario, build
from tests.all_of import all_of
from tests.conftest import SMALL, merged
from tests.runs import own_models, own_tasks

NAMES = own_models.__name__
WITH_LOGITS = ("Dict", "HuggingFace", "InTraining")
X = torch.linspace(-1, 1, 5 * 64).view(5, 1, 8, 8)


def lab(name, **says) -> Lab:
    return lab_of(build(merged(SMALL, {"model": f"{NAMES}:{name}", "seeds": [1], **says})))


@pytest.mark.parametrize("name", WITH_LOGITS)
@pytest.mark.parametrize("how", [False, True])
def test_logits_are_taken_by_attribute_or_key(name, how):
    network, plain = (models.build(f"{NAMES}:{each}", 3, 10).train(how) for each in (name, "Plain"))
    assert torch.equal(network(X), plain(X))


ALGORITHMS = ["fedavg", "fedcurv", {"fedcurv": {"fisher": "exact"}, "name": "exact"}, "fedcl", "uga", "agentimportance"]


@pytest.mark.slow
@pytest.mark.parametrize("stack", [1, 4])
@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=str)
def test_such_a_network_is_trained_weighed_tested_and_charged_as_one_that_returns_them(play, algorithm, stack):
    """Every line but those with digests of weights is the same; and these too where the loop computes them."""
    changes = {"training": {"batch": 64, "stack": stack}, "data": {"split": {"kind": "iid"}}, "evaluate": {"every": 1}}
    one, other = (play(algorithm, model=f"{NAMES}:{name}", **changes) for name in ("HuggingFace", "Plain"))
    assert one.outcome.failure is other.outcome.failure is None
    assert one.events == other.events
    assert one.rounds == other.rounds
    assert one.model == other.model


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("Tuple", "a tuple of 2"),
        ("TupleWhenTested", "a tuple of 2"),
        ("Other", "a dict of prediction, features"),
        ("Nothing", "nothing"),
    ],
)
def test_what_has_no_logits_is_told_in_one_line(name, what):
    with pytest.raises(BadScenario) as told:
        lab(name)
    logits = "it must return the logits, (2, 10) for 2 examples, or what has them as `logits`"
    assert str(told.value).endswith(f"{NAMES}:{name} returns {what}; {logits}")


@pytest.mark.parametrize(("name", "tensor"), [("Half", "hidden.weight"), ("HalfBuffer", "shift")])
def test_weights_that_cannot_travel_are_refused_before_anything_is_computed(name, tensor):
    with pytest.raises(BadScenario, match=f"{tensor} is bfloat16; it must be one of float32, float64, float16"):
        lab(name)


# ---- softmax


@pytest.mark.parametrize("name", ["Soft", "SoftWhenTested"])
def test_a_softmax_at_the_end_is_warned_of(name):
    (told,) = about_model(lab(name))
    assert told.startswith(f"the outputs of {NAMES}:{name} are >= 0 and sum to 1, as after a softmax; ")
    assert "cross-entropy of logits" in told


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("Soft", {"task": {"name": "classification", "metrics": ["f1"]}}),
        ("soft_words", {"task": "language", "data": {"set": f"{own_tasks.__name__}:counting"}}),
        ("soft_pixels", {"task": "segmentation", "data": {"set": f"{own_tasks.__name__}:spots"}}),
    ],
)
def test_whatever_is_measured_of_classes(name, says):
    (told,) = about_model(lab(name, **says))
    assert "as after a softmax" in told


@pytest.mark.parametrize("name", ["Plain", "HuggingFace", "LogSoft", "Sigmoid", "Positive"])
def test_any_other_end_is_not(name):
    assert list(about_model(lab(name))) == []


@pytest.mark.parametrize(
    ("outputs", "are"),
    [
        ([[0.25, 0.75], [1.0, 0.0]], True),
        ([[0.25, 0.75], [0.5, 0.4]], False),
        ([[0.25, 0.75], [1.5, -0.5]], False),
        ([[[0.1, 0.9], [0.6, 0.4]], [[0.3, 0.7], [1.0, 0.0]]], True),  # of texts, at each position
        ([[[0.1, 0.9], [0.6, 0.4]], [[0.3, 0.7], [1.0, 1.0]]], False),
    ],
)
def test_probabilities_are_not_below_0_and_sum_to_1_in_each_example(outputs, are):
    assert own.probabilities(torch.tensor(outputs)) is are


def test_rounding_hides_no_softmax():
    logits = torch.randn(2, 50_000, generator=torch.Generator().manual_seed(1))
    assert own.probabilities(logits.softmax(-1))
    assert own.probabilities(logits.half().softmax(-1).float())


@pytest.mark.slow
@pytest.mark.parametrize(
    "command", [["check"], ["compare", "--workers", "0", "--out", "out"]], ids=["check", "compare"]
)
def test_the_commands_say_so(fedlapse, command):
    scenario = merged(SMALL, {"model": f"{NAMES}:Soft", "seeds": [1], "rounds": {"max": 1}})
    Path("soft.yaml").write_text(json.dumps(scenario))
    done = fedlapse(command[0], "soft.yaml", *command[1:])
    assert done.returncode == 0
    assert f"fedlapse: the outputs of {NAMES}:Soft are >= 0 and sum to 1" in " ".join(done.stderr.split())


# ---- a network instead of a function


def test_a_network_is_copied_with_its_weights_whatever_the_seed():
    before = {name: value.clone() for name, value in own_models.made.state_dict().items()}
    for seed in (0, 1):
        network = models.build(f"{NAMES}:made", seed, 10)
        assert network is not own_models.made
        assert all_of(torch.equal(value, before[name]) for name, value in network.state_dict().items())
        with torch.no_grad():
            for parameter in network.parameters():
                parameter.zero_()
    assert all_of(torch.equal(value, before[name]) for name, value in own_models.made.state_dict().items())


def test_it_is_trained_from_these_weights(play):
    """A rate this small moves nothing."""
    still = {"training": {"lr": 1e-30}, "rounds": {"max": 1}}
    for seed in (1, 2):
        model = tensors(play(model=f"{NAMES}:made", seed=seed, **still).model)
        for name, value in own_models.made.state_dict().items():
            assert torch.equal(model[name], value)


def test_it_is_rehearsed_as_any_other():
    scenario = build(merged(SMALL, {"model": f"{NAMES}:made", "seeds": [1]}))
    assert rehearse(lab_of(scenario), Run("fedavg", 1), Conduct.of(scenario)).rows


def test_a_function_makes_a_new_network_at_each_call():
    """Else a second seed would begin with the weights that the first one trained."""
    with pytest.raises(BadScenario, match="returned the same network twice; it must make a new one at each call"):
        lab("always_the_same")


def test_buffers_that_never_travel_may_be_of_any_type():
    network = models.build(f"{NAMES}:Turned", 1, 10)
    assert lab("Turned").module.state_dict().keys() == network.state_dict().keys()
    assert network.turn.dtype == torch.complex64
