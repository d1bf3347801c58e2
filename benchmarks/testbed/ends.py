"""The two ends of a transfer over plain sockets: `serve` in one namespace, `fetch` in the other.

A request is eight bytes: how many are wanted.  Only the standard library: the processes start in no time.
"""

from __future__ import annotations

import json
import os
import selectors
import socket
import sys
import threading
import time
from contextlib import suppress

from benchmarks.testbed.namespaces import say

PORT = 4477
PATIENCE = 300.0  # s without a byte, after which a transfer has failed
NICE = -15  # other work on the machine shall not be what is measured


def serve(congestion: str) -> None:
    """Answers every request, a thread for each connection, until standard input is closed."""
    listening = socket.create_server(("", PORT), backlog=128)
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, congestion.encode())
    threading.Thread(target=_accept, args=(listening,), daemon=True).start()
    say(_congestion_of(listening))
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
            connection.sendall(bytes(int.from_bytes(request, "big")))


def fetch(address: str, nbytes: int, flows: int, at: float) -> dict[str, object]:
    """So many downloads of `nbytes` each, all begun at `at` (s of CLOCK_MONOTONIC), each on a connection of its own.

    Seconds from just before the first connect() until each one's last byte has been read; and how late that was.
    """
    watch, buffer = selectors.DefaultSelector(), bytearray(2**20)
    left, ends = {}, {}
    time.sleep(max(0.0, at - time.monotonic() - 2e-3))
    while time.monotonic() < at:
        pass
    began = time.monotonic()
    for number in range(flows):
        connection = socket.socket()
        connection.setblocking(False)
        connection.connect_ex((address, PORT))
        watch.register(connection, selectors.EVENT_WRITE, number)
        left[number] = nbytes
    while left:
        ready = watch.select(PATIENCE)
        if not ready:
            raise TimeoutError(f"no byte for {PATIENCE:g} s")
        for key, event in ready:
            open_one, number = key.fileobj, key.data
            assert isinstance(open_one, socket.socket)
            if event & selectors.EVENT_WRITE:
                open_one.sendall(nbytes.to_bytes(8, "big"))
                watch.modify(open_one, selectors.EVENT_READ, number)
                continue
            got = open_one.recv_into(buffer)
            if not got:
                raise ConnectionError(f"closed with {left[number]} bytes left")
            left[number] -= got
            if left[number] <= 0:
                ends[number] = time.monotonic() - began
                del left[number]
                watch.unregister(open_one)
                open_one.close()
    return {"late": began - at, "ends": [ends[number] for number in range(flows)]}


def main(arguments: list[str]) -> None:
    os.setpriority(os.PRIO_PROCESS, 0, NICE)
    if arguments[0] == "serve":
        serve(arguments[1])
    else:
        address, nbytes, flows, at = arguments[1:]
        say(json.dumps(fetch(address, int(nbytes), int(flows), float(at))))


if __name__ == "__main__":
    main(sys.argv[1:])
