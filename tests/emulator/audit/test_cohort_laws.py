"""The audit on whom a round asks: records written by hand, under scenarios that say so and others."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from algorithms.cohort import draw
from emulator.audit.audit import Audit, audit
from emulator.lab.seeds import seed
from emulator.record.run import RUN, AlgorithmFacts, Run, text_of
from tests.conftest import Play
from tests.emulator.audit.straggling import (
    DRAWN,
    HOST,
    LINK,
    SCENARIO,
    WORK,
    Body,
    alone,
    declare,
    events,
    row,
    rows,
    write,
)

OWN = AlgorithmFacts(keeps_uncounted=False, any_cohort_will_do=False, cohort="own")
NAMES = ("a-0", "a-1", "a-2", "a-3")
SIZES = {"down": {"weights": 90, "frame": 10}, "up": {"weights": 45, "frame": 5}}
Judge = Callable[..., Audit]


def fleet(**presence: Any) -> list[Body]:
    """Four devices that are alike."""
    return [{"name": "a", "profile": "plain", "count": 4, "link": LINK, "presence": presence}]


@pytest.fixture
def verdict(tmp_path: Path) -> Judge:
    """Judges a record of one round that asks one device of four."""

    def judge(
        asked: str,
        number: int = 1,
        facts: AlgorithmFacts = DRAWN,
        devices: list[Body] | None = None,
        world: str = "virtual",
        idle: Body | None = None,
        **rules: Any,
    ) -> Audit:
        rounds = {"max": 1, "fraction": 0.25, **rules}
        declare(tmp_path, HOST | {"world": world}, rounds=rounds, fleet=devices or fleet())
        lines = alone(0.0, 0, asked, None)
        lines[0] |= idle or {}
        folder = write(tmp_path, lines, [row(0, 3.5, asked, SIZES)], [WORK[0], {**WORK[1], "device": asked}])
        (folder / RUN).unlink()
        (folder / RUN).write_text(text_of(Run("fedavg", number), facts))
        return audit(folder)

    return judge


def digest(*names: str) -> Body:
    return {"idle": hashlib.sha256("\n".join(names).encode()).hexdigest()[:16]}


@pytest.mark.parametrize("number", range(1, 9))
def test_the_seed_says_which_device_is_asked(verdict: Judge, number: int) -> None:
    """Against the draw of the engine, which shares no code with the audit's."""
    [due] = draw(NAMES, 1, seed(number, "cohort", 0))
    for name in NAMES:
        faults = verdict(name, number).faults
        said = f"scenario: line 1, round 0: selects {name!r}, but the seed draws {due!r}"
        assert faults == ([] if name == due else [said])


def test_not_all_seeds_draw_the_same_device() -> None:
    assert len({draw(NAMES, 1, seed(number, "cohort", 0))[0] for number in range(1, 9)}) > 1


def test_fewer_or_more_than_the_scenario_says_are_found(verdict: Judge, tmp_path: Path) -> None:
    [fault] = verdict("a-0", ask=2).faults
    assert fault.endswith("selects 1 devices; 4 are online and idle, of which the scenario selects 2 at most")
    declare(tmp_path, rounds=SCENARIO["rounds"] | {"ask": 1})
    faults = audit(write(tmp_path, events(), rows())).faults
    assert faults[0].endswith(
        "round 0: selects 2 devices; 2 are online and idle, of which the scenario selects 1 at most"
    )


def test_who_is_offline_is_not_among_those_of_whom_the_seed_draws(verdict: Judge) -> None:
    """At first all devices but one are offline.  So this one must be asked with every seed, and no other."""
    others = [{**fleet()[0], "name": name, "count": 1} for name in "bcd"]
    away = [{**group, "presence": {"off": [[0.0, 9.0]]}} for group in others]
    devices = [{**fleet()[0], "count": 1}, *away]
    for number in range(1, 5):
        assert verdict("a-0", number, devices=devices).faults == []
        assert (
            "scenario: line 1, round 0: selects 'b-0', which is offline"
            in verdict("b-0", number, devices=devices).faults
        )


def test_a_straggler_is_not_among_them_until_it_has_ended(tmp_path: Path) -> None:
    """`b-0` goes on until 7.5; in the rounds that open at 3.5 and 7 only `a-0` is idle, at 10.5 both would be."""
    declare(tmp_path)
    assert audit(write(tmp_path, events(), rows())).faults == []
    fleet = [{**SCENARIO["fleet"][0], "presence": {}}, SCENARIO["fleet"][1]]
    declare(tmp_path, fleet=fleet)
    [fault] = audit(write(tmp_path, events(), rows())).faults
    assert "round 3: selects 1 devices; 2 are online and idle" in fault


def test_over_sockets_nobody_knows_who_was_online_at_the_very_opening(verdict: Judge) -> None:
    """The others come back as the round opens, a moment before or after the server looked."""
    on, away = {**fleet()[0], "count": 1}, {**fleet()[0], "name": "b", "count": 3}
    devices = [on, {**away, "presence": {"off": [[0.0, 1e-9]]}}]
    for world, sound in (("virtual", True), ("sockets", True)):
        assert (verdict("a-0", devices=devices, world=world).faults == []) is sound
    assert verdict("a-0", devices=devices, world="sockets", ask=2).faults == []


def test_a_rule_of_its_own_chooses_among_those_whom_idle_names(verdict: Judge) -> None:
    for name in NAMES:
        assert verdict(name, facts=OWN, idle=digest(*NAMES)).faults == []
    [fault] = verdict("a-0", facts=OWN, idle=digest("a-0", "a-1")).faults
    assert fault.endswith("but other devices are online and idle by the scenario")
    [fault] = verdict("a-0", facts=OWN).faults
    assert "open has no 'idle'" in fault


def test_who_draws_says_nothing_of_idle(verdict: Judge) -> None:
    [due] = draw(NAMES, 1, seed(1, "cohort", 0))
    [fault] = verdict(due, idle=digest(*NAMES)).faults
    assert "open has 'idle'" in fault


def test_a_rule_of_its_own_asks_no_more_than_the_scenario_says_unless_it_asks_all(tmp_path: Path) -> None:
    """The first round asks both of two devices; with a third one that is idle it should not."""
    lines = events()
    for body, idle in zip((b for b in lines if b["event"] == "open"), ("a-0 b-0", "a-0", "a-0", "b-0"), strict=True):
        body |= digest(*idle.split())
    declare(tmp_path, rounds=SCENARIO["rounds"] | {"ask": 1})
    assert audit(write(tmp_path, lines, rows(), facts=OWN)).faults == []
    third = {**SCENARIO["fleet"][0], "name": "c", "presence": {}}
    declare(tmp_path, rounds=SCENARIO["rounds"] | {"ask": 1, "fraction": 0.3}, fleet=[*SCENARIO["fleet"], third])
    faults = audit(write(tmp_path, lines, rows(), facts=OWN)).faults
    assert any(
        fault.endswith("selects 2 devices; it must be 1 at most, or all 3 that are online and idle") for fault in faults
    )


@pytest.mark.slow
@pytest.mark.parametrize("ask", [2, 3])
def test_a_run_that_was_played_asks_whom_the_seed_draws(play: Play, ask: int) -> None:
    """`play` audits it; not all cohorts are alike, so that something was judged."""
    run = play(rounds={"max": 4, "fraction": 0.5, "ask": ask}, evaluate={"every": 0})
    assert len({tuple(line["asked"]) for line in run.of("open")}) > 1
