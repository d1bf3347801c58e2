"""Turns the links and speeds that a scenario names for a search or a study into conditions of a replay."""

from __future__ import annotations

from dataclasses import replace

from emulator.replay.conditions import Condition, Uplink, links_from
from scenarios.schema.tuning import Elsewhere


def condition(name: str, said: Elsewhere) -> Condition:
    """Returns the links and speed as a condition of a replay with this name.

    Raises ValueError for a trace that cannot be read or has no uplink.
    """
    if said.trace is not None:
        uplink = Uplink(ratio=said.up_ratio)
        (found,) = links_from([said.trace], uplink)
        made = replace(found, name=name)
    else:
        made = Condition(name, down=_bytes(said.down_mbit_s), up=_bytes(said.up_mbit_s))
    latency = None if said.latency_ms is None else said.latency_ms / 1e3
    speed = None if said.speed_gflop_s is None else said.speed_gflop_s * 1e9
    return replace(made, latency=latency, speed=speed)


def _bytes(mbit: float | None) -> float | None:
    """Converts Mbit/s to bytes/s."""
    return None if mbit is None else mbit * 1e6 / 8
