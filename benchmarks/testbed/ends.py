"""The two ends of transfers over plain sockets: `serve` in one namespace, `fetch` in the other.

A request is eight bytes: how many are wanted, or with the highest bit set how many follow; of these the server says in
eight bytes when the last arrived.  Only the standard library: the processes start in no time.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import sys
import threading
import time
from contextlib import suppress
from typing import Any

from benchmarks.testbed.namespaces import say

PORT = 4477
PORTS = 20_000  # of the device, from here on: the relay knows a flow by its port
EACH = 100  # ports of one repetition: none is used twice, as the kernel would have it wait
UPLOAD = 2**63
CLOCK = struct.Struct("!d")  # s of CLOCK_MONOTONIC, which both ends read
PATIENCE = 300.0  # s without a byte, after which a transfer has failed
NICE = -15  # other work on the machine shall not be what is measured


def serve(congestion: str) -> None:
    """Answers every request, a thread for each connection, until standard input is closed; at a port for each
    congestion control of those between the slashes."""
    found = []
    for number, kind in enumerate(congestion.split("/")):
        listening = socket.create_server(("", PORT + number), backlog=128)
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, kind.encode())
        threading.Thread(target=_accept, args=(listening,), daemon=True).start()
        found.append(_congestion_of(listening))
    say("/".join(found))
    sys.stdin.read()


def _congestion_of(connection: socket.socket) -> str:
    return connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0").decode()


def _accept(listening: socket.socket) -> None:
    while True:
        connection, _ = listening.accept()
        threading.Thread(target=_answer, args=(connection,), daemon=True).start()


def _answer(connection: socket.socket) -> None:
    with connection, suppress(ConnectionError):
        while request := connection.recv(8, socket.MSG_WAITALL):
            asked = int.from_bytes(request, "big")
            if asked < UPLOAD:
                connection.sendall(bytes(asked))
            else:
                _read(connection, asked - UPLOAD)
                connection.sendall(CLOCK.pack(time.monotonic()))


def _read(connection: socket.socket, nbytes: int) -> None:
    buffer = bytearray(2**18)
    while nbytes > 0:
        got = connection.recv_into(buffer)
        if not got:
            raise ConnectionError(f"closed with {nbytes} bytes left")
        nbytes -= got


def transfer(address: str, port: int, nbytes: int, up: bool, congestion: str, kind: int = 0) -> float:
    """When the last byte was read at its receiver, s of CLOCK_MONOTONIC, on a connection of its own."""
    with socket.socket() as connection:
        connection.settimeout(PATIENCE)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, congestion.split("/")[kind].encode())
        connection.bind(("", port))
        connection.connect((address, PORT + kind))
        if up:
            connection.sendall((UPLOAD + nbytes).to_bytes(8, "big") + bytes(nbytes))
            end: float = CLOCK.unpack(connection.recv(CLOCK.size, socket.MSG_WAITALL))[0]
            return end
        connection.sendall(nbytes.to_bytes(8, "big"))
        _read(connection, nbytes)
        return time.monotonic()


def fetch(address: str, congestion: str, flows: list[dict[str, Any]], at: float, turn: int) -> dict[str, object]:
    """Downloads and uploads, each begun `start` s after `at` (s of CLOCK_MONOTONIC), in the `turn`-th repetition.

    Seconds from `at` until each one's last byte has been read; and how late the last of them began.
    """
    ends, late = [0.0] * len(flows), [0.0] * len(flows)

    def go(number: int) -> None:
        flow = flows[number]
        begin = at + flow["start"]
        time.sleep(max(0.0, begin - time.monotonic() - 2e-3))
        while time.monotonic() < begin:
            pass
        late[number] = time.monotonic() - begin
        port = PORTS + turn * EACH + number
        ends[number] = transfer(address, port, flow["nbytes"], flow["up"], congestion, flow["kind"]) - at - late[number]

    threads = [threading.Thread(target=go, args=(number,)) for number in range(len(flows))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if not all(ends):
        raise ConnectionError(f"transfer {ends.index(0.0)} of {len(flows)} failed")
    return {"late": max(late), "ends": ends}


def main(arguments: list[str]) -> None:
    os.setpriority(os.PRIO_PROCESS, 0, NICE)
    if arguments[0] == "serve":
        serve(arguments[1])
    else:
        address, congestion, flows, at, turn = arguments[1:]
        say(json.dumps(fetch(address, congestion, json.loads(flows), float(at), int(turn))))


if __name__ == "__main__":
    main(sys.argv[1:])
