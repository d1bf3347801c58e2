"""A record written by hand, and its scenario: `b-0` is away when its first round closes, and ends it two rounds later.
Each round asks two devices, or all that are online and idle: `a-0`, and in the last round, as `a-0` is away, `b-0`.

All links carry 100 bytes/s, all machines compute 1000 FLOP/s; of what `a-0` draws nobody knows.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from emulator.record.run import RUN, AlgorithmFacts, Run, text_of
from tests.emulator.audit.learnt import NOT_EVALUATED

Body = dict[str, Any]
A, B = "a-0", "b-0"
DOWN = {"weights": 90, "frame": 10}
UP = {"weights": 45, "frame": 5}
WATTS = [1.0, 4.0, 2.0]  # of `b-0`: idle, computing, with its radio

BOARD = {"speed_gflop_s": 1e-6, "memory_bandwidth_gb_s": 1, "overhead_ms": 0, "memory_mb": 100}
LINK = {"up_mbit_s": 0.0008, "down_mbit_s": 0.0008, "latency_ms": 0}
SCENARIO: Body = {
    "name": "straggling",
    "rounds": {"max": 4, "fraction": 0.5, "ask": 2, "when_off": "pause", "transfers": "resume", "stragglers": "finish"},
    "network": {"model": "ideal"},
    "profiles": {"plain": BOARD, "metered": {**BOARD, "power_idle_w": 1, "power_compute_w": 4, "power_radio_w": 2}},
    "server": {"profile": "plain", "link": {"up_mbit_s": 1000, "down_mbit_s": 1000, "latency_ms": 0}},
    "fleet": [
        {"name": "a", "profile": "plain", "link": LINK, "presence": {"off": [[10.5, 14.0]]}},
        {"name": "b", "profile": "metered", "link": LINK, "presence": {"off": [[0.5, 4.0], [5.5, 6.0]]}},
    ],
}
HOST = {"world": "virtual", "versions": {}}
DRAWN = AlgorithmFacts(keeps_uncounted=False, any_cohort_will_do=True, cohort="drawn")
STEP = [0.0] * 9
WORK: list[Body] = [
    {"work": 0, "pieces": [["fit", 2000.0, 1, *STEP]]},
    *({"device": name, "round": 0, "work": 0, "examples": 1, "held": 1} for name in (A, B)),
]


def line(t: float, event: str, round: int, device: str = "", **details: Any) -> Body:
    who = {"device": device} if device else {}
    return {"t": t, "event": event, "round": round, **who, **details}


def transfer(t: float, way: str, round: int, device: str, reply_to: int | None, **details: Any) -> Body:
    sizes = dict(DOWN if way == "down" else UP)
    return line(t, f"{way}.start", round, device, bytes=sizes, reply_to=reply_to, **details)


def training(t: float, round: int, device: str, share: float = 1.0) -> Body:
    bill: Body = {"phases": {"fit": 2000 * share}, "seconds": {"fit": 2 * share}, "rate": 1000.0}
    return line(t, "compute.start", round, device, **bill)


def combined(t: float, round: int, reason: str, counted: str) -> list[Body]:
    nothing: Body = {"phases": {}, "seconds": {}, "rate": 1000.0, "flops": 0.0}
    return [
        line(t, "close", round, reason=reason, counted=[counted]),
        line(t, "server.start", round, what="combine", **nothing),
        line(t, "server.end", round, what="combine", model=f"m{round + 1}"),
    ]


def alone(t: float, round: int, device: str, reply_to: int | None) -> list[Body]:
    """A whole round of one device: 3.5 s."""
    return [
        line(t, "open", round, asked=[device], model=f"m{round}"),
        transfer(t, "down", round, device, reply_to),
        line(t + 1, "down.end", round, device),
        training(t + 1, round, device),
        line(t + 3, "compute.end", round, device, update=f"{device}{round}"),
        transfer(t + 3, "up", round, device, round),
        line(t + 3.5, "up.end", round, device),
        *combined(t + 3.5, round, "all", device),
    ]


def straggler() -> list[Body]:
    """The lines of `b-0` for round 0 after its close at 3.5."""
    return [
        line(4.0, "on", 0, B),
        transfer(4.0, "down", 0, B, None, **{"from": 50}),
        line(4.5, "down.end", 0, B),
        training(4.5, 0, B),
        line(5.5, "off", 0, B),
        line(5.5, "compute.cut", 0, B, seconds=1.0, why="off", then="pause"),
        line(6.0, "on", 0, B),
        training(6.0, 0, B, share=0.5),
        line(7.0, "compute.end", 0, B, update="b0"),
        transfer(7.0, "up", 0, B, 0),
        line(7.5, "up.end", 0, B),
    ]


def events() -> list[Body]:
    first = [
        line(0.0, "open", 0, asked=[A, B], model="m0"),
        transfer(0.0, "down", 0, A, None),
        transfer(0.0, "down", 0, B, None),
        line(0.5, "off", 0, B),
        line(0.5, "down.cut", 0, B, bytes=50, why="off", then="resume"),
        *alone(0.0, 0, A, None)[2:-3],
        *combined(3.5, 0, "first", A),
    ]
    rest = [*straggler(), *alone(3.5, 1, A, 0), *alone(7.0, 2, A, 1), *alone(10.5, 3, B, None)]
    return first + sorted(rest, key=lambda body: body["t"])  # stable: of one instant in this order


def row(round: int, t: float, device: str, sizes: Body, **values: Any) -> Body:
    """One device was counted, 3.5 s after the round opened."""
    path: Body = {"device": device, "setup_s": 0.0, "wait_s": 0.0, "server_s": {}, "compute_s": {"fit": 2.0}}
    path |= {"down_s": {"weights": 0.9, "frame": 0.1}, "up_s": {"weights": 0.45, "frame": 0.05}}
    fixed = {"asked": 1, "counted": 1, "late": 0, "lost": 0, "refused": 0, "failed": False, "wasted_bytes": 0}
    own = {"seconds": spent({device: [3.5, 0.0, 0.0]}), "joules": {device: None}, "watts": {device: None}}
    told: Body = {"round": round, "time_s": t, "bytes": sizes, "flops": 2000.0, "critical": path, **fixed, **own}
    return told | NOT_EVALUATED | values


def spent(devices: dict[str, list[float]]) -> Body:
    sums = {use: sum(each[n] for each in devices.values()) for n, use in enumerate(("useful", "wasted", "idle"))}
    return {**sums, "devices": devices}


def rows() -> list[Body]:
    once = {"down": dict(DOWN), "up": dict(UP)}
    twice = {way: {kind: 2 * size for kind, size in sizes.items()} for way, sizes in once.items()}
    late = {"asked": 2, "late": 1, "flops": 2000.0 + (1000 + 1000), "wasted_bytes": 100 + 50}
    late |= {"seconds": spent({A: [3.5, 0.0, 0.0], B: [0.0, (0.5 + 0.5) + (1 + 1) + 0.5, 3.5 + 0.5]})}
    late |= {"joules": {A: None, B: 4 * 1 + 2 * 4 + 1.5 * 2}, "watts": {A: None, B: list(WATTS)}}
    own = {"joules": {B: 2 * 4 + 1.5 * 2}, "watts": {B: list(WATTS)}}
    return [
        row(0, 3.5, A, twice, **late),
        row(1, 7.0, A, once),
        row(2, 10.5, A, once),
        row(3, 14.0, B, once, **own),
    ]


def write(
    out: Path, lines: list[Body], told: list[Body], work: list[Body] = WORK, facts: AlgorithmFacts = DRAWN
) -> Path:
    """The files of the run, without its scenario; its folder."""
    folder = out / "fedavg-s1"
    folder.mkdir(exist_ok=True)
    (folder / RUN).write_text(text_of(Run("fedavg", 1), facts))
    for name, bodies in (("events", lines), ("rounds", told), ("work", work)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(body) + "\n" for body in bodies))
    return folder


def declare(out: Path, host: Body = HOST, **changes: Any) -> None:
    """The scenario beside the run, with changes."""
    with (out / "scenario.yaml").open("w") as file:
        YAML(typ="safe", pure=True).dump(SCENARIO | changes, file)
    (out / "host.json").write_text(json.dumps(host))
