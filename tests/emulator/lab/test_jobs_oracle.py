"""Stacks as the lab makes them of bytes, seeds and memories, against programs that know nothing of these."""

from __future__ import annotations

from typing import Any

import pytest

from algorithms.algorithm import Party
from algorithms.models import cross_entropy
from emulator.lab.build import lab_of
from emulator.lab.guarded import unguarded
from emulator.lab.jobs import combine, request, start
from emulator.lab.lab import CPU
from emulator.lab.seeds import seed
from emulator.lab.training import train_stack
from emulator.messages.codec import decode
from emulator.messages.files import Memory
from emulator.messages.store import NOTHING
from emulator.record.run import Run
from scenarios.load import build
from tests.algorithms import oracle
from tests.conftest import SMALL, merged
from tests.runs.nets import TOLD, told

ROUNDS = ((0, 1, 2, 3), (0, 1)), ((1, 3, 4, 5), (3, 4)), ((0, 3, 4, 5), (0, 3, 4, 5))  # devices asked, and counted
FLEET = [{**group, "count": 20} for group in SMALL["fleet"]]
TRAINING = {"epochs": 2, "batch": 10, "momentum": 0.9, "lr_decay": 0.9, "stack": 4}
UNEQUAL = {"split": {"kind": "dirichlet", "alpha": 1.0, "sizes_sigma": 0.5}}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("key", "options"),
    [
        ("fedcl", {"interval": 2, "importance": "sq", "strength": 2.0}),
        ("fedcurv", {"fisher": "sampled"}),
        ("agentimportance", {"weigh_by": "raw"}),
        ("scaffold", {}),
    ],
)
def test_rounds_of_the_lab_are_the_oracles(key: str, options: dict[str, Any]) -> None:
    """In float32: some hundred operations, each with an error of 6e-8."""
    changes = {"data": UNEQUAL, "model": TOLD, "training": TRAINING, "fleet": FLEET, "algorithms": [{key: options}]}
    lab, store, run = lab_of(build(merged(SMALL, changes))), Memory(), Run(key, 1)
    names, net = lab.names[::7], oracle.Net(told().double())
    state = start(lab, store, run)
    known = {name.lower(): kind for name, kind in vars(oracle).items()}[key](
        net, unguarded(lab.algorithms[key]), net.vector(decode(store.get(state.weights))["weights"])
    )
    kept = dict.fromkeys(names, NOTHING)

    def party(name: str, purpose: str, examples: Any, round: int) -> Party:
        drawn = seed(1, purpose, name, round)
        return Party(name, len(lab.names), net.module, cross_entropy, *examples, round, 0, drawn, fleet=lab.names)

    for round, (places, counting) in enumerate(ROUNDS):
        asked, counted = tuple(names[k] for k in places), [names[k] for k in counting]
        server = party("server", "server", lab.proxy(1), round)
        known.open(server, asked)
        opening = request(lab, store, run, round, state.message, asked)
        down = [opening.extra.get(name, opening.download).ref for name in asked]
        done = train_stack(lab, store, run, round, asked, down, [kept[name] for name in asked], True)
        for name, one in zip(asked, done, strict=True):
            (examples,) = lab.shards("train", [lab.held(1, name)], CPU)
            known.train(party(name, "train", examples, round))
            later = one.kept_if_counted if name in counted and one.kept_if_counted else one.kept
            kept[name] = later.ref
        replies = {name: (one.upload.ref, one.examples) for name, one in zip(asked, done, strict=True)}
        uploads = {name: replies[name] for name in counted}
        state = combine(lab, store, run, round, state.message, uploads, opening.download.ref)
        known.close(server, counted)
        for kind, wanted in known.kinds().items():
            found = net.vector(decode(store.get(state.message))[kind])
            assert (found - wanted).abs().max() <= 1e-5 * wanted.abs().max(), kind
