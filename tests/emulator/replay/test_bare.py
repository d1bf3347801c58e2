"""Which algorithms keep something on a device whatever becomes of its reply: as they say, and as they do."""

from dataclasses import replace
from typing import Any

import pytest

from algorithms import models
from algorithms.algorithm import Message, Training
from scenarios.builders import plugins
from tests.runs.test_work import CASES, NAMES, party

MODEL, EXAMPLES, PROXY = "digits-cnn", 3, 6
TRAINING = Training(lr=0.1, epochs=1, batch=3)

FURTHER: list[tuple[str, dict[str, Any]]] = [
    ("fedcl", {"interval": 2, "fallback": "keep_last"}),
    ("fedcl", {"interval": 2, "fallback": "keep_last", "first": "identity"}),
    ("fedcl", {"interval": 2, "fallback": "keep_last", "strength": 0.0}),
    ("fedcl", {"interval": 2, "fallback": "none"}),
]


def kept(algorithm: Any) -> bool:
    """Whether any device has kept anything in three rounds."""
    weights = models.build(MODEL, 0).state_dict()
    state = algorithm.start(weights, party("server", MODEL, PROXY, 0, {}))
    memory: dict[str, Message] = {name: {} for name in NAMES}
    found = False
    for round in range(3):
        server = party("server", MODEL, PROXY, round, {})
        request = algorithm.request(state, NAMES[:2], server)
        down = {name: request.download | request.extra.get(name, {}) for name in NAMES[:2]}
        replies = {
            name: algorithm.train(down[name], party(name, MODEL, EXAMPLES, round, memory[name])) for name in down
        }
        found |= any(reply.memory for reply in replies.values())
        memory |= {name: memory[name] | reply.memory | reply.if_counted for name, reply in replies.items()}
        state = algorithm.combine(state, replies, server)
    return found


@pytest.mark.parametrize(("key", "options"), [*CASES, *FURTHER], ids=str)
def test_it_is_known_who_keeps_what_a_reply_that_is_not_counted_leaves(key: str, options: dict[str, Any]) -> None:
    training = replace(TRAINING, per_cycle=2) if "training" in options else TRAINING
    algorithm = plugins.kinds()[key](**{**options, "training": training})
    assert algorithm.keeps_uncounted == kept(algorithm)
