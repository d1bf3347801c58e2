"""A run over real sockets, seen from outside."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from typing import Any

import pytest

from emulator.compute.executors import Inline
from emulator.lab.build import lab_of
from emulator.play.conduct import Conduct
from emulator.play.over_sockets import run_sockets
from emulator.record.run import Run
from scenarios.load import build
from tests.conftest import SMALL, merged


def answers(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=5).close()
    except ConnectionRefusedError:
        return False
    return True


@pytest.mark.slow
def test_the_server_is_reached_by_its_own_machine_s_first_address_and_no_other(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """127.0.0.2 is this machine too: a server that listened to all of its addresses would answer there."""
    found: dict[str, bool] = {}
    create = socket.create_server

    def created(address: tuple[str, int], **options: Any) -> socket.socket:
        listening = create(address, **options)
        port = listening.getsockname()[1]
        found.update({host: answers(host, port) for host in ("127.0.0.1", "127.0.0.2")})
        return listening

    monkeypatch.setattr(socket, "create_server", created)
    scenario = build(merged(SMALL, {"rounds": {"max": 1}, "evaluate": {"every": 0}}))
    lab = lab_of(scenario)
    run, folder = Run("fedavg", 1), tmp_path / "fedavg-s1"
    asyncio.run(run_sockets(lab, run, Conduct.of(scenario), Inline(lab), folder, speedup=100.0))
    assert found == {"127.0.0.1": True, "127.0.0.2": False}
