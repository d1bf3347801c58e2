"""Profiles of a user's own: from a file into the scenario, and into every device of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from devices.device import Profile, profiles, read_profiles
from devices.profiles import QUANTITIES, shipped
from emulator.commands.calibrate import csv_lines, said_of
from emulator.forecast.fitting import RATES
from emulator.forecast.plan import forecast_of
from scenarios.builders import boards
from scenarios.builders.machines import fleet, server
from scenarios.load import build, dump, parse
from scenarios.schema.hardware import Board
from scenarios.text.faults import BadScenario
from tests.conftest import SMALL, merged

HEADER = "name,quantity,value,unit,source,date"
LINES = [
    'mine,speed,2,GFLOP/s,"measured: here, by me",2026-11-21',
    "mine,speed_conv,3,GFLOP/s,assumed,2026-11-21",
    "mine,memory_bandwidth,3,GB/s,assumed,2026-11-21",
    "mine,overhead,4,ms,assumed,2026-11-21",
    "mine,memory,500,MB,assumed,2026-11-21",
    "mine,power_compute,6,W,assumed,2026-11-21",
    "mine,wakeup,0.2,s,assumed,2026-11-21",
    "mine,sustained,0.5,of full speed,assumed,2026-11-21",
    "mine,heating,90,s,assumed,2026-11-21",
    "mine,jitter,0.05,cv,assumed,2026-11-21",
]
WANTED = {"throttling": True, "wakeup": True}
PHONES = {**SMALL, "fleet": SMALL["fleet"][:1]}  # without the profile of SMALL's own


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def write(lines, name="mine.csv"):
        (tmp_path / name).write_text("\n".join([HEADER, *lines]) + "\n")
        return name

    return write


def on_mine(profiles, **group):
    fleet = [{**SMALL["fleet"][0], "profile": "mine", **group}]
    return build(merged(SMALL, {"profiles": profiles, "fleet": fleet}))


def test_a_profile_of_a_file_is_that_of_its_devices(file):
    scenario = on_mine(file(LINES), jitter=True, **WANTED)
    assert fleet(scenario)[0]["mine-0"].profile == read_profiles([HEADER, *LINES])["mine"]


def test_the_scenario_that_is_written_needs_the_file_no_more(file, tmp_path):
    scenario = on_mine(file(LINES), **WANTED)
    (tmp_path / "mine.csv").unlink()
    again = parse(dump(scenario), "scenario.yaml")
    assert again == scenario
    assert fleet(again)[0]["mine-1"] == fleet(scenario)[0]["mine-1"]
    assert "measured: here, by me" in " ".join(dump(scenario).split())  # which may break lines


def test_the_server_may_be_a_board_of_ones_own(file):
    scenario = build(merged(PHONES, {"profiles": file(LINES), "server": {"profile": "mine"}}))
    assert server(scenario)[0].profile.flops_per_s == 2e9


def test_a_scenario_names_each_quantity_of_a_profiles_file_and_no_other():
    assert {quantity.key for quantity in QUANTITIES} | {"source"} == set(Board.model_fields)


def test_every_profile_that_comes_with_fedlapse_could_be_ones_own(file):
    """Written out under other names they are the same machines: no quantity is lost, and all are in bounds."""
    lines = [
        f'my-{name},{what},{one.value},{one.unit},"{one.source}",{one.date}'
        for name, said in shipped().items()
        for what, one in said.items()
    ]
    known = boards.known(build(merged(PHONES, {"profiles": file(lines)})))
    for name, profile in profiles().items():
        assert known[f"my-{name}"] == replace(profile, name=f"my-{name}")


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (
            [*LINES, "pi-4" + LINES[0][4:], *("pi-4" + line[4:] for line in LINES[2:5])],
            "'pi-4' is a profile that comes",
        ),
        ([], "mine.csv: it holds no profiles"),
        (LINES[1:], "mine.csv: mine: speed missing"),
        ([*LINES, LINES[-1]], "mine.csv: line 12: mine: jitter is given twice"),
        ([*LINES[:-1], "mine,jitter,much,cv,assumed,d"], "mine.csv: line 11: mine: jitter is 'much'; it must be a fin"),
        (
            [*LINES[:-1], "mine,jitter,-1,cv,assumed,d"],
            "mine.csv: line 11: mine: jitter is -1 cv; it must be 0 or more",
        ),
        (["mine,speed,-1,GFLOP/s,a,b"], "mine.csv: line 2: mine: speed is -1 GFLOP/s; it must be positive"),
        (["mine,memory,0,MB,a,b"], "mine.csv: line 2: mine: memory is 0 MB; it must be positive"),
        (
            [*LINES[:-1], "mine,jitter,3,cv,assumed,d"],
            "profiles.mine.jitter: it must be less than or equal to 2, not 3",
        ),
        ([line.replace("mine", "my board") for line in LINES], "it must begin with a letter or digit, and go on with"),
        (["mine,speed"], "mine.csv: line 2: it does not have the columns name,quantity,value,unit,source,date"),
        (['mine,"speed'], "unexpected end of data"),
        (["mine,speed,2,GFLOP/s,a,b,c"], "mine.csv: line 2: it does not have the columns"),
    ],
)
def test_a_file_that_is_wrong_is_told_in_a_line(file, lines, reason):
    with pytest.raises(BadScenario) as bad:
        build(merged(PHONES, {"profiles": file(lines)}))
    assert reason in str(bad.value)
    assert "\n" not in str(bad.value)


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("nowhere.csv", "cannot read nowhere.csv: No such file"),
        (".", "cannot read .: Is a directory"),
        ("a\0b", "embedded null"),
        (3, "profiles: it must be a mapping, not 3"),
        ({"mine": {"speed_gflop_s": 0}}, "profiles.mine.speed_gflop_s: it must be greater than or equal to 0.000001"),
        ({"mine": {"speed_gflops": 1}}, "unknown key 'speed_gflops'; did you mean speed_gflop_s?"),
    ],
)
def test_profiles_that_are_none_are_refused(file, said, reason):
    with pytest.raises(BadScenario) as bad:
        build(merged(SMALL, {"profiles": said}))
    assert reason in str(bad.value)


def test_a_wrong_name_is_told_with_ones_own_among_the_right_ones(file):
    with pytest.raises(BadScenario, match="there is no profile 'mime'; did you mean mine?"):
        on_mine(file(LINES), profile="mime")


@pytest.mark.parametrize(("said", "cv"), [(True, 0.05), (0.3, 0.3), (False, 0.0), (None, 0.0)])
def test_jitter_is_the_profiles_own_or_a_number(file, said, cv):
    assert fleet(on_mine(file(LINES), jitter=said))[0]["mine-0"].profile.jitter == cv


@pytest.mark.parametrize("said", [0, 2.1, "much", [0.1]])
def test_jitter_that_is_none_is_refused(said):
    with pytest.raises(BadScenario, match="fleet.0.jitter: it must be"):
        build(merged(SMALL, {"fleet": [{**SMALL["fleet"][0], "jitter": said}]}))


@pytest.mark.slow
def test_what_calibrate_prints_is_planned_as_it_is(file):
    found = Profile("mine", 44e9, 10e9, 1e-4, 8 * 10**9, "", 50e9, 40e9, 20e9)
    source = "measured: fedlapse calibrate on a Pi, with torch 2"
    lines = csv_lines("mine", said_of(found, RATES, source, source, source))
    fleet = [{**SMALL["fleet"][0], "profile": "mine"}]
    said = {"profiles": file(lines[1:]), "fleet": fleet, "rounds": {"max": 1}}
    [group] = forecast_of(build(merged(SMALL, said)), workers=1).groups
    assert group.name == "mine"
    assert group.flops_per_s.low == pytest.approx(44e9, rel=1e-3)
