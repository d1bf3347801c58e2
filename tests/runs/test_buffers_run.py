"""Runs, replays and maps in which two devices share the server's link behind its full queue: downloads by hand.

Round trips of 20 and 100 ms, the server sends 0.1 MB/s.  The near one's first byte flows after two of its round trips,
at 0.04 s, and the other's at 0.2 s; from then on the near one has a share of x.  The link is never idle, so both
messages are there when it has carried both.
"""

import pytest

from emulator.record.lines import read_lines
from emulator.replay.conditions import Condition
from emulator.replay.replayer import Replayer
from emulator.replay.script import read_script
from scenarios.load import build
from tests.conftest import SMALL, merged

pytestmark = pytest.mark.slow

RATES = {"up_mbit_s": 80, "down_mbit_s": 80}


def changes(buffer_kb, congestion="cubic"):
    """A near and a far device at a server with a buffer, under TCP without slow start."""
    devices = {"near": 10, "far": 50}
    return {
        "network": {"model": "tcp", "congestion": congestion, "tls": 0, "initial_window": 1000, "window_mb": 100},
        "server": {"link": {"up_mbit_s": 0.8, "down_mbit_s": 0.8, "latency_ms": 0, "buffer_kb": buffer_kb}},
        "fleet": [
            {"name": name, "profile": "pi-4", "count": 1, "link": {**RATES, "latency_ms": latency}}
            for name, latency in devices.items()
        ],
        "rounds": {"max": 1},
        "evaluate": {"every": 0},
    }


def shared(wire, x, rate=1e5):
    """When the near and the far one have their messages of so many bytes."""
    near = 0.2 + (wire - 0.16 * rate) / (x * rate)
    return {"near-0": pytest.approx(near, rel=1e-9), "far-0": pytest.approx(0.04 + 2 * wire / rate, rel=1e-9)}


def ends(lines):
    return {line["device"]: line["t"] for line in lines if line["event"] == "down.end"}


@pytest.mark.parametrize(
    ("buffer", "congestion", "x"),
    [(None, "cubic", 5 / 6), (10, "cubic", 5 / 8), (10, "reno", 5 / 8), (10, "bbr", 1 / 2)],
)
def test_a_run_shares_as_the_queue_says_and_so_does_its_replay(play, tmp_path, buffer, congestion, x):
    """10 kB at 0.1 MB/s are 0.1 s: 1/0.12 to 1/0.2 for 5 to 1, and 1 to 1 under bbr."""
    said = changes(buffer, congestion)
    run = play(**said)
    wire = run.of("down.start")[0]["wire"]
    assert ends(run.events) == shared(wire, x)
    replayer = Replayer(build(merged(SMALL, {**said, "seeds": [1]})))
    replayer.replay(read_script(run.folder), replayer.own, tmp_path / "again")
    assert (tmp_path / "again" / "events.jsonl").read_bytes() == (run.folder / "events.jsonl").read_bytes()


def test_at_twice_the_servers_rate_its_buffer_is_half_the_queue(play, tmp_path):
    """As a map or `replay --server-rate` has it: 50 ms, 1/0.07 to 1/0.15."""
    said = changes(10)
    run = play(**said)
    replayer = Replayer(build(merged(SMALL, {**said, "seeds": [1]})))
    faster = Condition("faster", server_rate=2e5).setting(replayer.own)
    replayer.replay(read_script(run.folder), faster, tmp_path / "faster", anyway=True)
    wire = run.of("down.start")[0]["wire"]
    assert ends(read_lines(tmp_path / "faster" / "events.jsonl")) == shared(wire, 15 / 22, 2e5)
