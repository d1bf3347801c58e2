"""The real computations of a run; those of devices are in training.py.  Each job is a pure function of the lab, names,
numbers and bytes.

Tensors cross process borders as they cross links: encoded by network/wire/payload.py.  So digests, messages and
computations use the same bytes.  Torch is imported only when a job first makes tensors: a replay names these jobs and
their results, and computes none.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import cast

import numpy as np
from numpy import ndarray
from safetensors.numpy import save

from algorithms.algorithm import Message, Reply, Tensors
from algorithms.networks import FROZEN
from emulator.lab.gpu import bring, brought
from emulator.lab.lab import Lab, in_cycle
from emulator.lab.parties import drawing, server_of
from emulator.lab.scoring import Scores, score
from emulator.lab.seeds import seed as derive
from emulator.messages import flat
from emulator.messages.codec import Row, decode, encode, unread, unstacked
from emulator.messages.store import Ref, Store, Stored, read, stored
from emulator.record.record import SECOND_NAMES
from emulator.record.run import Run
from network.wire import payload
from scenarios.builders.roster import sample

SLACK = 1 << 17  # bytes: encodings have longer names, and a message has at most 4096 tensors
ROUNDS = 12  # rounds among which the largest upload is searched
NONE_TOLD: Mapping[str, int] = {}
NONE_STALE: Mapping[str, tuple[int, Ref]] = {}
BLOCK = 1000  # examples evaluated by one job; a constant, so that results do not depend on the workers


@dataclass(frozen=True)
class State:
    """The server's state."""

    message: Ref  # all kinds
    weights: Ref  # the kind "weights" alone: the model


@dataclass(frozen=True)
class Opening:
    """The messages with which the server opens a round."""

    download: Stored
    extra: Mapping[str, Stored]  # by device: its whole download, if it differs from the others'


def start(lab: Lab, store: Store, run: Run) -> State:
    """Returns the server's state before round 0.  All algorithms of a seed start from the same weights."""
    from algorithms.training.tensors import tensors_of

    weights = tensors_of(lab.network(derive(run.seed, "weights")))
    return _state(lab, store, lab.algorithms[run.label].start(weights, drawing(server_of(lab, run, 0))))


def request(
    lab: Lab,
    store: Store,
    run: Run,
    round: int,
    state: Ref,
    names: tuple[str, ...],
    new: tuple[str, ...] = (),
) -> Opening:
    """Opens a round: returns the encoded messages to these devices, those to `new` ones with the frozen tensors.  A
    download that several devices get is encoded once."""
    algorithm, how = lab.algorithms[run.label], lab.down.get(run.label, {})
    asked = algorithm.request(decode(store.get(state)), names, drawing(server_of(lab, run, round)))
    seed = derive(run.seed, "encode", "server", round)
    plain = lab.constants(run.seed)

    def packed(more: Message) -> Stored:
        return stored(store, encode({**asked.download, **more}, how, seed, plain))

    frozen: Message = {FROZEN: found} if new and (found := lab.frozen) else {}
    first = dict.fromkeys(new, packed(frozen)) if frozen else {}
    own = {name: packed({**more, **(frozen if name in new else {})}) for name, more in asked.extra.items()}
    return Opening(packed({}), {**first, **own})


def combine(
    lab: Lab,
    store: Store,
    run: Run,
    round: int,
    state: Ref,
    replies: Mapping[str, tuple[Ref, int]],
    download: Ref,
    stale: Mapping[str, tuple[int, Ref]] = NONE_STALE,
    steps: Mapping[str, int] = NONE_TOLD,
) -> State:
    """Closes a round, and returns the server's new state.  `replies`: (upload, examples) by device name; `download`:
    the message that the round sent; `stale`: (staleness, the message that the device got) by name, for replies to
    earlier rounds; `steps`: by name, the steps that replies tell; those of others follow from their examples."""
    from algorithms.training.local import steps as steps_for

    algorithm, relative = lab.algorithms[run.label], "weights" in lab.up.get(run.label, {})
    sent = cache(lambda message: decode(store.get(message)).get("weights", {}) if relative else {})
    kept, stacks = flat.keeping(store), cache(lambda stack: unstacked(read(store, stack)))

    def received(upload: Ref, download: Ref) -> Message:
        if upload.stack:
            return {kind: cast(Tensors, Row(rows, upload.row)) for kind, rows in stacks(upload.stack).items()}
        found = kept.tensors(upload) if kept else None
        return unread(read(store, upload), sent(download)) if found is None else cast(Message, found)

    uploads = {}
    for name, (upload, examples) in sorted(replies.items()):
        staleness, message = stale.get(name, (0, download))
        asked = lab.turn(run.label, round - staleness) if staleness else None
        taken = steps[name] if name in steps else steps_for(examples, algorithm.training)
        weight = taken if algorithm.training.weigh_by == "steps" else 0
        content = received(upload, message)
        uploads[name] = Reply(content, examples, staleness=staleness, asked=asked, steps=taken, weight=weight)
    server = drawing(server_of(lab, run, round))
    return _state(lab, store, algorithm.combine(decode(store.get(state)), uploads, server))


def evaluate(lab: Lab, store: Store, run: Run, weights: Ref, part: str, cycle: int, block: int) -> Scores:
    """Returns the scores of the model on one block of examples: of the `test` set, or of all devices' `validation`
    examples in a time slice.  What devices keep has its first values in this model."""
    model = {**brought(lab, store, weights)["weights"], **lab.kept(run.seed)}
    return score(lab, model, part, block_of(lab, run, part, cycle, block))


def block_of(lab: Lab, run: Run, part: str, cycle: int, block: int) -> ndarray:
    """Returns the indices of the examples in the given block of this part (see `evaluate`)."""
    return _indices(lab, run, part, cycle)[block * BLOCK : (block + 1) * BLOCK]


def blocks(lab: Lab, run: Run, part: str, cycle: int) -> int:
    """Returns the number of blocks into which this part (see `evaluate`) is split, of BLOCK examples each."""
    return -(-len(_indices(lab, run, part, cycle)) // BLOCK)


def _indices(lab: Lab, run: Run, part: str, cycle: int) -> ndarray:
    if part == "test":
        return np.arange(len(lab.data.y_test))
    validation = lab.splits[run.seed].validation
    return np.concatenate([in_cycle(validation, name, cycle) for name in sorted(sample(validation))])


def export(lab: Lab, store: Store, weights: Ref) -> Ref:
    """Returns the model as a safetensors file for load_state_dict(), stored as a message.  A weight with two names is
    in the file twice, and the file's metadata maps the second name to the first."""
    from algorithms.training.tensors import second_names

    view, again = payload.trusted(store.get(weights)), second_names(lab.module)
    arrays = {name: values for name in view.tree["weights"] if (values := view.in_place("weights", name)) is not None}
    about = {SECOND_NAMES: json.dumps(again)} if again else None  # one key: safetensors writes several in any order
    return store.put(save(arrays | {name: arrays[first] for name, first in again.items()}, about))


def message_sizes(lab: Lab, run: Run) -> tuple[int, int]:
    """Returns the bytes of the largest download and upload, encoded; where an encoding's size depends on the values,
    without the part that does."""
    algorithm = lab.algorithms[run.label]
    how, plain = lab.down.get(run.label, {}), lab.constants(run.seed)
    down = encode(algorithm.download_form(server_of(lab, run, 0)), how, plain=plain)
    forms = (algorithm.upload_form(round, lab.module) for round in range(ROUNDS))
    return down.nbytes, max(encode(form, lab.up.get(run.label, {})).nbytes for form in forms)


def message_limits(lab: Lab, run: Run) -> tuple[int, int]:
    """Returns upper limits of the bytes of a download and an upload.  They are sizes without encodings, because no
    encoding makes a tensor larger."""
    down, up = message_sizes(replace(lab, up={}, down={}), run)
    frozen = sum(value.nbytes for value in lab.frozen.values())
    return down + frozen + SLACK, up + SLACK


def _state(lab: Lab, store: Store, message: Message) -> State:
    model = {"weights": message["weights"]}
    weights = store.put(*encode(model).pieces)
    bring(lab, weights, model)  # the new model is evaluated and sent next
    return State(weights if set(message) == {"weights"} else store.put(*encode(message).pieces), weights)
