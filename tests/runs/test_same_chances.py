"""All algorithms of a seed have the same chances: each random draw of a run is the same, whichever algorithm plays.

The draws are watched where runs make them, as digests: initial weights, examples, cohorts, the order of batches,
dropout, jitter, presence, links and places in their traces.  Each algorithm is then compared with FedAvg.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from json import dumps, loads
from typing import Any

import numpy as np
import pytest
from torch import Tensor, nn

from algorithms import fedavg, keeptrace
from algorithms.training import local, stack_model, stack_sgd
from devices import jitter
from devices.device import Device
from emulator.lab import jobs, links, parties, training
from emulator.play.stage import Stage
from emulator.pricing import costs
from emulator.record.tally import Bill
from tests.conftest import Play
from tests.runs.nets import TOLD

pytestmark = pytest.mark.slow

ROUNDS, EPOCHS, BATCH = 4, 2, 32
STEADY: dict[str, Any] = {  # all devices are online, so cohorts are the same
    "model": TOLD,
    "data": {"split": {"kind": "dirichlet", "alpha": 1.0}, "validation": 0.1},
    "training": {"epochs": EPOCHS, "batch": BATCH, "stack": 1},
    "rounds": {"max": ROUNDS, "fraction": 0.5},
    "network": {"model": "tcp"},
    "fleet": [
        {"profile": "phone-mid", "count": 6, "jitter": True, "link": {"radio": "lte-walking"}},
        {"profile": "pi-4", "count": 4, "jitter": True, "link": {"radio": "3g-driving"}},
    ],
}
ABSENT = {"renewal": {"mean_on_s": 6, "mean_off_s": 3}}
AWAY: dict[str, Any] = {
    **STEADY,
    "fleet": [{**group, "presence": ABSENT} for group in STEADY["fleet"]],
    "rounds": {"max": 5, "fraction": 0.4, "ask": 5},
}

ENTRIES: dict[str, Any] = {
    "fedprox": {"fedprox": {"mu": 0.1}},
    "fedcl": {"fedcl": {"strength": 5.0}},
    **{
        f"fedcl, {how}": {"fedcl": {"interval": 10, "strength": 5.0, "fallback": how}}
        for how in ("identity", "keep_last", "catch_up", "local_estimate")
    },
    "fedcl, si": {"fedcl": {"importance": "si", "strength": 5.0}},
    "fedcurv": {"fedcurv": {"strength": 0.05}},
    "fedcurv, lean": {"fedcurv": {"strength": 0.05, "upload": "lean"}},
    "fedcurv, sampled": {"fedcurv": {"strength": 0.05, "fisher": "sampled"}},
    **{f"fedcl, {placebo}": {"fedcl": {"strength": 5.0, "placebo": placebo}} for placebo in ("shuffled", "mean")},
    "fedcl, local_estimate, shuffled": {
        "fedcl": {"interval": 10, "strength": 5.0, "fallback": "local_estimate", "placebo": "shuffled"}
    },
    **{f"fedcurv, {placebo}": {"fedcurv": {"strength": 0.05, "placebo": placebo}} for placebo in ("shuffled", "mean")},
    "agentimportance": "agentimportance",
    "scaffold": "scaffold",
    "fedyogi": "fedyogi",
    "fedmeta": "fedmeta",
    "fedshare": "fedshare",
    "uga": "uga",
    "fedavg, encoded": {"fedavg": {"encoding": {"down": {"weights": "float16"}, "up": {"weights": "int8"}}}},
}
# Draws that have other sizes in an algorithm than in FedAvg, so that only a part, or the draw behind it, can be
# compared.
OTHER_SIZES = {
    # A device orders its own and the shared examples in one draw: there are more of them, so it is another order of
    # another number.  Its seeds are the same, and so are the masks of batches that are full in both.  Its jitter is
    # the mean of that of more steps, so its spread is less; by its quantile it is the same.
    "fedshare": ("orders", "masks", "steps", "jitter"),
    # Its training is an epoch shorter than FedAvg's; in place of the last one it takes a gradient of the same batches.
    "uga": ("steps", "jitter"),
}
Key = tuple[Any, ...]


@dataclass
class Draws:
    """The draws of a run: for each kind and each use (by whom or for what) the digest of the drawn value."""

    found: dict[str, dict[Key, Any]] = field(default_factory=dict)
    seeds: dict[int, Key] = field(default_factory=dict)  # of parties: whose, and in which round
    step: Key | None = None  # the training step that dropout was seeded for last
    stage: Any = None  # the run's parts; None before it begins, when a model is tried out

    def note(self, kind: str, key: Key, value: Any) -> None:
        """Notes a draw.  A second draw for the same use must be the same."""
        assert self.found.setdefault(kind, {}).setdefault(key, value) == value, (kind, key)

    def __getitem__(self, kind: str) -> dict[Key, Any]:
        return self.found[kind]


def digest(*parts: Any) -> str:
    made = hashlib.sha256()
    for part in parts:
        array = part.numpy() if isinstance(part, Tensor) else np.asarray(part)
        made.update(f"{array.dtype} {array.shape}".encode() + np.ascontiguousarray(array).tobytes())
    return made.hexdigest()[:16]


# ---- watching a run


def watched(patch: pytest.MonkeyPatch) -> Draws:
    """Puts an observer into each place where a run draws something."""
    draws = Draws()
    for watch in (_parties, _validation, _cohorts, _orders, _dropout, _jitter, _places):
        watch(draws, patch)
    return draws


def _wrapped(patch: pytest.MonkeyPatch, owner: Any, name: str, seen: Callable[..., None]) -> None:
    """Calls `seen` with the result and the arguments of each call."""
    true = getattr(owner, name)

    def call(*args: Any, **named: Any) -> Any:
        result = true(*args, **named)
        seen(result, *args, **named)
        return result

    patch.setattr(owner, name, call)


def _parties(draws: Draws, patch: pytest.MonkeyPatch) -> None:
    """Examples and seeds of devices, and the server's proxy set."""

    def seen(party: Any, *_: Any) -> None:
        draws.note("examples", (party.name, party.round), digest(party.x, party.y))
        draws.note("seeds", (party.name, party.round), party.seed)
        draws.seeds[party.seed] = party.name, party.round

    for module in (parties, training):
        _wrapped(patch, module, "party_of", seen)


def _validation(draws: Draws, patch: pytest.MonkeyPatch) -> None:
    def seen(examples: Any, lab: Any, run: Any, part: str, cycle: int, block: int) -> None:
        draws.note("evaluated", (part, block), digest(examples))

    _wrapped(patch, jobs, "block_of", seen)


def _cohorts(draws: Draws, patch: pytest.MonkeyPatch) -> None:
    def seen(chosen: Sequence[str], names: Sequence[str], count: int, seed: int) -> None:
        round = len(draws.found.get("cohort_seeds", ()))
        draws.note("cohort_seeds", (round,), (seed, count))
        draws.note("cohorts", (round, tuple(names)), tuple(chosen))

    _wrapped(patch, fedavg, "draw", seen)


def _orders(draws: Draws, patch: pytest.MonkeyPatch) -> None:
    """The order of batches; what the server trains on is its own affair."""

    def seen(order: Any, n: int, seed: int, epoch: int) -> None:
        if draws.stage and draws.seeds[seed][0] != "server":
            draws.note("orders", (*draws.seeds[seed], epoch), (n, digest(order)))

    for module in (local, stack_sgd):
        _wrapped(patch, module, "order", seen)


def _dropout(draws: Draws, patch: pytest.MonkeyPatch) -> None:
    """Notes the layer's masks in each step of a device, alone or in a stack.  UGA draws them again, because it replays
    steps."""

    def seeded(_: None, seed: int, step: int) -> None:
        draws.step = (*draws.seeds[seed], step) if draws.stage else None

    def seen(output: Tensor, layer: nn.Dropout, inputs: Tensor) -> None:
        at, draws.step = draws.step, None
        if layer.training and at and at[0] != "server":
            draws.note("masks", at, (len(output), digest(output != 0)))

    def seeds_of_steps(own: int, seed: int, step: int) -> None:
        if draws.stage:
            steps[own] = *draws.seeds[seed], step

    def of_stack(_: None, own: int) -> None:
        draws.step = steps[own] if draws.stage else None

    steps: dict[int, Key] = {}
    for module in (local, keeptrace):
        _wrapped(patch, module, "seeded_step", seeded)
    _wrapped(patch, stack_model, "step_seed", seeds_of_steps)
    _wrapped(patch, stack_model, "torch_seeded", of_stack)
    _wrapped(patch, nn.Dropout, "forward", seen)


def _jitter(draws: Draws, patch: pytest.MonkeyPatch) -> None:
    """By how much training takes longer; and by how many standard deviations of its logarithm."""

    def seen(bill: Bill, price: Bill, device: Device, root: int, round: int) -> None:
        steps = sum(piece.steps for piece in bill.pieces if piece.phase == "train")
        mu, sigma = jitter.parameters(1.0, device.profile.jitter / math.sqrt(steps))
        factor = bill.jitter["train"]
        draws.note("steps", (device.name, round), steps)
        draws.note("jitter", (device.name, round), factor)
        draws.note("quantiles", (device.name, round), f"{(math.log(factor) - mu) / sigma:.6f}")

    _wrapped(patch, costs, "jittered", seen)


def _places(draws: Draws, patch: pytest.MonkeyPatch) -> None:
    def seen(place: float, root: int, purpose: str, name: str) -> None:
        draws.note("places", (name,), (purpose, place))

    def staged(_: None, stage: Stage, *args: Any) -> None:
        draws.stage = stage

    _wrapped(patch, links, "share", seen)
    _wrapped(patch, Stage, "__init__", staged)


# ---- what the run's own objects say afterwards


def _afterwards(draws: Draws, played: Any, until: float) -> None:
    stage = draws.stage
    draws.note("weights", (), played.of("open")[0]["model"])
    for name in stage.lab.names:
        draws.note("presence", (name,), changes(stage.lab.fleet[name].presence, until))
        draws.note("links", (name,), _traces(stage.traffic.placed.links[name]))


def changes(presence: Any, until: float) -> tuple[float, ...]:
    """When the device goes offline and comes back, in turn; at 0 s it comes, or is offline."""
    found, t, on = [], 0.0, False
    while t < until:
        t = presence.next_off(t) if on else presence.next_on(t)
        found, on = [*found, t], not on
    return tuple(found)


def _traces(link: Any) -> str:
    return digest(*(part for way in (link.down, link.up) for part in (way.edges, way.rates, way.offset)))


# ---- runs


@pytest.fixture(scope="module")
def run(play: Play) -> Callable[..., tuple[Draws, Any]]:
    """Plays each run once, and watches it."""

    @cache
    def once(algorithm: str, changes: str, seed: int) -> tuple[Draws, Any]:
        with pytest.MonkeyPatch.context() as patch:
            draws = watched(patch)
            played = play(loads(algorithm), seed, **loads(changes))
        _afterwards(draws, played, until=60.0)
        return draws, played

    return lambda algorithm, changes, seed=1: once(dumps(algorithm), dumps(changes), seed)


def unlike(mine: Draws, plain: Draws) -> set[str]:
    """Kinds of draws that are not the same, or not for the same uses."""
    return {kind for kind in mine.found.keys() | plain.found.keys() if mine.found.get(kind) != plain.found.get(kind)}


def differing(mine: Mapping[Key, Any], plain: Mapping[Key, Any]) -> tuple[int, list[Key]]:
    """The number of uses that both runs have, and the uses whose draws differ."""
    both = mine.keys() & plain.keys()
    return len(both), sorted((key for key in both if mine[key] != plain[key]), key=str)


KINDS = {"weights", "examples", "seeds", "evaluated", "cohort_seeds", "cohorts", "orders", "masks"} | {
    *("steps", "jitter", "quantiles", "places", "links", "presence")
}


@pytest.mark.parametrize("entry", ENTRIES)
def test_what_is_drawn_is_what_fedavg_draws(run: Any, entry: str) -> None:
    mine, plain = run(ENTRIES[entry], STEADY)[0], run("fedavg", STEADY)[0]
    assert mine.found.keys() == plain.found.keys() == KINDS
    assert unlike(mine, plain) == set(OTHER_SIZES.get(entry, ()))


def test_so_much_is_drawn(run: Any) -> None:
    """Else nothing was compared: 5 of 10 devices in each of 4 rounds, and all of them once for their own tests."""
    plain, played = run("fedavg", STEADY)
    asked = {(name, line["round"]) for line in played.of("open") for name in line["asked"]}
    assert len(asked) == 5 * ROUNDS
    assert asked <= {key for key in plain["examples"] if key[0] != "server"}
    assert plain["jitter"].keys() == asked
    assert plain["orders"].keys() >= {(*key, epoch) for key in asked for epoch in range(EPOCHS)}
    assert plain["masks"].keys() >= {(*key, step) for key in asked for step in range(plain["steps"][key])}
    assert {place for (place,) in plain["places"]} == {"server", *plain.stage.lab.names}
    for kind in KINDS - {"weights", "presence", "steps", "cohort_seeds", "cohorts", "evaluated"}:
        found = list(plain[kind].values())
        assert len(set(found)) > len(found) / 4, kind  # no constant


@pytest.mark.parametrize("entry", ["fedavg", "fedcurv", "fedcl, local_estimate, shuffled", "scaffold"])
def test_in_stacks_too(run: Any, entry: str) -> None:
    mine = run(ENTRIES.get(entry, entry), {**STEADY, "training": {**STEADY["training"], "stack": 3}})[0]
    assert mine.stage.lab.stack == {mine.stage.run.label: 3}
    assert unlike(mine, run("fedavg", STEADY)[0]) == set()


def test_who_trains_on_more_examples_has_the_same_chances_beside_them(run: Any) -> None:
    """FedShare orders its examples for the same uses, and batches that are full under both have the same dropout."""
    mine, plain = run("fedshare", STEADY)[0], run("fedavg", STEADY)[0]
    assert mine["orders"].keys() == plain["orders"].keys()
    full = [{key: mask for key, mask in each["masks"].items() if mask[0] == BATCH} for each in (mine, plain)]
    compared, other = differing(*full)
    assert (compared > 50, other) == (True, [])


# ---- devices that come and go


@pytest.mark.parametrize("entry", ENTRIES)
def test_where_devices_come_and_go_so_is_what_is_drawn_for_the_same_use(run: Any, entry: str) -> None:
    """Who is online when a round opens depends on how long rounds take, and so on what algorithms send: of cohorts the
    seeds are the same, and whom they draw of the same devices; of all else what both algorithms asked for."""
    (mine, of_mine), (plain, _) = run(ENTRIES[entry], AWAY), run("fedavg", AWAY)
    for kind in ("weights", "links", "presence"):
        assert mine[kind] == plain[kind]
    first = next(iter(plain["cohorts"]))
    assert first in mine["cohorts"]
    for kind in KINDS - set(OTHER_SIZES.get(entry, ())):
        compared, other = differing(mine[kind], plain[kind])
        assert (compared > 0, other) == (True, []), kind
    moves = of_mine.of("off") + of_mine.of("on")
    assert moves
    for line in moves:
        assert nearest(line["t"], mine["presence"][line["device"],]) == pytest.approx(line["t"], abs=1e-9)


def nearest(t: float, times: Sequence[float]) -> float:
    return min(times, key=lambda each: abs(each - t))


def test_devices_do_come_and_go_there(run: Any) -> None:
    plain, played = run("fedavg", AWAY)
    assert played.of("off")
    cohorts = [names for _, names in plain["cohorts"]]
    assert len(set(cohorts)) > 1


# ---- the controls


@pytest.mark.parametrize("changes", [STEADY, AWAY], ids=["steady", "away"])
def test_another_seed_draws_otherwise(run: Any, changes: Any) -> None:
    """Everything differs but the draws for all seeds: the fleet's links and presence are the same, from other places
    on."""
    one, other = (run("fedavg", changes, seed)[0] for seed in (1, 2))
    assert unlike(one, other) == KINDS - {"presence"}
    for kind in ("seeds", "cohort_seeds", "masks", "orders", "jitter", "quantiles", "places", "links"):
        compared, others = differing(one[kind], other[kind])
        assert len(others) > 0.95 * compared > 0, kind  # a few values may be in one order, or all be kept, by chance


def test_another_fleet_is_drawn_otherwise(run: Any) -> None:
    one, other = run("fedavg", AWAY)[0], run("fedavg", {**AWAY, "fleet_seed": 7})[0]
    for kind in ("links", "presence"):
        compared, others = differing(one[kind], other[kind])
        assert len(others) == compared == 10
    for kind in ("weights", "seeds", "places"):
        assert differing(one[kind], other[kind])[1] == []
