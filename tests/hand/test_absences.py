"""What an absence does to a transfer and to work, second by second and byte by byte.

One device on 8 Mbit/s, a byte in 1 µs: its download takes `down` µs, its training `train` s, its upload `up` µs.
"""

from __future__ import annotations

import math

import pytest

from devices.device import profiles
from devices.thermal import COLD

pytestmark = pytest.mark.slow

LINK = {"up_mbit_s": 8, "down_mbit_s": 8, "latency_ms": 0}
NEAR = {"rel": 1e-9, "abs": 1e-9}


def alone(off=(), profile="pi-4", **keys):
    return [{"profile": profile, "count": 1, "link": LINK, "presence": {"off": list(off)}, **keys}]


@pytest.fixture(scope="module")
def plain(play):
    """The round without an absence: (down, train, up) in seconds, and when it is stamped."""
    run = play(fleet=alone(), rounds={"max": 1})
    down, up = (sum(run.of(f"{way}.start")[0]["bytes"].values()) / 1e6 for way in ("down", "up"))
    return down, sum(run.of("compute.start")[0]["seconds"].values()), up, run.rounds[0]["time_s"]


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
    assert run.rounds[0]["seconds"] == pytest.approx({"useful": sum(plain[:3]), "wasted": 0, "idle": 0.375}, **NEAR)


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
    assert row["seconds"] == pytest.approx({"useful": sum(plain[:3]), "wasted": 0.125, "idle": 0.875}, **NEAR)


def test_work_that_pauses_goes_on_with_exactly_what_was_left(play, plain):
    down, train = plain[:2]
    gone = down + train / 4
    run = absent(play, [[gone, gone + 2.0]], when_off="pause")
    [cut], [first, rest], row = run.of("compute.cut"), run.of("compute.start"), run.rounds[0]
    assert (cut["seconds"], cut["then"]) == (pytest.approx(train / 4, **NEAR), "pause")
    assert rest["seconds"]["train"] == pytest.approx(3 / 4 * first["seconds"]["train"], **NEAR)
    assert rest["phases"]["train"] == pytest.approx(3 / 4 * first["phases"]["train"], **NEAR)
    assert row["time_s"] == pytest.approx(plain[3] + 2.0, **NEAR)
    assert row["seconds"] == pytest.approx({"useful": sum(plain[:3]), "wasted": 0, "idle": 2.0}, **NEAR)
    assert row["critical"]["wait_s"] == pytest.approx(2.0, **NEAR)


def test_work_that_restarts_is_done_once_more(play, plain):
    down, train = plain[:2]
    gone = down + train / 4
    run = absent(play, [[gone, gone + 2.0]], when_off="restart")
    first, again = run.of("compute.start")
    assert again["seconds"] == first["seconds"]
    assert run.rounds[0]["time_s"] == pytest.approx(plain[3] + 2.0 + train / 4, **NEAR)
    expected = {"useful": sum(plain[:3]), "wasted": train / 4, "idle": 2.0}
    assert run.rounds[0]["seconds"] == pytest.approx(expected, **NEAR)


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
        assert not any("then" in line for line in run.events)


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
    assert row["seconds"] == pytest.approx({"useful": 0, "wasted": 0.125, "idle": 0.875})


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


def test_a_device_that_heats_up_takes_longer_each_round_and_its_rest_cools_it(play, plain):
    run = play(fleet=alone(profile="phone-mid", throttling=True), training={"epochs": 40}, rounds={"max": 2})
    cold = play(fleet=alone(profile="phone-mid"), training={"epochs": 40}, rounds={"max": 1})
    work = sum(cold.of("compute.start")[0]["seconds"].values())
    throttle, heat = profiles()["phone-mid"].throttle, COLD
    for start in run.of("compute.start"):
        seconds, heat = throttle.load(heat, start["t"], work)
        assert sum(start["seconds"].values()) == pytest.approx(seconds, rel=1e-9)
        assert start["throttled"] == pytest.approx(seconds / work, rel=1e-9)
    assert run.of("compute.start")[1]["throttled"] > run.of("compute.start")[0]["throttled"] > 1


def test_a_radio_wakes_up_after_ten_idle_seconds_and_not_sooner(play):
    run = play(fleet=alone(profile="phone-mid", wakeup=True), rounds={"max": 2})
    setups = [line.get("setup", 0.0) for line in run.events if line["event"] in ("down.start", "up.start")]
    assert setups == [0.3, 0.0, 0.0, 0.0]  # asleep before the first; then it never rests for 10 s
    long = play(fleet=alone(profile="phone-mid", wakeup=True, overhead_ms=1000), rounds={"max": 1})
    assert sum(long.of("compute.start")[0]["seconds"].values()) > 10
    assert long.of("up.start")[0]["setup"] == 0.3
    assert long.rounds[0]["critical"]["setup_s"] == pytest.approx(0.6)
    up = sum(long.of("up.start")[0]["bytes"].values()) / 1e6
    assert long.of("up.end")[0]["t"] == pytest.approx(long.of("up.start")[0]["t"] + 0.3 + up, **NEAR)


def test_jitter_is_a_factor_of_each_device_and_round_and_the_same_each_time(play):
    def factors(seed=1, cv=0.5):
        fleet = [{"profile": "pi-4", "count": 2, "link": LINK, "jitter": cv}]
        starts = play(seed=seed, fleet=fleet, rounds={"max": 2}).of("compute.start")
        return {(line["device"], line["round"]): line["jitter"]["train"] for line in starts}

    first = factors()
    assert len(set(first.values())) == 4
    assert factors() == first
    assert factors(seed=2) != first
    unlike = {key: math.log(value) / math.log(first[key]) for key, value in factors(cv=0.001).items()}
    assert all(abs(value) < 0.1 for value in unlike.values())
