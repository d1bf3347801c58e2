"""Makes the Parties of a round: what an algorithm is told of a device, or of the server, and of its round."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from algorithms.algorithm import Losses, Message, Party, Send, unharmed
from emulator.lab.lab import CPU, Lab
from emulator.lab.seeds import seed as derive
from emulator.record.run import Run

if TYPE_CHECKING:
    from torch import Tensor


def maker(lab: Lab, run: Run, round: int, place: str = CPU) -> Callable[..., Party]:
    """Returns a function that makes a Party of this round, with the values that all its Parties share; their network is
    on the device `place` of torch."""
    from algorithms.training.as_built import restore

    model = lab.module_on(place)
    restore(model)  # for an algorithm that uses it directly
    return partial(
        Party,
        devices=len(lab.fleet),
        model=model,
        loss=lab.task,
        round=lab.turn(run.label, round),
        cycle=lab.cycle(run.label, round),
        augment=lab.augment,
        lossy=lab.lossy(run.label),
    )


def party_of(
    make: Callable[..., Party],
    run: Run,
    name: str,
    round: int,
    purpose: str,
    examples: tuple[Tensor, Tensor],
    memory: Message,
    send: Send = unharmed,
    losses: Losses | None = None,
) -> Party:
    """Returns the Party `name` of a round, with these examples, x and y, and the messages that it keeps.  `make`: see
    `maker`; `purpose`: what its seed is drawn for; `send`: what its uploads pass through; `losses`: notes those of its
    training."""
    x, y = examples
    seed = derive(run.seed, purpose, name, round)
    return make(name=name, x=x, y=y, seed=seed, memory=memory, send=send, losses=losses)


def drawing(party: Party) -> Party:
    """Returns the party, after seeding the global generators from its seed for the algorithm's next call."""
    from algorithms.training.seeding import seeded

    seeded(party.seed)
    return party


def server_of(lab: Lab, run: Run, round: int) -> Party:
    """Returns the server's Party of a round: its examples are the proxy set, and its network is on the CPU."""
    make = partial(
        maker(lab, run, round), fleet=lab.names, constants=lab.constants(run.seed), ahead=lab.ahead(run.label, round)
    )
    server = party_of(make, run, "server", round, "server", lab.proxy(run.seed), {})
    server.own.update({name: value.cpu() for name, value in lab.kept(run.seed).items()})
    return server
