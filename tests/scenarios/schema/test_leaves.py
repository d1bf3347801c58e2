"""A leaf's class that takes what a scenario says has the keys of the scenario, and the same defaults."""

from __future__ import annotations

from dataclasses import MISSING, Field, fields

import pytest

from algorithms import algorithm
from devices import generated_presence
from emulator.conversation.rounds import RoundRules
from emulator.record import targets
from network.links.tcp import Tcp
from scenarios.schema import hardware, link_keys, training
from scenarios.schema.keys import Part

# (schema, leaf, the leaf's names of keys that it calls otherwise, what only the schema has, what only the leaf has)
PAIRS = {
    "training": (training.Training, algorithm.Training, {}, {"stack"}, {"per_cycle"}),
    "target": (training.Target, targets.Target, {}, set(), {"lower"}),
    "renewal": (
        hardware.Renewal,
        generated_presence.RenewalSessions,
        {"mean_on_s": "mean_on", "mean_off_s": "mean_off"},
        set(),
        {"seed"},
    ),
    "diurnal": (hardware.Diurnal, generated_presence.DiurnalSessions, {}, {"hours"}, {"seed", "local"}),
    "network": (link_keys.Transport, Tcp, {"window_mb": "window"}, set(), {"mss", "growth", "windows"}),
    "rounds": (
        training.Rounds,
        RoundRules,
        {
            "deadline_s": "deadline",
            "cycle_s": "cycle_seconds",
            "stragglers": "finish_stragglers",
            "when_off": "computing",
            "mode": "asynchronous",
            "timeout_s": "timeout",
        },
        {"per_cycle", "fraction", "targets", "stop_at", "until_s", "buffer", "in_flight"},
        {"needed"},
    ),
}
IN_OTHER_WORDS = {"window_mb": lambda mb: mb * 1e6, "stragglers": lambda word: word == "finish"} | {
    "model": lambda word: "tcp" if word == "auto" else word,  # which it is when a scenario is built
    "mode": lambda word: word == "async",
    "hold_s": lambda seconds: seconds or 0.0,
    "max_staleness": lambda most: most or 0,  # stragglers stop, so no reply is stale
}


def init_fields(leaf: type) -> dict[str, Field]:
    return {field.name: field for field in fields(leaf) if field.init}


@pytest.mark.parametrize(("schema", "leaf", "names", "schema_only", "leaf_only"), PAIRS.values(), ids=PAIRS)
def test_a_leaf_has_the_keys_of_its_schema(schema, leaf, names, schema_only, leaf_only) -> None:
    keys = {names.get(key, key) for key in schema.model_fields if key not in schema_only}
    assert keys == init_fields(leaf).keys() - leaf_only


@pytest.mark.parametrize(("schema", "leaf", "names", "schema_only", "leaf_only"), PAIRS.values(), ids=PAIRS)
def test_a_leaf_has_no_default_of_its_own(schema: type[Part], leaf, names, schema_only, leaf_only) -> None:
    there = init_fields(leaf)
    for key, info in schema.model_fields.items():
        if key in schema_only or there[names.get(key, key)].default is MISSING:
            continue
        assert not info.is_required(), key
        said = IN_OTHER_WORDS.get(key, lambda value: value)(info.default)
        assert there[names.get(key, key)].default == said, key
