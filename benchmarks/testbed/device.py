"""A device in a process of its own: it polls, trains for real, and answers, as fast as kernel and quota let it.

Run as: python -m benchmarks.testbed.device SCENARIO NAME HOST.  A line on standard input, "label seed", begins a run;
204 ends it, and then it says when what happened (CLOCK_MONOTONIC, s).
"""

from __future__ import annotations

import http.client
import json
import os
import socket
import sys
import time

from benchmarks.testbed.ends import NICE
from benchmarks.testbed.namespaces import say
from emulator.compute.executors import quiet_torch
from emulator.conversation.device import Home
from emulator.lab import jobs, training
from emulator.lab.build import lab_of
from emulator.lab.lab import Lab
from emulator.messages.files import Memory
from emulator.messages.store import NOTHING
from network.wire import envelope
from scenarios.load import load

PORT = 4478


def attend(lab: Lab, run: jobs.Run, name: str, host: str) -> list[dict[str, float]]:
    """One run; for each round when its request had come, when it had trained and when it had answered."""
    home, store = Home(), Memory()
    told: list[dict[str, float]] = []
    connection = http.client.HTTPConnection(host, PORT)
    connection.connect()
    connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, lab.links[name].tcp.congestion.encode())
    while True:
        connection.request("POST", f"/next?device={name}&resting=1")
        response = connection.getresponse()
        data = response.read()
        if response.status == 204:
            connection.close()
            return told
        came = time.monotonic()
        header, body = envelope.unpack(data)
        round = header["round"]
        assert isinstance(round, int)
        home = home.informed(header)
        done = training.train(lab, store, run, name, round, store.put(body), home.memory.ref, False)
        home.keep(round, done)
        answer = envelope.pack({"round": round, "examples": done.examples}, store.get(done.upload.ref))
        trained = time.monotonic()
        connection.request("POST", f"/reply?device={name}", body=answer)
        connection.getresponse().read()
        told.append({"came": came, "trained": trained, "answered": time.monotonic()})


def warm(lab: Lab, name: str) -> None:
    """Trains once with each algorithm: the first time takes longer than any other."""
    for label in lab.algorithms:
        run = jobs.Run(label, min(lab.splits))
        store = Memory()
        opening = jobs.request(lab, store, run, 0, jobs.start(lab, store, run).message, tuple(lab.fleet))
        download = opening.extra.get(name, opening.download)
        training.train(lab, store, run, name, 0, download.ref, NOTHING, False)


def main(scenario: str, name: str, host: str) -> None:
    os.setpriority(os.PRIO_PROCESS, 0, NICE)
    quiet_torch()
    lab = lab_of(load(scenario))
    warm(lab, name)
    say("ready")
    for line in sys.stdin:
        label, seed = line.split()
        say(json.dumps(attend(lab, jobs.Run(label, int(seed)), name, host)))


if __name__ == "__main__":
    main(*sys.argv[1:])
