"""Faults planted on purpose, each of which a test beside the file must notice.

`make mutants` copies the repository, plants one fault after the other, and runs the tests that are named with it: they
must fail.  A fault that they let pass is printed, and the exit code is 1.  `python -m tests.mutants PATTERN` plants
only those whose description or file contains the pattern.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
COPIED = ("algorithms", "devices", "emulator", "network", "scenarios", "tests", "pyproject.toml")
LIMIT = 300  # s that the tests of one fault may take: one that makes them hang is noticed too


class Mutant(NamedTuple):
    """One fault: in `file`, `before` stands once and becomes `after`; `tests` must notice."""

    what: str
    file: str
    before: str
    after: str
    tests: str  # paths for pytest, separated by spaces


MUTANTS = [
    Mutant(
        "a cell is won by whoever has the least mean",
        "emulator/studies/cells.py",
        "return self.first if self.contrast and self.contrast.decided else UNDECIDED",
        "return self.first if self.contrast else UNDECIDED",
        "tests/emulator/studies/test_places.py",
    ),
    Mutant(
        "p-values are not adjusted",
        "emulator/studies/comparisons.py",
        "adjusted = holm({n: each.contrast.p for n, each in enumerate(mine) if each.contrast})",
        "adjusted = {n: each.contrast.p for n, each in enumerate(mine) if each.contrast}",
        "tests/emulator/studies/test_places.py",
    ),
    Mutant(
        "a run that was cut off counts as if it had got there at its end",
        "emulator/results/observed.py",
        "return Timed(None, self.stamps[self._open(target)] if self.whole and self.stamps else inf)",
        "return Timed(self.stamps[-1], self.stamps[-1] if self.whole else inf)",
        "tests/emulator/studies/test_places.py",
    ),
    Mutant(
        "a study goes on over records of another protocol, and does not say so",
        "emulator/commands/study/play.py",
        "exploratory=self.recorded != self.digest,",
        "exploratory=False,",
        "tests/runs/test_study.py::test_a_report_over_another_protocol_must_be_called_exploratory",
    ),
    Mutant(
        "the baseline's training is not tried by others",
        "emulator/tuning/together.py",
        "known = baseline.on_links if baseline else []",
        "known = []",
        "tests/emulator/tuning/test_search.py",
    ),
    Mutant(
        "settings are chosen by test examples",
        "emulator/tuning/together.py",
        'METRIC: Literal["validation"] = "validation"',
        'METRIC: Literal["validation"] = "accuracy"  # type: ignore[assignment]',
        "tests/runs/test_tune.py::test_nothing_is_chosen_by_test_examples",
    ),
    Mutant(
        "who is good on another link does not go on",
        "emulator/tuning/search.py",
        "    for clock in _clocks(trials):\n        half",
        "    for clock in _clocks(trials)[:1]:\n        half",
        "tests/emulator/tuning/test_search.py",
    ),
    Mutant(
        "who ties with the last of the better half is left behind",
        "emulator/tuning/scores.py",
        "if found[thing].rank <= last)",
        "if found[thing].rank <= last)[:keep]",
        "tests/emulator/tuning/test_search.py",
    ),
    Mutant(
        "a configuration that cannot meet the deadline ends the search",
        "emulator/commands/tune/play.py",
        "self._title(asks, rounds), hopeless=True)",
        "self._title(asks, rounds))",
        "tests/runs/test_tune.py::test_a_configuration_that_can_never_meet_the_deadline_loses_and_breaks_nothing",
    ),
    Mutant(
        "a device of a split of uneven sizes may be left without an example",
        "devices/shards.py",
        "    while (due < 1).any():\n",
        "    for _ in range(1):\n",
        "tests/devices/test_shards.py",
    ),
    Mutant(
        "a training's key lacks what came down",
        "emulator/ledger/key.py",
        '            "download": download.digest,\n',
        "",
        "tests/emulator/ledger/test_key.py",
    ),
    Mutant(
        "FedCL's strength is left out of the key where 1 stands for an importance",
        "algorithms/fedcl_omega.py",
        "(self.has(kinds, memory) or self._own or self.ones)",
        "(self.has(kinds, memory) or self._own)",
        "tests/emulator/ledger/test_sharing.py",
    ),
    Mutant(
        "a bundle goes with the first of its messages",
        "emulator/ledger/bundles.py",
        "            if not self.held[path]:\n",
        "            if path:\n",
        "tests/emulator/ledger/test_bundles.py",
    ),
    Mutant(
        "workers do not find what lies in a bundle and was named by a ledger",
        "emulator/worlds/remembering.py",
        "                self.store.show(ref)\n",
        "                pass\n",
        "tests/emulator/worlds/test_remembering.py",
    ),
    Mutant(
        "a device that hears two things at once forgets the second",
        "emulator/conversation/device.py",
        "        while self.heard:\n",
        "        if self.heard:\n",
        "tests/emulator/conversation/test_device.py",
    ),
    Mutant(
        "a lost upload's memory is committed",
        "emulator/conversation/device.py",
        "self.memory = done.kept\n",
        "self.memory = done.kept if done.kept_if_counted is None else done.kept_if_counted\n",
        "tests/emulator/conversation/test_device.py",
    ),
    Mutant(
        "the job of a vanished device is not dropped",
        "emulator/conversation/device.py",
        'if self.bench.cut("off"):\n            self.drop()',
        'self.bench.cut("off")',
        "tests/emulator/conversation/test_device.py",
    ),
    Mutant(
        "work that was cut by an absence is cut again",
        "emulator/conversation/processor.py",
        "if call and not self.away:",
        "if call:",
        "tests/emulator/conversation/test_processor.py",
    ),
    Mutant(
        "paused work begins anew",
        "emulator/conversation/processor.py",
        "self.bill = self.bill.part(1 - done)",
        "self.bill = self.bill",
        "tests/emulator/conversation/test_processor.py",
    ),
    Mutant(
        "replies of a failed round are acknowledged",
        "emulator/conversation/server.py",
        "self.counted.update(dict.fromkeys(play.replies, number) if not play.round.failed else {})",
        "self.counted.update(dict.fromkeys(play.replies, number))",
        "tests/emulator/conversation/test_server.py",
    ),
    Mutant(
        "a time slice begins one slice later",
        "emulator/conversation/server.py",
        "cycle * seconds - self.world.now()",
        "(cycle + 1) * seconds - self.world.now()",
        "tests/emulator/conversation/test_server.py",
    ),
    Mutant(
        "a replay credits failed rounds",
        "emulator/replay/replayer.py",
        "self.steps.append(self.model + (not round.failed))",
        "self.steps.append(self.model + 1)",
        "tests/emulator/replay/test_replayer.py",
    ),
    Mutant(
        "a device that left before its download began is not gone",
        "emulator/conversation/presences.py",
        "return trip.gone or (trip.down is None and name in play.away)",
        "return trip.gone",
        "tests/emulator/conversation/test_presences.py",
    ),
    Mutant(
        "a replayed combine ends with the model that went down",
        "emulator/replay/replayer.py",
        'self.check.model + (what == "combine")',
        "self.check.model",
        "tests/emulator/replay/test_replayer.py",
    ),
    Mutant(
        "a failed round keeps the leverage of the round before",
        "emulator/replay/replayer.py",
        'return {**made, **learnt, "leverage": {}}',
        "return {**made, **learnt}",
        "tests/emulator/replay/test_replayer.py",
    ),
    Mutant(
        "runs are compared up to the end of the longest",
        "emulator/replay/batch.py",
        "return min(len(script.rounds) for script in self.scripts)",
        "return max(len(script.rounds) for script in self.scripts)",
        "tests/emulator/replay/test_replayer.py",
    ),
    Mutant(
        "ratios are said to be to another run although the baseline has begun",
        "emulator/results/soundness.py",
        "if played and not found.runs[first]:",
        "if played:",
        "tests/emulator/results/test_soundness.py",
    ),
    Mutant(
        "an answer to an old request lets the device rest",
        "emulator/conversation/channel.py",
        '        if parcel.header["round"] == self.asked:\n            self.rests()',
        "        self.rests()",
        "tests/emulator/conversation/test_channel.py",
    ),
    Mutant(
        "the last byte may arrive at the instant of going off",
        "emulator/conversation/channel.py",
        "if self.attendant.off:",
        "if False:",
        "tests/emulator/conversation/test_channel.py",
    ),
    Mutant(
        "bytes of a cut transfer are rounded up",
        "emulator/conversation/traffic.py",
        "return math.floor(wire)",
        "return math.ceil(wire)",
        "tests/emulator/conversation/test_traffic.py",
    ),
    Mutant(
        "a restarted transfer keeps its bytes",
        "emulator/conversation/traffic.py",
        'self.reached += moved if then == "resume" else 0',
        "self.reached += moved",
        "tests/emulator/conversation/test_traffic.py",
    ),
    Mutant(
        "a connection closes by an absence that begins now",
        "emulator/conversation/traffic.py",
        "presence.next_off(self.silent[device]) < now",
        "presence.next_off(self.silent[device]) <= now",
        "tests/emulator/conversation/test_traffic.py",
    ),
    Mutant(
        "transfers that end at one instant end in reverse order",
        "emulator/conversation/traffic.py",
        "for number in self.fluid.advance(now):",
        "for number in reversed(list(self.fluid.advance(now))):",
        "tests/emulator/conversation/test_traffic.py",
    ),
    Mutant(
        "results of one instant are in reverse order",
        "emulator/worlds/virtual.py",
        "return [task.value for task in tasks]",
        "return [task.value for task in reversed(tasks)]",
        "tests/emulator/worlds/test_virtual.py tests/contracts/test_worlds.py",
    ),
    Mutant(
        "resumed bytes are counted twice",
        "emulator/record/record.py",
        "transfer.moved = sum(transfer.sizes.values()) - transfer.since",
        "transfer.moved = sum(transfer.sizes.values())",
        "tests/emulator/record/test_record.py",
    ),
    Mutant(
        "the files of a run are not synced at its end",
        "emulator/record/record.py",
        "    with file:\n        file.flush()\n        os.fsync(file.fileno())",
        "    with file:\n        file.flush()",
        "tests/emulator/record/test_record.py",
    ),
    Mutant(
        "a file is replaced by one that is not synced",
        "emulator/record/record.py",
        "                file.flush()\n                os.fsync(file.fileno())",
        "                file.flush()",
        "tests/emulator/record/test_record.py",
    ),
    Mutant(
        "bytes that were kept are counted as cut too",
        "emulator/record/tally.py",
        "if piece.whole or (arrived and piece.kept):",
        "if piece.whole:",
        "tests/emulator/record/test_tally.py",
    ),
    Mutant(
        "the work of a failed round is useful",
        "emulator/play/rows.py",
        "useful = () if round.failed else play.replies",
        "useful = play.replies",
        "tests/emulator/play/test_rows.py",
    ),
    Mutant(
        "all machines cost the same",
        "emulator/pricing/costs.py",
        "key = device.profile.name, number",
        'key = "", number',
        "tests/emulator/pricing/test_costs.py",
    ),
    Mutant(
        "a model that loses on its way goes down as it is",
        "emulator/lab/jobs.py",
        'if known.tree.keys() == {"weights"} and not how and',
        'if known.tree.keys() == {"weights"} and',
        "tests/emulator/lab/test_jobs.py",
    ),
    Mutant(
        "every algorithm is taken for one that only averages",
        "emulator/lab/guarded.py",
        'return self._as_fedavg("combine")',
        "return True",
        "tests/emulator/lab/test_jobs.py",
    ),
    Mutant(
        "all steps draw the same dropout",
        "algorithms/generators.py",
        "np.full((POOL, 1), key, np.uint32)",
        "np.full((POOL, 1), 0, np.uint32)",
        "tests/algorithms/test_generators.py",
    ),
    Mutant(
        "the same batches in every round",
        "emulator/lab/jobs.py",
        "seed=derive(run.seed, purpose, name, round),",
        "seed=derive(run.seed, purpose, name),",
        "tests/emulator/lab/test_jobs.py",
    ),
    Mutant(
        "a flow that has ended joins the crowd",
        "network/windows/windows.py",
        "if self.carried(t, flow) < self._lone[flow].new.nbytes:",
        "if True:",
        "tests/network/windows/test_windows.py",
    ),
    Mutant(
        "windows remember when links were due though somebody has come",
        "network/windows/windows.py",
        "        self._dues = None\n        return",
        "        return",
        "tests/network/windows/test_windows.py",
    ),
    Mutant(
        "a round is taken to be whole though a deadline may cut some",
        "emulator/conversation/server.py",
        "return enough and self.rules.deadline is None and self.always_on and",
        "return enough and self.always_on and",
        "tests/emulator/play/test_ahead.py",
    ),
    Mutant(
        "a reply that is not sound is combined ahead",
        "emulator/play/ahead.py",
        "if any(done.upload.fault for done in trained.values()):",
        "if False:",
        "tests/emulator/play/test_ahead.py",
    ),
    Mutant(
        "the next round is trained though the run may end before it",
        "emulator/play/conduct.py",
        "return round < self.rules.max and self.stop_at is None and self.until is None",
        "return round < self.rules.max",
        "tests/emulator/play/test_ahead.py",
    ),
    Mutant(
        "the next round is trained with what devices had kept before this one",
        "emulator/play/ahead.py",
        "memories.get(name) or self._memory(play, name))",
        "self._memory(play, name))",
        "tests/emulator/play/test_ahead.py",
    ),
    Mutant(
        "what had begun is dropped where a run is interrupted",
        "emulator/play/run.py",
        "            outcome.begun = await foresight.begun()",
        "            pass",
        "tests/emulator/play/test_ahead.py",
    ),
    Mutant(
        "a seed's upper half is left out",
        "algorithms/generators.py",
        "entropy[0], entropy[1] = column & LOW, column >> 32",
        "entropy[0] = column & LOW",
        "tests/algorithms/test_generators.py",
    ),
    Mutant(
        "a price is that of another work",
        "emulator/pricing/costs.py",
        "key = device.profile.name, number",
        "key = device.profile.name, 0",
        "tests/emulator/pricing/test_costs.py",
    ),
    Mutant(
        "what the round before cost is what this one costs",
        "emulator/pricing/costs.py",
        "self.loads, self.works, self.duties, self.uploaded = {}, {}, {}, None",
        "self.loads, self.duties, self.uploaded = {}, {}, None",
        "tests/emulator/pricing/test_costs.py",
    ),
    Mutant(
        "a link is never balanced while all run at their caps",
        "network/sharing/hierarchy.py",
        "node.reserved > node.total:",
        "node.reserved < 0:",
        "tests/network/sharing/test_fluid.py",
    ),
    Mutant(
        "an upload that may only be read is copied",
        "emulator/lab/codec.py",
        "        return from_numpy(_for_torch(values))",
        "        return from_numpy(values.copy())",
        "tests/emulator/lab/test_codec.py",
    ),
    Mutant(
        "the last batches are as long as the first",
        "emulator/worlds/batches.py",
        "most = min(self.longest, max(LONGEST, len(self.waiting) * seconds / self.workers / 2))",
        "most = self.longest",
        "tests/emulator/worlds/test_batches.py",
    ),
    Mutant(
        "the same seed on all devices",
        "emulator/lab/jobs.py",
        "seed=derive(run.seed, purpose, name, round),",
        "seed=derive(run.seed, purpose, round),",
        "tests/emulator/lab/test_jobs.py",
    ),
    Mutant(
        "a radio sleeps at 10 s sharp",
        "devices/device.py",
        "if idle > RADIO_SLEEPS else",
        "if idle >= RADIO_SLEEPS else",
        "tests/devices",
    ),
    Mutant(
        "a name may come twice in a message",
        "network/wire/form.py",
        "name <= last",
        "name < last",
        "tests/network/wire/test_payload.py",
    ),
    Mutant(
        "a cap that equals the share is not capped",
        "network/sharing/bottleneck.py",
        "return flow.wide * rest <= ",
        "return flow.wide * rest < ",
        "tests/network/sharing/test_fluid.py",
    ),
    Mutant(
        "flows of a link that becomes full still weigh on those above",
        "network/sharing/hierarchy.py",
        "link.total - link.reserved, -link.weight)",
        "link.total - link.reserved, 0)",
        "tests/network/sharing/test_fluid_tree.py",
    ),
    Mutant(
        "nobody above hears of a full link's new capacity",
        "network/sharing/hierarchy.py",
        "self._add(node.above[1:], node.total - before, 0)",
        "self._add(node.above[1:], 0, 0)",
        "tests/network/sharing/test_fluid_tree.py",
    ),
    Mutant(
        "links below one that becomes full stay with the one over it",
        "network/sharing/hierarchy.py",
        "if each.over is old:",
        "if each.over is new:",
        "tests/network/sharing/test_fluid_tree.py",
    ),
    Mutant(
        "a full queue takes what comes",
        "network/windows/queue.py",
        "    if room < segment:\n        return 0\n",
        "    if room < segment:\n        return count\n",
        "tests/network/windows",
    ),
    Mutant(
        "HyStart leaves slow start as it is",
        "network/windows/cubic.py",
        "    if f.found:\n        f.ssthresh = f.cwnd\n",
        "",
        "tests/network/windows",
    ),
    Mutant(
        "a loss does not make Reno's window smaller",
        "network/windows/cubic.py",
        "return max(f.cwnd * RENO_BETA, 2.0)",
        "return max(f.cwnd, 2.0)",
        "tests/network/windows",
    ),
    Mutant(
        "a future that is taken back leaves its queues behind",
        "network/windows/kernel.py",
        "        to.links[number] = s.links[number]\n",
        "        pass\n",
        "tests/network/windows",
    ),
    Mutant(
        "acknowledgements do not wait behind data",
        "network/windows/path.py",
        "        t = passed(s, link, t, ACK)\n",
        "",
        "tests/network/windows",
    ),
    Mutant(
        "what a flow carried when it was alone is forgotten",
        "network/windows/windows.py",
        "self._before[flow] = carried",
        "self._before[flow] = 0.0",
        "tests/network/windows",
    ),
    Mutant(
        "air may be used for more than there is",
        "network/sharing/air.py",
        "fits = used <= self.capacities * (1 + NEAR)",
        "fits = used <= self.capacities * 2",
        "tests/network/sharing/test_fluid_airtime.py",
    ),
    Mutant(
        "levels may leave a link that holds flows unfilled",
        "network/sharing/air.py",
        "elif ((used >= self.capacities * (1 - NEAR)) | (levels[:, :-1] == MOST)).all():",
        "else:",
        "tests/network/sharing/test_fluid_airtime.py",
    ),
    Mutant(
        "a level does not depend on those of the links above",
        "network/sharing/linear.py",
        "known.sum(axis=2)",
        "0 * known.sum(axis=2)",
        "tests/network/sharing/test_air.py",
    ),
    Mutant(
        "a second device in a home moves all others",
        "network/sharing/fluid.py",
        "if not isinstance(top.sharing, Tree):",
        "if True:",
        "tests/network/sharing/test_fluid_airtime.py",
    ),
    Mutant(
        "a reply of 0 examples is sound",
        "emulator/conversation/exchange.py",
        "not 1 <= examples <= held",
        "not 0 <= examples <= held",
        "tests/emulator/conversation/test_exchange.py",
    ),
    Mutant(
        "who was off when asked counts as late",
        "emulator/conversation/exchange.py",
        'raise Lost("off")',
        "return",
        "tests/emulator/conversation/test_exchange.py",
    ),
    Mutant(
        "a late reply is kept for the new model",
        "emulator/conversation/exchange.py",
        "elif not refusal and round.count(name):",
        "elif not refusal and (round.count(name) or True):",
        "tests/emulator/conversation/test_exchange.py",
    ),
    Mutant(
        "failed rounds need not be in a row",
        "emulator/conversation/server.py",
        "failures + 1 if play.round.failed else 0",
        "failures + play.round.failed",
        "tests/emulator/conversation/test_server.py",
    ),
    Mutant(
        "the server listens to all addresses",
        "emulator/play/over_sockets.py",
        'socket.create_server(("127.0.0.1", 0)',
        'socket.create_server(("0.0.0.0", 0)',
        "tests/emulator/play/test_over_sockets.py",
    ),
    Mutant(
        "an upload that is still on its way may be spoken for",
        "emulator/conversation/websocket.py",
        'if flight is None or flight.direction != "up" or not flight.landed:',
        'if flight is None or flight.direction != "up":',
        "tests/emulator/conversation/test_websocket.py",
    ),
    Mutant(
        "any upload in flight may be spoken for",
        "emulator/conversation/websocket.py",
        'return (parcel.header["round"], sum(parcel.sizes.values())) == (flight.call.round, flight.nbytes)',
        "return True",
        "tests/emulator/conversation/test_websocket.py",
    ),
    Mutant(
        "whoever names a device speaks for it",
        "emulator/conversation/websocket.py",
        "if line is None or not hmac.compare_digest(said, _bearer(line).encode()):",
        "if line is None:",
        "tests/emulator/conversation/test_websocket.py",
    ),
    Mutant(
        "a second connection of a device takes the request of the first",
        "emulator/conversation/websocket.py",
        "async with line.turn:",
        "async with asyncio.Lock():",
        "tests/contracts/test_websocket_lines.py",
    ),
    Mutant(
        "strangers may have any number of connections",
        "emulator/conversation/websocket.py",
        "            strangers[0].abort()",
        "            pass",
        "tests/contracts/test_websocket_lines.py",
    ),
    Mutant(
        "what strangers send that is no HTTP prints a traceback",
        "emulator/conversation/websocket.py",
        "    log.addFilter(_is_ours)",
        "    pass",
        "tests/contracts/test_websocket_lines.py",
    ),
    Mutant(
        "a connection may be silent for ever",
        "emulator/conversation/websocket.py",
        "keepalive_timeout=SILENT",
        "keepalive_timeout=3600",
        "tests/contracts/test_websocket_lines.py",
    ),
    Mutant(
        "what a worker found wrong with its upload is forgotten",
        "emulator/lab/store.py",
        "return Stored(store.put(*view.pieces), view.sizes, fault)",
        "return Stored(store.put(*view.pieces), view.sizes)",
        "tests/emulator/lab/test_store.py",
    ),
    Mutant(
        "one end of a connection is reckoned",
        "emulator/play/over_sockets.py",
        "OF_DEVICE = 2",
        "OF_DEVICE = 1",
        "tests/emulator/play/test_connections.py",
    ),
    Mutant(
        "what computes before training takes its draw of jitter",
        "emulator/pricing/bills.py",
        "sorted(steps, key=lambda phase: phase != TRAINING)",
        "list(steps)",
        "tests/emulator/pricing/test_bills.py",
    ),
    Mutant(
        "each algorithm has batches of its own",
        "emulator/lab/jobs.py",
        "seed=derive(run.seed, purpose, name, round),",
        "seed=derive(run.seed, run.label, purpose, name, round),",
        "tests/runs/test_same_chances.py",
    ),
    Mutant(
        "each algorithm asks devices of its own",
        "emulator/conversation/server.py",
        'seed(self.run.seed, "cohort", number)',
        'seed(self.run.seed, self.run.label, "cohort", number)',
        "tests/runs/test_same_chances.py",
    ),
    Mutant(
        "a placebo has one order for all rounds of a server that keeps it",
        "algorithms/placebo.py",
        "spawn_key=(OWN, round)",
        "spawn_key=(OWN,)",
        "tests/algorithms/test_placebo.py",
    ),
]


def planted(mutant: Mutant) -> str:
    """The file's text with the fault in it.  Raises ValueError unless `before` stands there once."""
    text = (ROOT / mutant.file).read_text(encoding="utf-8")
    if (times := text.count(mutant.before)) != 1:
        raise ValueError(f"{mutant.what}: its text stands in {mutant.file} {times} times; it must stand there once")
    return text.replace(mutant.before, mutant.after)


def passes(tests: set[str], copy: Path) -> bool:
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *sorted(tests)]
    try:
        return subprocess.run(command, cwd=copy, capture_output=True, timeout=LIMIT, check=False).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def noticed(mutant: Mutant, copy: Path) -> bool:
    """Whether the tests fail in a copy of the repository with this fault."""
    path = copy / mutant.file
    sound = path.read_text(encoding="utf-8")
    path.write_text(planted(mutant), encoding="utf-8")
    try:
        return not passes(set(mutant.tests.split()), copy)
    finally:
        path.write_text(sound, encoding="utf-8")


def main(pattern: str = "") -> int:
    chosen = [mutant for mutant in MUTANTS if pattern in mutant.what or pattern in mutant.file]
    survived = []
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for name in COPIED:
            source = ROOT / name
            (shutil.copytree if source.is_dir() else shutil.copy)(source, copy / name)
        if not passes({test for mutant in chosen for test in mutant.tests.split()}, copy):
            print("the tests fail without any fault")
            return 2
        for mutant in chosen:
            caught = noticed(mutant, copy)
            print(f"{'caught' if caught else 'PASSED'}  {mutant.what}  ({mutant.file})", flush=True)
            survived += [] if caught else [mutant.what]
    print(f"{len(chosen) - len(survived)} of {len(chosen)} caught")
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2]))
