"""A connection that breaks over sockets, where no modelled device has gone: the record says so, and the run goes on."""

from __future__ import annotations

import asyncio
import json
import socket

import pytest

from emulator.compute.executors import Inline
from emulator.conversation import peer
from emulator.conversation.versions import AsyncServer
from emulator.lab.build import lab_of
from emulator.play.conduct import Conduct
from emulator.play.over_sockets import run_sockets
from emulator.record.lines import read_lines
from emulator.record.run import Run
from scenarios.load import build, dump
from tests.conftest import SMALL, audit_run, merged

pytestmark = pytest.mark.slow
DEVICE = "phone-mid-0"


def played(folder, monkeypatch, direction, share, changes):
    """Two rounds; in the first, a connection breaks once the links have let through this share of a message."""
    broken, send = [], peer.Peer.send

    async def cut(own, flight):
        while flight.carried() < flight.nbytes * share:
            await asyncio.sleep(0.01)
        broken.append(flight)
        own.socket.get_extra_info("socket").shutdown(socket.SHUT_RDWR)

    async def sends(own, parcel, flight):
        if flight.call == (DEVICE, 0) and flight.direction == direction and not broken:
            await asyncio.gather(send(own, parcel, flight), cut(own, flight))
            return
        await send(own, parcel, flight)

    monkeypatch.setattr(peer.Peer, "send", sends)
    found = over_sockets(folder, build(merged(SMALL, {"seeds": [1], **changes})))
    assert len(broken) == 1
    return found


def over_sockets(folder, scenario):
    """The outcome of a run of FedAvg, and the events of its record."""
    lab, run = lab_of(scenario), Run("fedavg", 1)

    async def play():
        going = run_sockets(lab, run, Conduct.of(scenario), Inline(lab), folder / run.name)
        return await asyncio.wait_for(going, 60)

    outcome = asyncio.run(play())
    (folder / "scenario.yaml").write_text(dump(scenario))
    (folder / "host.json").write_text(json.dumps({"world": "sockets"}))
    return outcome, list(read_lines(folder / run.name / "events.jsonl"))


def told(lines):
    """The lines that say so: of what it cut, or that a reply which the links had let through was not read."""
    cut = [line for line in lines if line.get("why") == "broken" and line["event"].endswith(".cut")]
    return cut + [line for line in lines if line["event"] == "refused"]


@pytest.mark.parametrize("rounds", [{}, {"fraction": 0.5, "ask": 4, "stragglers": "finish"}])
@pytest.mark.parametrize(("direction", "share"), [("up", 0.5), ("down", 0.5), ("up", 1.0), ("down", 0.0)])
def test_a_connection_that_breaks_in_mid_message_is_told_and_the_run_goes_on(
    tmp_path, monkeypatch, direction, share, rounds
):
    """With a share of 1 after the last byte, as the links have it, and before the server has read it."""
    rounds = {"max": 2, "fraction": 1.0, **rounds}
    outcome, lines = played(tmp_path, monkeypatch, direction, share, {"rounds": rounds})
    assert audit_run(tmp_path / "fedavg-s1") == []
    found = [(line["device"], line["round"]) for line in told(lines)]
    assert found == [(DEVICE, 0)] or (found == [] and share == 1.0)  # its last bytes may have been read by then
    assert outcome.rows[0]["lost"] + outcome.rows[0]["refused"] == len(found)
    assert not [line for line in lines if line["event"] in ("off", "on")]
    assert len(outcome.rows) == 2
    assert outcome.failure is None


def test_a_reply_that_comes_while_an_asynchronous_run_ends_is_late(tmp_path, monkeypatch):
    """No model will have it, and the rows of the version that asked for it, and of all later ones, are written."""
    rounds, end, came = {"mode": "async", "buffer": 2, "in_flight": 4, "max": 2}, AsyncServer._end_all, []

    async def ends(own, tasks):
        before = len(own.exchange.inbox)
        while tasks and len(own.exchange.inbox) == before:
            await asyncio.sleep(0.01)
        came.extend(own.exchange.inbox[before:])
        await end(own, tasks)

    monkeypatch.setattr(AsyncServer, "_end_all", ends)
    outcome, lines = over_sockets(tmp_path, build({**merged(SMALL, {"seeds": [1]}), "rounds": rounds}))
    assert came
    assert audit_run(tmp_path / "fedavg-s1") == []
    assert len(outcome.rows) == len([line for line in lines if line["event"] == "close"]) == 4
    assert sum(sum(row["staleness"].values()) for row in outcome.rows) == 8  # 4 versions of 2 replies
    assert sum(row["asked"] for row in outcome.rows) >= 8 + len(came)
