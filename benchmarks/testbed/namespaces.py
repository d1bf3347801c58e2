"""Two network namespaces that this process makes, joined by a wire, and taken down whatever happens.  Needs root.

`left` is the server's, `right` the device's.  Names carry the process' id, so that two benchmarks can run at once.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

LEFT, RIGHT = "10.77.0.1", "10.77.0.2"
CLONE_NEWNET = 0x40000000
SIOCETHTOOL = 0x8946
SWITCHES = {"tso": 0x1F, "gso": 0x24, "gro": 0x2C}  # ETHTOOL_STSO, _SGSO, _SGRO of <linux/ethtool.h>
BURST = 15_000  # bytes that htb lets through at once after a silence
SETTINGS = {
    # else a connection begins with the slow start threshold that the last one to the same address ended with
    "net.ipv4.tcp_no_metrics_save": "1",
    # nothing but the transfer shall be on the link
    "net.ipv6.conf.all.disable_ipv6": "1",
    "net.ipv6.conf.default.disable_ipv6": "1",
}


@dataclass(frozen=True)
class Pair:
    """The names of both namespaces."""

    left: str
    right: str


def missing() -> str | None:
    """Why this machine cannot do it, in one sentence; None if it can."""
    if os.geteuid() != 0:
        return "needs root: it makes network namespaces; run it with sudo"
    for tool in ("ip", "tc"):
        if shutil.which(tool) is None:
            return f"needs {tool} (iproute2), which is not installed"
    if not Path("/dev/net/tun").exists():
        return "needs /dev/net/tun, which this machine does not have"
    return None


def run(*command: str) -> str:
    """The command's output.  Raises RuntimeError with its error text if it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed: {done.stderr.strip()}")
    return done.stdout


@contextmanager
def ended_politely() -> Iterator[None]:
    """SIGTERM ends this process as Ctrl-C does: through every `finally`."""

    def stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        sys.exit(128 + number)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


_made = 0


@contextmanager
def spaces(count: int) -> Iterator[list[str]]:
    """So many namespaces without a wire between them; gone afterwards, with every device in them."""
    global _made
    _made += 1
    names = [f"fedlapse-{os.getpid()}-{_made}-{number}" for number in range(count)]
    with ExitStack() as stack:
        for name in names:
            stack.callback(_remove, name)
            run("ip", "netns", "add", name)
            for key, value in SETTINGS.items():
                inside(name, ("sysctl", "-qw", f"{key}={value}"))
        yield names


@contextmanager
def pair() -> Iterator[Pair]:
    """Two of them."""
    with spaces(2) as (left, right):
        yield Pair(left, right)


def _remove(name: str) -> None:
    with suppress(RuntimeError):  # it was not made
        run("ip", "netns", "delete", name)


def inside(name: str, command: Sequence[str]) -> str:
    """Runs a command in a namespace; what it printed."""
    return run("ip", "netns", "exec", name, *command)


def start(name: str, module: str, *arguments: str) -> subprocess.Popen[str]:
    """A Python process in a namespace, which ends when its standard input is closed."""
    command = ("ip", "netns", "exec", name, sys.executable, "-m", module, *arguments)
    return began(command)


def began(command: Sequence[str]) -> subprocess.Popen[str]:
    """A process that Ctrl-C does not reach: it ends with its input, when this one has put things away."""
    root, pipe = Path(__file__).parents[2], subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=root, start_new_session=True)


def heard(process: subprocess.Popen[str]) -> str:
    """The next line that it says.  Raises RuntimeError if it has ended."""
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise RuntimeError(f"{process.args!r} ended with {process.wait()}")
    return line.strip()


def say(line: str) -> None:
    """A line to whoever started this process."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def stop(process: subprocess.Popen[str]) -> None:
    """Closes its input, on which it ends; kills it if it does not."""
    assert process.stdin is not None
    assert process.stdout is not None
    with suppress(BrokenPipeError):
        process.stdin.close()
    try:
        process.wait(2)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    process.stdout.close()


@dataclass(frozen=True)
class End:
    """One end of a wire: a device in a namespace, and what leaves it, bytes/s; None: as fast as the machine is."""

    namespace: str
    device: str
    address: str
    rate: float | None = None


def join(ends: tuple[End, End], queue: int, burst: int = BURST) -> None:
    """A veth, 0 s long; what leaves an end is shaped by htb to its rate, before a droptail queue.

    htb counts what is on the wire with Ethernet's 14 bytes.  It would count a super-packet of 64 kB rightly (the kernel
    adds the headers of each segment), but release it at once, beyond its burst; switching the offloads off does not
    keep TCP from making them (since Linux 4.17), so a packet is told to be one segment.
    """
    left, right = ends
    here = ("ip", "link", "add", left.device, "netns", left.namespace, "type", "veth")
    run(*here, "peer", "name", right.device, "netns", right.namespace)
    for end in ends:
        with in_namespace(end.namespace):
            offloads(end.device, on=False)
        run("ip", "-n", end.namespace, "link", "set", end.device, "gso_max_segs", "1")
        set_up(end.namespace, end.device, end.address)
        if end.rate is not None:
            _shape(end, end.rate, queue, burst)


def _shape(end: End, rate: float, queue: int, burst: int) -> None:
    tc, bits = ("tc", "-n", end.namespace), f"{round(rate * 8)}bit"
    run(*tc, "qdisc", "add", "dev", end.device, "root", "handle", "1:", "htb", "default", "1")
    run(
        *(*tc, "class", "add", "dev", end.device, "parent", "1:", "classid", "1:1", "htb"),
        *("rate", bits, "burst", f"{burst}b", "cburst", f"{burst}b", "quantum", "1514"),
    )
    run(*tc, "qdisc", "add", "dev", end.device, "parent", "1:1", "bfifo", "limit", str(queue))


def join_by_wire(names: Pair, rate: float, queue: int) -> None:
    """The left and the right; the link is what leaves the left, `rate` in bytes/s."""
    join((End(names.left, "wire", LEFT, rate), End(names.right, "wire", RIGHT)), queue)


def set_up(name: str, device: str, address: str) -> None:
    """Gives a namespace's device its address and sets it up."""
    run("ip", "-n", name, "address", "add", f"{address}/24", "dev", device)
    run("ip", "-n", name, "link", "set", device, "up")


def offloads(device: str, *, on: bool) -> None:
    """Segmentation and merging by the device, as `ethtool -K` switches them, in the namespace of this thread."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        for switch in SWITCHES.values():
            value = ctypes.create_string_buffer(struct.pack("II", switch, int(on)))
            request = struct.pack("16sP", device.encode(), ctypes.addressof(value)) + bytes(16)
            fcntl.ioctl(control, SIOCETHTOOL, request)


@contextmanager
def in_namespace(name: str) -> Iterator[None]:
    """This thread is in that namespace: sockets and devices that it makes now stay there."""
    with open("/proc/thread-self/ns/net") as home, open(f"/run/netns/{name}") as there:  # noqa: PTH123
        _enter(there.fileno())
        try:
            yield
        finally:
            _enter(home.fileno())


def _enter(descriptor: int) -> None:
    # os.setns is new in Python 3.12
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(descriptor, CLONE_NEWNET):
        code = ctypes.get_errno()
        raise OSError(code, f"setns: {os.strerror(code)}")
