"""Who counts, in whole runs: deadlines, the first K, devices that vanish, and too few."""

import math
from dataclasses import dataclass, replace

import pytest

from algorithms.fedavg import FedAvg
from emulator.results.summary import summarise

pytestmark = pytest.mark.slow

# The Pis' uplink of 2 Mbit/s takes 0.85 s for the 212 kB model, the phones' of 8 Mbit/s 0.21 s.
SMALL_FLEET = [
    {"profile": "phone-mid", "count": 2, "link": {"up_mbit_s": 8, "down_mbit_s": 8, "latency_ms": 0}},
    {"profile": "pi-4", "count": 2, "link": {"up_mbit_s": 2, "down_mbit_s": 8, "latency_ms": 30}},
]
WILD = {"epochs": 1, "batch": 16, "lr": 1e6, "weight_decay": 1.0}
PIS, PHONES = ["pi-4-0", "pi-4-1"], ["phone-mid-0", "phone-mid-1"]


@dataclass(frozen=True)
class OneIsSick(FedAvg):
    """FedAvg of which one device answers nothing of use."""

    def train(self, download, device):
        reply = super().train(download, device)
        if device.name != PIS[0]:
            return reply
        weights = {name: value * math.nan for name, value in reply.upload["weights"].items()}
        return replace(reply, upload={"weights": weights})


def shares(row):
    return {key: row[key] for key in ("asked", "counted", "late", "lost", "refused")}


def fleet(presence, speed=8):
    link = {"up_mbit_s": speed, "down_mbit_s": speed, "latency_ms": 0}
    return [
        {"profile": "phone-mid", "count": 2, "link": link},
        {"profile": "pi-4", "count": 2, "link": link, "presence": presence},
    ]


def test_all_in_closes_the_round(play):
    run = play()
    assert [line["reason"] for line in run.of("close")] == ["all", "all"]
    assert shares(run.rounds[0]) == {"asked": 4, "counted": 4, "late": 0, "lost": 0, "refused": 0}


def test_the_first_k_of_those_asked_close_the_round_and_the_others_are_cut(play):
    run = play(rounds={"fraction": 0.5, "ask": 4})
    closed = run.of("close")[0]
    assert (closed["reason"], sorted(closed["counted"])) == ("first", PHONES)
    assert shares(run.rounds[0]) == {"asked": 4, "counted": 2, "late": 2, "lost": 0, "refused": 0}
    cuts = [line for line in run.events if line["event"].endswith(".cut") and line["round"] == 0]
    assert {line["device"] for line in cuts} == set(PIS)
    assert {line["why"] for line in cuts} == {"closed"}
    assert run.rounds[0]["wasted_bytes"] > 2 * 4 * 53_002  # two whole downloads, and what had gone up


def test_a_deadline_closes_the_round_at_its_instant(play):
    run = play(rounds={"deadline_s": 1.0})
    opened, closed = run.of("open")[0], run.of("close")[0]
    assert closed["reason"] == "deadline"
    assert closed["t"] == pytest.approx(opened["t"] + 1.0, abs=1e-9)
    assert sorted(closed["counted"]) == PHONES
    assert run.rounds[0]["late"] == 2


def test_stragglers_that_may_finish_are_late_and_are_not_asked_again_meanwhile(play):
    run = play(rounds={"deadline_s": 1.0, "stragglers": "finish", "max": 4})
    ends = [line for line in run.of("up.end") if line["device"] in PIS]
    assert ends
    for line in ends:
        assert line["device"] not in run.of("close", round=line["round"])[0]["counted"]
        for opened in run.of("open"):
            started = run.of("down.start", device=line["device"], round=line["round"])[0]["t"]
            assert not (started < opened["t"] < line["t"] and line["device"] in opened["asked"])
    assert [row["round"] for row in run.rounds] == [0, 1, 2, 3]


def test_with_too_few_replies_the_model_stays_and_three_such_rounds_end_the_run(play):
    run = play(rounds={"deadline_s": 0.01, "max": 10})
    assert [line["reason"] for line in run.of("close")] == ["too_few"] * 3
    assert len({line["model"] for line in run.of("open")}) == 1
    assert [row["failed"] for row in run.rounds] == [True] * 3
    assert "min_replies" in run.outcome.failure


def test_a_device_that_goes_off_while_computing_is_lost_at_that_instant(play):
    """Download of 212,3xx bytes at 8 Mbit/s: 0.21 s; the Pi then computes until it goes off."""
    run = play(fleet=fleet({"off": [[0.25, 100]]}), rounds={"max": 1})
    cut = run.of("compute.cut", device="pi-4-0")
    assert [line["why"] for line in cut] == ["off"]
    assert [line["t"] for line in cut] == [0.25]
    assert run.of("off", device="pi-4-0")[0]["t"] == 0.25
    assert shares(run.rounds[0]) == {"asked": 4, "counted": 2, "late": 0, "lost": 2, "refused": 0}


def test_a_device_that_goes_off_while_downloading_has_received_what_the_link_carried(play):
    run = play(fleet=fleet({"off": [[0.1, 100]]}), rounds={"max": 1})
    cut = run.of("down.cut", device="pi-4-1")[0]
    assert (cut["t"], cut["why"]) == (0.1, "off")
    assert cut["bytes"] == math.floor(0.1 * 1e6)
    assert run.rounds[0]["bytes"]["down"]["cut"] == 2 * cut["bytes"]


def test_a_device_that_goes_off_while_uploading_wastes_what_it_sent(play):
    plain = play(fleet=fleet({}), rounds={"max": 1}).of("up.start", device="pi-4-0")[0]["t"]
    off = plain + 0.1
    run = play(fleet=fleet({"off": [[off, 100]]}), rounds={"max": 1})
    cut = run.of("up.cut", device="pi-4-0")[0]
    assert cut["bytes"] == pytest.approx(0.1e6, abs=1)
    assert run.rounds[0]["lost"] == 2


def test_a_device_that_is_off_is_not_asked_and_comes_back(play):
    run = play(fleet=fleet({"off": [[0, 1.0]]}), rounds={"max": 4})
    asked = [(line["t"], line["asked"]) for line in run.of("open")]
    assert asked[0] == (0.0, PHONES)
    for time, names in asked:
        assert (set(PIS) <= set(names)) == (time >= 1.0)
    assert asked[-1][0] >= 1.0


def test_the_server_waits_for_the_first_device_that_comes_back(play):
    everyone = [{**group, "presence": {"off": [[0, 5.0]]}} for group in fleet({})]
    run = play(fleet=everyone, rounds={"max": 1})
    assert run.of("open")[0]["t"] == 5.0
    assert run.rounds[0]["critical"]["wait_s"] == pytest.approx(5.0, abs=1e-9)


def test_a_fleet_that_never_comes_back_ends_the_run_with_the_reason(play):
    gone = [{**group, "presence": {"off": [[0.05, math.inf]]}} for group in fleet({})]
    run = play(fleet=gone, rounds={"max": 5})
    assert "no device is ever online" in run.outcome.failure
    assert run.rounds[0]["lost"] == 4


def test_fedcurv_keeps_no_trace_of_an_upload_that_was_not_counted(play):
    """The Pis' slow uplinks are cut each time: the requests acknowledge the phones' uploads alone, and the models
    are those of a run in which the Pis' uploads are cut after one byte more or less."""
    run = play({"fedcurv": {"strength": 1.0}}, rounds={"fraction": 0.5, "ask": 4, "max": 3})
    assert [row["late"] for row in run.rounds] == [2, 2, 2]
    assert run.of("down.start", device="phone-mid-0", round=1)[0]["reply_to"] == 0
    assert run.of("down.start", device="pi-4-0", round=1)[0]["reply_to"] is None
    slower = [{**group, "link": {**group["link"], "up_mbit_s": 1}} for group in SMALL_FLEET[1:]]
    again = play(
        {"fedcurv": {"strength": 1.0}}, rounds={"fraction": 0.5, "ask": 4, "max": 3}, fleet=SMALL_FLEET[:1] + slower
    )
    assert again.model == run.model


def test_a_run_whose_training_diverges_says_so(play):
    """Weight decay at this rate multiplies each weight by -1e6 a step: ten steps leave the range of float32."""
    run = play("fedavg", training=WILD, rounds={"max": 3}, evaluate={"every": 0})
    assert [(row["counted"], row["refused"], row["numbers"]["not_finite"]) for row in run.rounds] == [(0, 4, 4)] * 3
    (warned,) = summarise({"fedavg": {1: run.rounds}}, [], {"fedavg": 0.0})["labels"]["fedavg"]["warnings"]
    assert (warned["kind"], warned["text"][:15]) == ("refused", "in 3 of 3 round")
