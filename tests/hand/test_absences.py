"""The effect of an absence on a transfer and on work, second by second and byte by byte.

One device has 8 Mbit/s, a byte in 1 µs: its download takes `down` µs, its training `train` s, its upload `up` µs.
"""

from __future__ import annotations

import math

import pytest

from devices.device import profiles
from devices.thermal import COLD
from tests.all_of import all_of

pytestmark = pytest.mark.slow

LINK = {"up_mbit_s": 8, "down_mbit_s": 8, "latency_ms": 0}
NEAR = {"rel": 1e-9, "abs": 1e-9}
HOT = {"profile": "phone-mid", "throttling": True, "overhead_ms": 18000}  # each of eight steps takes 18 s
S, T = profiles()["phone-mid"].throttle.sustained, profiles()["phone-mid"].throttle.heating


def alone(off=(), profile="pi-4", **keys):
    return [{"profile": profile, "count": 1, "link": LINK, "presence": {"off": list(off)}, **keys}]


@pytest.fixture(scope="module")
def plain(play):
    """The round without an absence: (down, train, up) in seconds, and when it is stamped."""
    run = play(fleet=alone(), rounds={"max": 1})
    down, up = (sum(run.of(f"{way}.start")[0]["bytes"].values()) / 1e6 for way in ("down", "up"))
    return down, sum(run.of("compute.start")[0]["seconds"].values()), up, run.rounds[0]["time_s"]


def spent(*seconds):
    """Useful, wasted, idle: of the one device, and so of all."""
    near = [pytest.approx(each, **NEAR) for each in seconds]
    return {**dict(zip(("useful", "wasted", "idle"), near, strict=True)), "devices": {"pi-4-0": near}}


def absent(play, off, **rounds):
    return play(fleet=alone(off), rounds={"max": 1, **rounds})


def test_a_download_that_resumes_goes_on_from_the_byte_reached(play, plain):
    run = absent(play, [[0.125, 0.5]], transfers="resume")
    [cut], [first, rest] = run.of("down.cut"), run.of("down.start")
    assert (cut["t"], cut["bytes"], cut["why"], cut["then"]) == (0.125, 125_000, "off", "resume")
    assert (rest["t"], rest["from"], rest["bytes"]) == (0.5, 125_000, first["bytes"])
    assert "from" not in first
    assert run.rounds[0]["time_s"] == pytest.approx(plain[3] + 0.375, **NEAR)
    assert run.rounds[0]["bytes"]["down"] == first["bytes"]
    assert run.rounds[0]["wasted_bytes"] == 0
    assert run.rounds[0]["seconds"] == spent(sum(plain[:3]), 0, 0.375)


def test_an_upload_that_restarts_sends_what_it_had_sent_once_more(play, plain):
    began = sum(plain[:2])
    gone, back = began + 0.125, began + 1.0
    run = absent(play, [[gone, back]], transfers="restart")
    [cut], row = run.of("up.cut"), run.rounds[0]
    assert cut["then"] == "restart"
    assert cut["bytes"] in (124_999, 125_000)  # as `gone` is rounded
    assert "from" not in run.of("up.start")[1]
    assert row["time_s"] == pytest.approx(plain[3] + 1.0, **NEAR)  # all from the beginning, a second later
    assert (row["counted"], row["wasted_bytes"], row["bytes"]["up"]["cut"]) == (1, cut["bytes"], cut["bytes"])
    assert row["seconds"] == spent(sum(plain[:3]), 0.125, 0.875)


def test_work_that_pauses_goes_on_with_exactly_what_was_left(play, plain):
    down, train = plain[:2]
    gone = down + train / 4
    run = absent(play, [[gone, gone + 2.0]], when_off="pause")
    [cut], [first, rest], row = run.of("compute.cut"), run.of("compute.start"), run.rounds[0]
    assert (cut["seconds"], cut["then"]) == (pytest.approx(train / 4, **NEAR), "pause")
    assert rest["seconds"]["train"] == pytest.approx(3 / 4 * first["seconds"]["train"], **NEAR)
    assert rest["phases"]["train"] == pytest.approx(3 / 4 * first["phases"]["train"], **NEAR)
    assert row["time_s"] == pytest.approx(plain[3] + 2.0, **NEAR)
    assert row["seconds"] == spent(sum(plain[:3]), 0, 2.0)
    assert row["critical"]["wait_s"] == pytest.approx(2.0, **NEAR)


def test_work_that_restarts_is_done_once_more(play, plain):
    down, train = plain[:2]
    gone = down + train / 4
    run = absent(play, [[gone, gone + 2.0]], when_off="restart")
    first, again = run.of("compute.start")
    assert again["seconds"] == first["seconds"]
    assert run.rounds[0]["time_s"] == pytest.approx(plain[3] + 2.0 + train / 4, **NEAR)
    assert run.rounds[0]["seconds"] == spent(sum(plain[:3]), train / 4, 2.0)


def test_several_absences_in_one_piece_of_work_leave_its_sum(play, plain):
    down, train = plain[:2]
    off = [[down + train / 4, 5.0], [5.0 + train / 2, 9.0], [9.0 + train / 8, 12.0]]
    run = absent(play, off, when_off="pause")
    assert len(run.of("compute.cut")) == 3
    assert run.of("compute.end")[0]["t"] == pytest.approx(12.0 + train / 8, **NEAR)


def test_by_default_both_are_lost(play, plain):
    for off in ([[0.125, 0.5]], [[plain[0] + plain[1] / 2, 5.0]]):
        run = play(fleet=alone(off), rounds={"max": 1})
        assert (run.rounds[0]["lost"], run.rounds[0]["counted"]) == (1, 0)
        assert all_of("then" not in line for line in run.events)


def test_a_policy_for_transfers_does_not_keep_work_nor_the_other_way_round(play, plain):
    training = [[plain[0] + plain[1] / 2, 5.0]]
    assert absent(play, training, transfers="resume").rounds[0]["lost"] == 1
    assert absent(play, [[0.125, 0.5]], when_off="pause").rounds[0]["lost"] == 1


def test_who_is_never_back_is_lost_at_that_instant(play):
    run = absent(play, [[0.125, math.inf]], transfers="resume", when_off="pause")
    assert (run.rounds[0]["lost"], run.rounds[0]["time_s"]) == (1, 0.125)


def test_who_is_away_at_the_deadline_is_late_and_does_nothing_when_it_is_back(play):
    run = absent(play, [[0.125, 2.0]], transfers="resume", deadline_s=1.0)
    row = run.rounds[0]
    assert (row["late"], row["lost"], row["time_s"]) == (1, 0, 1.0)
    assert len(run.of("down.start", round=0)) == 1
    assert row["wasted_bytes"] == 125_000
    assert row["seconds"] == spent(0, 0.125, 0.875)


def test_a_straggler_that_may_finish_goes_on_after_the_close(play):
    fleet = [*alone([[0.125, 3.0]]), {"profile": "phone-mid", "count": 1, "link": LINK}]
    run = play(fleet=fleet, rounds={"max": 3, "fraction": 0.5, "ask": 2, "stragglers": "finish", "transfers": "resume"})
    closed = run.of("close", round=0)[0]["t"]
    assert closed < 3.0
    assert [line["t"] for line in run.of("down.start", device="pi-4-0", round=0)] == [0.0, 3.0]


def test_joules_are_power_times_seconds(play, plain):
    run = absent(play, [[0.125, 0.5]], transfers="resume")
    down, train, up = plain[:3]
    power = profiles()["pi-4"].power
    expected = power.idle * 0.375 + power.compute * train + power.radio * (down + up)
    assert power.idle > 0
    assert run.rounds[0]["joules"] == {"pi-4-0": pytest.approx(expected, rel=1e-9)}
    assert run.rounds[0]["watts"] == {"pi-4-0": [power.idle, power.compute, power.radio]}


def test_a_device_that_heats_up_takes_longer_each_round_and_its_rest_cools_it(play):
    run = play(fleet=alone(**HOT), rounds={"max": 2})
    cold = play(fleet=alone(**HOT | {"throttling": False}), rounds={"max": 1})
    work = sum(cold.of("compute.start")[0]["seconds"].values())
    throttle, heat = profiles()["phone-mid"].throttle, COLD
    for start in run.of("compute.start"):
        seconds, heat = throttle.load(heat, start["t"], work)
        assert sum(start["seconds"].values()) == pytest.approx(seconds, rel=1e-9)
        assert start["throttled"] == pytest.approx(seconds / work, rel=1e-9)
    assert run.of("compute.start")[1]["throttled"] > run.of("compute.start")[0]["throttled"] > 1


def done_cold(seconds, level):
    """Seconds at full speed that so many do under load, from a level of heat on: the integral of the speed

    1 - (1 - S) h(x), where the heat is h(x) = 1 - (1 - level) exp(-x / T).
    """
    return S * seconds + (1 - S) * (1 - level) * T * (1 - math.exp(-seconds / T))


@pytest.fixture(scope="module")
def hot(play):
    """A round of more than two minutes of work on a device that heats up: (when it begins, when it ends)."""
    run = play(fleet=alone(**HOT), rounds={"max": 1})
    [start], [end] = run.of("compute.start"), run.of("compute.end")
    assert start["throttled"] > 1.1
    return start["t"], end["t"]


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_a_pause_that_takes_no_time_changes_nothing_for_a_device_that_heats_up(play, hot, share):
    began, ended = hot
    gone = began + share * (ended - began)
    run = play(fleet=alone([[gone, gone + 1e-6]], **HOT), rounds={"max": 1, "when_off": "pause"})
    assert len(run.of("compute.start")) == 2
    assert run.of("compute.end")[0]["t"] == pytest.approx(ended, abs=2e-6)


def test_a_pause_cools_a_device_down_and_loses_nothing_of_what_it_did_while_it_was_colder(play, hot):
    began, ended = hot
    work = done_cold(ended - began, 0.0)
    first, rest = 60.0, 100.0
    gone = began + first
    run = play(fleet=alone([[gone, gone + rest]], **HOT), rounds={"max": 1, "when_off": "pause"})
    [cut], [end] = run.of("compute.cut"), run.of("compute.end")
    level = (1 - math.exp(-first / T)) * math.exp(-rest / T)
    last = end["t"] - (gone + rest)
    assert done_cold(first, 0.0) + done_cold(last, level) == pytest.approx(work, rel=1e-9)
    assert cut["done"] == pytest.approx(done_cold(first, 0.0) / work, rel=1e-9)
    assert cut["done"] > 1.05 * cut["seconds"] / (ended - began)
    [begun, _] = run.of("compute.start")
    flops = sum(begun["phases"].values()) + sum(line["flops"] for line in run.of("server.start"))
    assert run.rounds[0]["flops"] == pytest.approx(flops, rel=1e-12)  # each FLOP once


def test_work_that_restarts_on_a_warm_device_is_all_of_it(play, hot):
    began, ended = hot
    first, rest = 60.0, 100.0
    off = [[began + first, began + first + rest]]
    run = play(fleet=alone(off, **HOT), rounds={"max": 1, "when_off": "restart"})
    level = (1 - math.exp(-first / T)) * math.exp(-rest / T)
    [end] = run.of("compute.end")
    assert done_cold(end["t"] - off[0][1], level) == pytest.approx(done_cold(ended - began, 0.0), rel=1e-9)


def test_of_work_that_a_close_cuts_the_flops_that_were_done_count(play, hot):
    began, ended = hot
    run = play(fleet=alone(**HOT), rounds={"max": 1, "deadline_s": began + 60.0})
    share = done_cold(60.0, 0.0) / done_cold(ended - began, 0.0)
    assert run.of("compute.cut")[0]["done"] == pytest.approx(share, rel=1e-9)
    assert run.rounds[0]["flops"] == pytest.approx(share * sum(run.of("compute.start")[0]["phases"].values()), rel=1e-9)


def test_without_heat_a_cut_does_not_say_what_its_seconds_say(play, plain):
    run = absent(play, [[plain[0] + plain[1] / 4, 5.0]], when_off="pause")
    assert "done" not in run.of("compute.cut")[0]


def test_of_a_failed_round_nothing_is_of_use_though_somebody_was_heard(play, plain):
    """Two of two must be heard; one is gone before it has its request."""
    run = play(fleet=[*alone(), *alone([[0.125, math.inf]], name="gone")], rounds={"max": 1, "min_replies": 2})
    row, ends = run.rounds[0], [line["t"] for line in run.events if line["event"].endswith(".end")]
    assert (row["failed"], row["counted"], row["lost"], row["time_s"]) == (True, 1, 1, ends[-1])
    assert row["seconds"]["devices"]["pi-4-0"] == pytest.approx([0.0, ends[-1], 0.0], **NEAR)
    assert row["seconds"]["devices"]["gone-0"] == pytest.approx([0.0, 0.125, ends[-1] - 0.125], **NEAR)
    assert row["seconds"]["useful"] == 0
    assert row["wasted_bytes"] == sum(sum(kinds.values()) for kinds in row["bytes"].values()) > 2 * 212_000


def test_a_radio_wakes_up_after_ten_idle_seconds_and_not_sooner(play):
    run = play(fleet=alone(profile="phone-mid", wakeup=True), rounds={"max": 2})
    setups = [line.get("setup", 0.0) for line in run.events if line["event"] in ("down.start", "up.start")]
    assert setups == [0.3, 0.0, 0.0, 0.0]  # asleep before the first; then it never rests for 10 s
    long = play(fleet=alone(profile="phone-mid", wakeup=True, overhead_ms=2000), rounds={"max": 1})
    assert sum(long.of("compute.start")[0]["seconds"].values()) > 10
    assert long.of("up.start")[0]["setup"] == 0.3
    assert long.rounds[0]["critical"]["setup_s"] == pytest.approx(0.6)
    up = sum(long.of("up.start")[0]["bytes"].values()) / 1e6
    assert long.of("up.end")[0]["t"] == pytest.approx(long.of("up.start")[0]["t"] + 0.3 + up, **NEAR)


def test_jitter_is_a_factor_of_each_device_and_round_and_the_same_each_time(play):
    def factors(seed=1, cv=0.5):
        fleet = [{"profile": "pi-4", "count": 2, "link": LINK, "jitter": cv}]
        starts = play(seed=seed, fleet=fleet, rounds={"max": 2}, evaluate={"every": 0}).of("compute.start")
        return {(line["device"], line["round"]): line["jitter"]["train"] for line in starts}

    first = factors()
    assert len(set(first.values())) == 4
    assert factors() == first
    assert factors(seed=2) != first
    unlike = {key: math.log(value) / math.log(first[key]) for key, value in factors(cv=0.001).items()}
    assert all_of(abs(value) < 0.1 for value in unlike.values())


@pytest.mark.parametrize("transfers", ["lose", "resume", "restart"])
@pytest.mark.parametrize("back", [20.0, math.inf])
def test_an_upload_whose_last_byte_arrives_as_its_device_goes_off_has_arrived(play, plain, transfers, back):
    done = play(fleet=alone(), rounds={"max": 1})
    [end] = [line["t"] for line in done.of("up.end")]
    run = absent(play, [[end, back]], transfers=transfers)
    row = run.rounds[0]
    assert (row["counted"], row["lost"], row["late"], row["wasted_bytes"]) == (1, 0, 0, 0)
    assert (run.of("up.cut"), len(run.of("up.start"))) == ([], 1)
    assert row["time_s"] == plain[3]
    assert [line["event"] for line in run.events if line["t"] == end][:1] == ["up.end"]
