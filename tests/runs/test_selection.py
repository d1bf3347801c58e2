"""Whole runs whose devices are chosen by what the server knows of them: choices, audit, replay, bytes, errors."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest

from algorithms.algorithm import Message, Party, Reply
from algorithms.fedavg import FedAvg
from algorithms.selection.past import Known
from emulator.audit.audit import Audit, audit
from emulator.compute.executors import Inline
from emulator.conversation.versions import AsyncServer
from emulator.lab.build import lab_of
from emulator.lab.training import train
from emulator.ledger.key import Keys
from emulator.messages.store import EMPTY
from emulator.play.conduct import Conduct
from emulator.play.over_sockets import run_sockets
from emulator.play.run import run_virtual
from emulator.record.lines import encode
from emulator.record.record import FILES
from emulator.record.run import Run
from emulator.replay.conditions import Condition
from emulator.replay.replayer import Replayed, Replayer
from emulator.replay.script import read_script
from scenarios.load import build, dump, recorded
from scenarios.text.faults import BadScenario
from tests.all_of import all_of
from tests.conftest import SMALL, Played, merged

LINK = {"up_mbit_s": 8, "down_mbit_s": 8, "latency_ms": 5}
FLEET = [
    {"name": "fast", "profile": "pi-4", "count": 4, "link": LINK},
    {"name": "slow", "profile": "phone-mid", "count": 4, "link": {**LINK, "up_mbit_s": 0.5}},
]
AWAY = [{**group, "presence": {"off": [[t, t + 1.5] for t in range(3, 200, 7)]}} for group in FLEET]
SYNC = {"max": 8, "fraction": 0.25}
ASYNC = {"max": 3, "mode": "async", "buffer": 2, "in_flight": 4, "max_staleness": 3}
ANY = {"power_of_choice": {"candidates": 1e6}}  # all devices are candidates


def lab_and_run(selection: Any, **changes: Any) -> tuple[Any, Any, Run]:
    fixed = {"evaluate": {"every": 0}, "model": "digits-mlp", "data": {"split": {"kind": "dirichlet", "alpha": 0.5}}}
    scenario = build({**merged(SMALL, fixed), "fleet": FLEET, "rounds": SYNC, "selection": selection, **changes})
    return scenario, lab_of(scenario), Run(scenario.algorithms[0].name, 1)


def played(out: Path, selection: Any, sockets: float | None = None, **changes: Any) -> Played:
    """A run, with the files that are beside it; `sockets`: virtual seconds in a real one."""
    scenario, lab, run = lab_and_run(selection, **changes)
    args = lab, run, Conduct.of(scenario), Inline(lab), out / run.name
    outcome = asyncio.run(run_sockets(*args, speedup=sockets) if sockets else run_virtual(*args))
    beside = {"scenario.yaml": dump(scenario), "host.json": {"world": "sockets" if sockets else "virtual"}}
    beside["split.json"] = {"classes": 10, "seeds": {"1": {"devices": lab.label_counts(1)}}}
    for name, content in beside.items():
        (out / name).write_text(content if isinstance(content, str) else json.dumps(content))
    return Played(out / run.name, outcome)


def found(run: Played) -> Audit:
    return audit(run.folder)


def replayed(run: Played, folder: Path, condition: Condition | None = None, anyway: bool = False) -> Replayed:
    replayer, script = Replayer(recorded(run.folder.parent)), read_script(run.folder)
    setting = condition.setting(replayer.own) if condition else replayer.own
    return replayer.replay(script, setting, folder / run.folder.name, anyway)


CASES = [
    ("power_of_choice", {}),
    ("oort", {}),
    ("oort", {"rounds": {**SYNC, "ask": 4, "stragglers": "count"}, "fleet": AWAY}),
    ("power_of_choice", {"rounds": ASYNC}),
    ("oort", {"rounds": {**ASYNC, "timeout_s": 1.0}, "fleet": AWAY, "algorithms": ["fedbuff"]}),
    ("oort", {"rounds": ASYNC, "fleet": [{**FLEET[0], "count": 6}]}),  # devices in step: replies at one instant
]


@pytest.mark.slow
@pytest.mark.parametrize(("selection", "changes"), CASES)
def test_no_run_breaks_a_law_and_its_replay_is_the_run(tmp_path: Path, selection: str, changes: Any) -> None:
    run = played(tmp_path, selection, **changes)
    assert run.outcome.failure is None
    assert found(run) == Audit([], None, True)
    again = replayed(run, tmp_path / "again")
    assert (again.parting, again.assumed, again.failure) == (None, 0, None)
    for name in FILES:
        assert (tmp_path / "again" / run.folder.name / name).read_bytes() == (run.folder / name).read_bytes(), name


@pytest.mark.slow
@pytest.mark.parametrize("rounds", [SYNC, ASYNC])
def test_new_devices_come_first_then_those_with_the_largest_loss(tmp_path: Path, rounds: Any) -> None:
    """Worked out from the events alone: a loss is known once a round that counts its reply has closed."""
    run = played(tmp_path, ANY, rounds=rounds)
    asked: set[str] = set()
    losses: dict[str, float] = {}
    said, working, judged = {}, dict[tuple[str, int], None](), 0
    names = {f"{kind}-{n}" for kind in ("fast", "slow") for n in range(4)}
    for line in run.events:
        if line["event"] == "compute.end":
            said[line["device"], line["round"]] = line["loss"]
        elif line["event"] == "close":
            calls = [(call, line["round"]) if isinstance(call, str) else tuple(call) for call in line["counted"]]
            losses |= {call[0]: said[call] for call in calls}
        elif line["event"] == "up.end":
            del working[line["device"], line["round"]]
        elif line["event"] in ("open", "ask") and line["asked"]:
            here = set(line["asked"])
            free = names - {name for name, _ in working}
            new = free - asked
            if len(new) >= len(here):
                assert here <= new
            elif all_of(name in losses for name in free - new):
                rest = sorted(free - new, key=losses.__getitem__, reverse=True)[: len(here) - len(new)]
                assert here == new | set(rest)
                judged += 1
            asked |= here
            working |= dict.fromkeys((name, line["round"]) for name in here)
    assert judged >= 3


@pytest.mark.slow
def test_the_loss_of_a_reply_is_charged(tmp_path: Path) -> None:
    """14 bytes in msgpack: the name `loss` in 5, a double in 9; a choice that needs none charges none."""
    frames = {}
    for selection in ("random", "oort", f"{__name__}:Fastest"):
        run = played(tmp_path / selection[:4], selection)
        frames[selection] = run.of("up.start", round=0)[0]["bytes"]["frame"]
        assert found(run) == Audit([], None, True)
    assert frames["oort"] == frames["random"] + 14
    assert frames[f"{__name__}:Fastest"] == frames["random"]


def test_keys_of_trainings_change_only_where_losses_are_asked_for() -> None:
    parts = []
    for selection in ("random", "power_of_choice", "oort"):
        _, lab, run = lab_and_run(selection)
        args = run, "fast-0", 0, EMPTY.ref, EMPTY.ref, False
        parts.append(dict(Keys(lab, "", {"": "", run.label: ""}).parts(train, args)))
    plain, mean, root = parts
    assert (mean.pop("loss_power"), root.pop("loss_power")) == (1, 2)
    assert plain == mean == root


# ---- planted faults


def changed(run: Played, out: Path, change: Callable[[list[Any]], None], run_json: bytes = b"") -> list[str]:
    """The faults of the run's record after a change of its events."""
    shutil.copytree(run.folder.parent, out)
    folder = out / run.folder.name
    events = json.loads(json.dumps(run.events))
    change(events)
    (folder / "seal.json").unlink()
    (folder / "events.jsonl").write_bytes(b"".join(map(encode, events)))
    if run_json:
        (folder / "run.json").write_bytes(run_json)
    return audit(folder).faults


@pytest.mark.slow
@pytest.mark.parametrize("rounds", [SYNC, ASYNC])
def test_a_choice_that_does_not_follow_from_the_past_is_found(tmp_path: Path, rounds: Any) -> None:
    """A loss in the record is not the one by which the server chose."""
    run = played(tmp_path / "run", ANY, rounds=rounds)

    def other(events: list[Any]) -> None:
        ends = [line for line in events if line["event"] == "compute.end"]
        for line in ends[: len(ends) // 2]:
            line["loss"] = 9.0 - line["loss"]

    assert changed(run, tmp_path / "same", lambda events: None) == []
    said = changed(run, tmp_path / "other", other)
    assert any("from what was known then" in fault for fault in said)
    assert all_of(fault.startswith("scenario: ") for fault in said)


@pytest.mark.slow
def test_a_server_that_looks_at_replies_before_their_version_has_closed_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds = {**ASYNC, "buffer": 4}
    assert found(played(tmp_path / "honest", ANY, rounds=rounds)) == Audit([], None, True)
    chosen = AsyncServer._chosen

    def peeking(self: Any, number: int, names: Sequence[str], count: int, root: int) -> Sequence[str]:
        for reply in self.exchange.open.replies:
            self.pasts[reply.device] = self.pasts[reply.device]._replace(loss=reply.loss, asked=1)
        return chosen(self, number, names, count, root)

    monkeypatch.setattr(AsyncServer, "_chosen", peeking)
    said = found(played(tmp_path / "peeking", ANY, rounds=rounds)).faults
    assert any("from what was known then" in fault for fault in said)


@pytest.mark.slow
@pytest.mark.parametrize("rounds", [SYNC, ASYNC])
def test_a_wrong_list_of_idle_devices_and_a_wrong_rule_are_found(tmp_path: Path, rounds: Any) -> None:
    run = played(tmp_path / "run", "oort", rounds=rounds)

    def unlike(events: list[Any]) -> None:
        [line for line in events if "idle" in line][2]["idle"] = "0" * 16

    said = changed(run, tmp_path / "idle", unlike)
    assert len(said) == 1
    assert "other devices are online and idle by the scenario" in said[0]
    drawn = (run.folder / "run.json").read_bytes().replace(b'"chosen"', b'"drawn"')
    said = changed(run, tmp_path / "drawn", lambda events: None, drawn)
    assert any("by run.json devices are drawn; the scenario has a selection" in fault for fault in said)


# ---- replay elsewhere, sockets


@pytest.mark.slow
def test_on_other_links_a_replay_is_the_run_while_choices_do_not_depend_on_seconds(tmp_path: Path) -> None:
    other = {"up_mbit_s": 2, "down_mbit_s": 3, "latency_ms": 70}
    condition = Condition("slow", down=3e6 / 8, up=2e6 / 8, latency=0.07)
    run = played(tmp_path / "run", "power_of_choice")
    there = played(tmp_path / "there", "power_of_choice", fleet=[{**group, "link": other} for group in FLEET])
    again = replayed(run, tmp_path / "again", condition)
    assert again.parting is None
    assert again.rows == there.rounds


@pytest.mark.slow
def test_where_seconds_change_a_choice_a_replay_ends_there_or_goes_on_inexactly(tmp_path: Path) -> None:
    """On equal links the slow devices are slow no more, so Oort has no reason to leave them out."""
    run = played(tmp_path / "run", {"oort": {"exploration": 0.3, "cutoff": 0.0, "preferred_s": 0.1, "alpha": 8.0}})
    alike = Condition("alike", down=1e6, up=1e6, latency=0.005)
    parted = replayed(run, tmp_path / "parted", alike)
    assert parted.parting
    assert len(parted.rows) == parted.parting.round < len(run.rounds)
    assert "the choice looks at seconds and losses of earlier replies" in parted.parting.why
    whole = replayed(run, tmp_path / "whole", alike, anyway=True)
    assert (len(whole.rows), whole.parting) == (len(run.rounds), parted.parting)


@pytest.mark.slow
def test_over_sockets_the_same_laws_hold_and_losses_travel(tmp_path: Path) -> None:
    """Choices by losses are those of virtual time to the bit, as long as the same replies count."""
    run, virtual = played(tmp_path / "real", ANY, sockets=20.0), played(tmp_path / "virtual", ANY)
    assert found(run) == Audit([], None, True)
    assert [line["asked"] for line in run.of("open")] == [line["asked"] for line in virtual.of("open")]
    assert run.model == virtual.model


# ---- own rules, and errors


@dataclass(frozen=True)
class Fastest:
    """A user's own rule: those whose last reply took the shortest; devices without a reply took no time yet."""

    loss_power: ClassVar[int] = 0

    def cohort(self, round: int, names: Sequence[str], count: int, past: Known, seed: int) -> Sequence[str]:
        return sorted(names, key=lambda name: past[name].seconds)[:count]


@dataclass(frozen=True)
class Stranger:
    loss_power: ClassVar[int] = 0

    def cohort(self, *_: Any) -> Sequence[str]:
        return ["nobody"]


@dataclass(frozen=True)
class Silent(FedAvg):
    """An algorithm that trains in a way of its own, which notes no losses."""

    def train(self, download: Message, device: Party) -> Reply:
        return Reply({"weights": download["weights"]}, len(device.y))


@pytest.mark.slow
def test_an_own_rule_sees_the_past(tmp_path: Path) -> None:
    """Eight devices, two a round: each is asked once, and from then on the two that were fastest."""
    run = played(tmp_path, f"{__name__}:Fastest")
    asked = [line["asked"] for line in run.of("open")]
    assert sorted(name for names in asked[:4] for name in names) == sorted({name for names in asked for name in names})
    assert all_of(name.startswith("fast") for names in asked[4:] for name in names)
    assert replayed(run, tmp_path / "again").parting is None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("selection", "algorithm", "said"),
    [
        (f"{__name__}:Stranger", "fedavg", "cohort() must return some of the names that it is given; 'nobody' is none"),
        ("oort", {f"{__name__}:Silent": {}, "name": "mine"}, "train() noted no losses, which `selection` asks for"),
    ],
)
def test_own_code_that_is_wrong_ends_its_run_with_a_line(
    tmp_path: Path, selection: str, algorithm: Any, said: str
) -> None:
    assert said in str(played(tmp_path, selection, algorithms=[algorithm]).outcome.fault)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"selection": "ort"}, "selection: there is no selection 'ort'; did you mean oort?"),
        ({"selection": {"oort": {"alfa": 1}}}, "selection.oort.alfa: unknown key 'alfa'; did you mean alpha?"),
        ({"selection": {"oort": {"clip": 2.0}}}, "selection.oort: clip is 2.0; it must be from 0 to 1"),
        ({"selection": {"oort": {}, "random": {}}}, "selection: it is {'oort': {}, 'random': {}}; it must be a name"),
        ({"selection": f"{__name__}:SYNC"}, f"{__name__}:SYNC must be a frozen dataclass with a method `cohort`"),
        ({"selection": f"{__name__}:Silent"}, "must say `loss_power: ClassVar[int]`"),
        (
            {"algorithms": [{"fedavg": {"selection": "no"}}]},
            "algorithms.0.fedavg.selection: there is no selection 'no'",
        ),
        (
            {"selection": "oort", "algorithms": ["fedavg", {"continual": {}}]},
            "algorithms.1.continual: continual selects devices by a rule of its own; it needs `selection: random`",
        ),
    ],
)
def test_a_wrong_selection_is_told_with_its_place(changes: Mapping[str, Any], said: str) -> None:
    with pytest.raises(BadScenario) as told:
        build({**SMALL, **changes})
    assert said in str(told.value)


def test_an_algorithm_may_have_a_selection_of_its_own() -> None:
    algorithms = ["fedavg", {"fedprox": {"selection": {"oort": {"alpha": 1.0}}}}, {"fedcl": {"selection": "random"}}]
    scenario = build({**SMALL, "selection": "power_of_choice", "algorithms": algorithms})
    chosen = {label: type(guarded.selection).__name__ for label, guarded in lab_of(scenario).selections.items()}
    assert chosen == {"fedavg": "PowerOfChoice", "fedprox": "Oort"}


@pytest.mark.slow
def test_check_says_what_it_knows_of_a_choice(fedlapse: Any, tmp_path: Path) -> None:
    (tmp_path / "small.yaml").write_text(dump(build({**SMALL, "fleet": FLEET, "selection": "oort"})))
    done = fedlapse("check", tmp_path / "small.yaml")
    assert done.returncode == 0, done.stderr
    assert "fedavg: oort chooses the devices. The rehearsal knows the seconds" in " ".join(done.stdout.split())
