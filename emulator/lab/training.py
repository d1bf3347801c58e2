"""The device's half of a round: its training, its upload and its memory.  All jobs are pure functions: see jobs.py."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from algorithms.algorithm import Losses, Message, Party, Reply, Tensors
from algorithms.networks import FROZEN, KEPT
from emulator.lab.faulty import Faulty
from emulator.lab.gpu import full, make_room, moved, own
from emulator.lab.lab import CPU, Lab
from emulator.lab.parties import drawing, maker, party_of
from emulator.lab.scoring import Score, on_shards
from emulator.lab.seeds import seed as derive
from emulator.messages import flat
from emulator.messages.codec import ERROR, Outbox, arrays_of, decode, encode
from emulator.messages.store import EMPTY, Ref, Store, Stored, stored, stored_together
from emulator.record.run import Run

if TYPE_CHECKING:
    from torch import Tensor

NO_LOSSES = (
    "train() noted no losses, which `selection` asks for; it must train by algorithms.training.local.sgd, or call "
    "device.losses.note(losses)"
)
ALL_COMBINED: Mapping[str, Ref] = {}


@dataclass(frozen=True)
class Learnt:
    """Numbers of a training for the report; they are never sent, and change nothing."""

    leverage: Mapping[str, float] = field(default_factory=dict)
    numbers: Mapping[str, float] = field(default_factory=dict)  # further numbers for the report
    personalised: Sequence[Score] = ()  # on its own test shard: this time slice, the next one


@dataclass(frozen=True)
class Trained:
    """The result of a device's half of a round."""

    upload: Stored  # checked here, so that the server need not parse it
    examples: int
    kept: Stored  # the device's memory if the upload is not counted
    kept_if_counted: Stored | None  # its memory once the upload is counted; None: the same
    learnt: Learnt = Learnt()
    loss: float | None = None  # of its training, sent with the upload; None: the server's choice of devices asks none


def train(
    lab: Lab,
    store: Store,
    run: Run,
    device: str,
    round: int,
    download: Ref,
    memory: Ref,
    measure: bool,
    combined: Mapping[str, Ref] = ALL_COMBINED,
) -> Trained:
    """Computes a device's half of a round: trains, and stores its upload and its memory.

    `measure`: also scores the device's model on its own test examples, before aggregation.  `combined`, by device: its
    memory as of its last reply that the downloaded model has; of those for which that is not `memory`.
    """
    return train_stack(lab, store, run, round, (device,), (download,), (memory,), measure, combined)[0]


def train_stack(
    lab: Lab,
    store: Store,
    run: Run,
    round: int,
    devices: Sequence[str],
    downloads: Sequence[Ref],
    memories: Sequence[Ref],
    measure: bool,
    combined: Mapping[str, Ref] = ALL_COMBINED,
) -> list[Trained]:
    """Computes the halves of a round of several devices that train as one stack (algorithms/stack.py), in their order;
    see `train`."""
    earlier = [combined.get(device) for device in devices]
    answers = _answers(lab, store, run, round, list(zip(devices, downloads, memories, earlier, strict=True)))
    uploads = _uploads(lab, store, run, round, answers)
    shown: Sequence[Sequence[Score]] = _shown(lab, run, round, answers) if measure else [()] * len(answers)
    drifts = _drifts(lab, answers) if measure else [{}] * len(answers)
    return [_trained(store, *each) for each in zip(answers, uploads, shown, drifts, strict=True)]


def personalise_stack(
    lab: Lab,
    store: Store,
    run: Run,
    round: int,
    devices: Sequence[str],
    downloads: Sequence[Ref],
    memories: Sequence[Ref],
) -> list[Sequence[Score]]:
    """Trains these devices as if they had been asked in this round (`trial` of their Party is true), and returns the
    scores of their models on their own test examples."""
    asked = [(*each, None) for each in zip(devices, downloads, memories, strict=True)]
    answers = _answers(lab, store, run, round, asked, trial=True)
    return _shown(lab, run, round, answers)


@dataclass(frozen=True)
class _Answer:
    """The result of a device's training, before its upload goes through the outbox."""

    device: str
    reply: Reply
    outbox: Outbox
    kept: Message  # memory before the round
    loss: float | None = None  # see Trained
    own: Tensors = field(default_factory=dict)  # what the device keeps of the network, after the round

    def told(self, **numbers: float) -> _Answer:
        """Returns a copy that also has these numbers; where it has a number of the same name, that one stays."""
        return replace(self, reply=replace(self.reply, numbers={**numbers, **self.reply.numbers}))


_Asked = tuple[str, Ref, Ref, Ref | None]  # a device, its download, its memory, and its `combined` (train)


def _answers(
    lab: Lab, store: Store, run: Run, round: int, asked: Sequence[_Asked], trial: bool = False
) -> list[_Answer]:
    """Trains all devices as one stack.  If a GPU runs out of memory, splits the stack into two halves and trains one
    after the other; the answers' numbers then record the size of a half.

    Raises Faulty if the algorithm fails.
    """
    try:
        return _together(lab, store, run, round, asked, trial)
    except Exception as error:  # a single device fails with its algorithm's error
        if not full(error):
            raise
    make_room(store)
    try:
        return _together(lab, store, run, round, asked, trial)
    except Exception as error:
        if len(asked) == 1 or not full(error):
            raise
    middle = len(asked) // 2
    return [
        answer.told(stack=len(half))
        for half in (asked[:middle], asked[middle:])
        for answer in _answers(lab, store, run, round, half, trial)
    ]


def _together(lab: Lab, store: Store, run: Run, round: int, asked: Sequence[_Asked], trial: bool) -> list[_Answer]:
    algorithm = lab.algorithms[run.label]
    devices, downloads, memories, combined = zip(*asked, strict=True)
    received = _each(downloads, lambda ref: own(lab, store, ref))
    for message in received:
        message.pop(FROZEN, None)  # this process has them
    kept = _each(memories, lambda ref: moved(lab, decode(store.get(ref))))
    held = [lab.held(run.seed, device, lab.cycle(run.label, round)) for device in devices]
    parties, outboxes, make = [], [], partial(maker(lab, run, round, lab.on), trial=trial)
    power = lab.loss_power(run.label)
    for device, examples, download, memory in zip(
        devices, lab.shards("train", held, lab.on), received, kept, strict=True
    ):
        outboxes.append(_outbox(lab, run, device, round, download, memory))
        losses = Losses(power) if power and not trial else None
        party = party_of(make, run, device, round, "train", examples, memory, outboxes[-1].send, losses)
        party.own.update(memory.get(KEPT) or lab.kept(run.seed))
        steps = _steps(lab, run, party, frozenset(download), frozenset(memory))
        parties.append(replace(party, steps=steps) if steps else party)
    for k, ref in enumerate(combined):
        if ref is not None:
            parties[k] = replace(parties[k], combined=moved(lab, decode(store.get(ref))))
    drawing(parties[0])
    if len(devices) == 1:
        replies = [algorithm.train(received[0], parties[0])]
    else:
        from algorithms import stack

        replies = stack.train(algorithm, received, parties)
    told = [party.losses.mean if party.losses else None for party in parties]
    if power and not trial and None in told:
        raise Faulty(run.label, f", round {round}, device {devices[told.index(None)]}", NO_LOSSES)
    own_parts = [party.own for party in parties]
    return [_Answer(*each) for each in zip(devices, replies, outboxes, kept, told, own_parts, strict=True)]


def _steps(lab: Lab, run: Run, device: Party, kinds: Collection[str], memory: Collection[str]) -> int:
    """Returns the steps of the device's training, if the scenario limits its `seconds`; 0 otherwise."""
    if not lab.tells_steps(run.label):
        return 0
    from emulator.lab.budget import load_of, steps_of

    load = load_of(lab, run.label, run.seed, device.round, len(device.y), kinds=kinds, memory=memory)
    return steps_of(lab, run.label, device.name, load)


def _each(refs: Sequence[Ref], read: Callable[[Ref], Message]) -> list[Message]:
    """Returns the messages with these Refs; equal ones are read once."""
    known = {digest: read(ref) for digest, ref in {ref.digest: ref for ref in refs}.items()}
    return [known[ref.digest] for ref in refs]


def _outbox(lab: Lab, run: Run, device: str, round: int, download: Message, memory: Message) -> Outbox:
    encodings = lab.up.get(run.label, {})
    return Outbox(
        encodings,
        derive(run.seed, "encode", device, round) if encodings else 0,  # nothing is drawn
        reference=download.get("weights", {}),
        errors={kind: memory[kind] for kind in memory if kind == ERROR},
    )


def _uploads(lab: Lab, store: Store, run: Run, round: int, answers: Sequence[_Answer]) -> Iterable[Stored]:
    """Puts the devices' uploads into the store, in their order.  Each outbox notes what a lossy encoding of its upload
    loses."""
    form, uploads = lab.upload_form(run.label, round, run.seed), [answer.reply.upload for answer in answers]
    if not lab.up.get(run.label):
        if lab.on == CPU or lab.over_sockets:
            found = stored_together(store, list(map(arrays_of, uploads)), form)
        else:
            messages = flat.flattened(uploads, form.shapes)
            found = flat.stored(store, messages, form) if messages else None
        if found:
            return found
    packed = (answer.outbox.packed(answer.reply.upload) for answer in answers)
    return (stored(store, view, form.shapes, form.constants) for view in packed)


def _trained(
    store: Store, answer: _Answer, upload: Stored, shown: Sequence[Score], drift: Mapping[str, float]
) -> Trained:
    """Puts the device's memory into the store and returns its result.  `shown`: the scores on its own test examples;
    `shown` and `drift` are empty if nothing is measured."""
    reply, outbox = answer.reply, answer.outbox
    kept = {**answer.kept, **reply.memory, **({KEPT: answer.own} if answer.own else {})}
    later = {**reply.if_counted, **outbox.errors}
    return Trained(
        upload=upload,
        examples=reply.examples,
        kept=stored(store, encode(kept)) if kept else EMPTY,
        kept_if_counted=stored(store, encode({**kept, **later})) if later else None,
        learnt=Learnt(_finite(reply.leverage), _finite({**reply.numbers, **drift}), shown),
        loss=answer.loss,
    )


def _drifts(lab: Lab, answers: Sequence[_Answer]) -> list[dict[str, float]]:
    """Returns the drift ‖θ_k - θ_t‖ of each device: the distance of its trained model from the model that it received.
    A GPU computes many at once."""
    trainable = dict(lab.module.named_parameters())
    pairs = [(_model(answer.reply), answer.outbox.reference) for answer in answers]
    names = [[name for name in trainable if name in broadcast and name in model] for model, broadcast in pairs]
    alike = lab.on != CPU and all(own == names[0] for own in names)
    values = sum(parameter.numel() for parameter in trainable.values())
    at_once = max(1, flat.CHUNK // max(1, values)) if alike else 1
    starts = range(0, len(pairs), at_once)
    return [drift for start in starts for drift in _drifts_of(pairs[start : start + at_once], names[start])]


def _drifts_of(pairs: Sequence[tuple[Tensors, Tensors]], names: Sequence[str]) -> list[dict[str, float]]:
    """Returns the drift of each pair (trained model, received model) as {"drift": number}, over the parameters `names`;
    {} without any."""
    from torch import stack

    from algorithms.training.local import pieces
    from algorithms.training.stack_batches import stacked

    if not names:
        return [{} for _ in pairs]
    sums: dict[str, Tensor] = {}
    for name in names:
        for part in pieces(*(model[name] for model, _ in pairs), *(base[name] for _, base in pairs)):
            gone = stacked(part[: len(pairs)]) - stacked(part[len(pairs) :])
            squares = gone.double().square_().reshape(len(pairs), -1).sum(1)
            sums[name] = sums[name].add_(squares) if name in sums else squares
    return [{"drift": math.sqrt(math.fsum(row))} for row in stack([*sums.values()], 1).tolist()]


def _finite(numbers: Mapping[str, float]) -> dict[str, float]:
    return {name: value for name, value in numbers.items() if math.isfinite(value)}


def _shown(lab: Lab, run: Run, round: int, answers: Sequence[_Answer]) -> list[Sequence[Score]]:
    models = [(answer, _model(answer.reply)) for answer in answers]
    whole = [(answer.device, {**answer.own, **model} if model else model) for answer, model in models]
    return on_shards(lab, run, round, whole)


def _model(reply: Reply) -> Tensors:
    """Returns what travels of the model after local training; {} if there is no model."""
    return reply.model or reply.upload.get("weights", {})
