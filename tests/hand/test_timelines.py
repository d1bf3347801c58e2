"""Timelines worked out by hand.

A model of 53,002 float32 parameters is 212,008 bytes; with the frame, a download of `down` and an upload of `up`
bytes, both read from the record.  At 8 Mbit/s a byte takes 1 µs.
"""

import pytest

from tests.all_of import all_of

pytestmark = pytest.mark.slow

LINK = {"up_mbit_s": 8, "down_mbit_s": 8, "latency_ms": 0}


def sent(run, event, device="pi-4-0"):
    return sum(run.of(event, device=device, round=0)[0]["bytes"].values())


def test_one_device_takes_its_bytes_its_work_and_its_bytes(play):
    run = play(fleet=[{"profile": "pi-4", "count": 1, "link": LINK}], data={"validation": 0.9}, rounds={"max": 1})
    down, up = sent(run, "down.start"), sent(run, "up.start")
    assert down > 212_008 < up
    compute = sum(run.of("compute.start")[0]["seconds"].values())
    combine = sum(run.of("server.start")[0]["seconds"].values())
    assert run.of("down.end")[0]["t"] == pytest.approx(down * 1e-6, rel=1e-12)
    assert run.of("up.start")[0]["t"] == pytest.approx(down * 1e-6 + compute, rel=1e-12)
    assert run.of("close")[0]["t"] == pytest.approx(down * 1e-6 + compute + up * 1e-6, rel=1e-12)
    assert run.rounds[0]["time_s"] == pytest.approx((down + up) * 1e-6 + compute + combine, rel=1e-12)


def test_latencies_of_both_links_are_paid_once_each_way(play):
    slow = {"link": {"up_mbit_s": 1000, "down_mbit_s": 1000, "latency_ms": 5}}
    far = {"profile": "pi-4", "count": 1, "link": {**LINK, "latency_ms": 40}}
    near = {"profile": "pi-4", "count": 1, "link": LINK}
    times = [
        play(fleet=[group], server=server, data={"validation": 0.9}, rounds={"max": 1}).of("close")[0]["t"]
        for group, server in ((far, slow), (near, {}))
    ]
    assert times[0] - times[1] == pytest.approx(2 * 0.045, rel=1e-9)


def test_four_downloads_through_a_narrow_server_take_four_times_one(play):
    narrow = {"link": {"up_mbit_s": 8, "down_mbit_s": 1000, "latency_ms": 0}}
    run = play(fleet=[{"profile": "pi-4", "count": 4, "link": LINK}], server=narrow, rounds={"max": 1})
    ends = [line["t"] for line in run.of("down.end")]
    assert ends == pytest.approx([4 * sent(run, "down.start") * 1e-6] * 4, rel=1e-12)


def test_a_slow_device_beside_fast_ones_leaves_them_its_share(play):
    """Server uplink 16 Mbit/s = 2 MB/s.  Two devices at 4 Mbit/s take 0.5 MB/s each; the third gets 1 MB/s, its cap."""
    fleet = [
        {"profile": "pi-4", "count": 2, "link": {**LINK, "down_mbit_s": 4}},
        {"profile": "phone-mid", "count": 1, "link": {**LINK, "down_mbit_s": 100}},
    ]
    shared = {"link": {"up_mbit_s": 16, "down_mbit_s": 1000, "latency_ms": 0}}
    run = play(fleet=fleet, server=shared, rounds={"max": 1})
    nbytes = sent(run, "down.start")
    assert run.of("down.end", device="phone-mid-0")[0]["t"] == pytest.approx(nbytes / 1e6, rel=1e-12)
    assert run.of("down.end", device="pi-4-1")[0]["t"] == pytest.approx(nbytes / 0.5e6, rel=1e-12)


def test_the_server_s_importance_is_charged_before_the_first_byte_goes_down(play):
    run = play({"fedcl": {"interval": 2}}, rounds={"max": 2})
    asked = run.of("server.start", what="request")
    assert [line["round"] for line in asked] == [0]
    done = run.of("server.end", what="request")[0]["t"]
    assert done == pytest.approx(sum(asked[0]["seconds"].values()), rel=1e-12)
    assert all_of(line["t"] == done for line in run.of("down.start", round=0))
    assert run.rounds[0]["critical"]["server_s"]["omega"] == pytest.approx(done, rel=1e-12)


def test_fedcurv_pays_for_its_fisher_after_training_and_before_the_upload(play):
    run = play({"fedcurv": {}}, rounds={"max": 1})
    for line in run.of("compute.start"):
        assert set(line["seconds"]) == {"train", "fisher", "sums"}  # sums: Î and Î⊙θ̂ are made and rounded
        began = run.of("up.start", device=line["device"])[0]["t"]
        assert began == pytest.approx(line["t"] + sum(line["seconds"].values()), rel=1e-12)
