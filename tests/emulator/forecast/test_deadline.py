"""Deadlines that nobody can meet, by hand.  At 8 Mbit/s a byte takes 1 µs."""

import math

import pytest

from emulator.forecast.deadline import check_deadline
from emulator.lab.build import lab_of
from emulator.lab.jobs import message_sizes, start
from emulator.messages.files import Memory
from emulator.pricing.costs import Costs
from emulator.record.run import Run
from scenarios.load import build
from scenarios.text.faults import BadScenario
from tests.conftest import SMALL, merged

pytestmark = pytest.mark.slow

LINK = {"up_mbit_s": 8, "down_mbit_s": 8, "latency_ms": 50}
SLOW = {"up_mbit_s": 0.8, "down_mbit_s": 8, "latency_ms": 50}
FLEET = [{"profile": "pi-4", "count": 1, "link": LINK}, {"profile": "pi-3", "count": 2, "link": SLOW}]


def checked(deadline, algorithms=("fedavg",), **changes):
    rounds = {"deadline_s": deadline, **changes.pop("rounds", {})}
    scenario = build(merged(SMALL, {"fleet": FLEET, **changes, "rounds": rounds, "algorithms": list(algorithms)}))
    lab = lab_of(scenario)
    check_deadline(lab, scenario)
    return lab


def alone(lab, device, rate, label="fedavg"):
    """Latencies twice, the model down at 1 MB/s and all kinds up at `rate` bytes/s, and the declared work."""
    model, up = start(lab, Memory(), Run(label, 1)).weights.nbytes, message_sizes(lab, Run(label, 1))[1]
    work = Costs(lab, label, 1).device(device, 0, ("weights",), ()).total_seconds
    return 2 * 0.05 + model / 1e6 + up / rate + work


def test_no_deadline_can_be_missed():
    assert checked(None)


def test_the_quickest_device_alone_decides():
    seconds = alone(checked(None), "pi-4-0", 1e6)
    assert checked(seconds + 1e-6)
    with pytest.raises(BadScenario, match="rounds.deadline_s: it is .* fedavg needs at least .* s even on pi-4-0 "):
        checked(seconds - 1e-6)


def test_with_more_replies_needed_the_slower_ones_decide():
    seconds = alone(checked(None), "pi-3-0", 1e5)
    rounds = {"min_replies": 2}
    assert checked(seconds + 1e-6, rounds=rounds)
    with pytest.raises(BadScenario, match="pi-3-0, the last of the 2 "):
        checked(seconds - 1e-6, rounds=rounds)


def test_the_algorithm_that_needs_longest_is_the_one_told():
    seconds = alone(checked(None, ["fedcurv"]), "pi-4-0", 1e6, "fedcurv")
    assert checked(seconds + 1e-6, ["fedcurv"])
    with pytest.raises(BadScenario, match="but fedcurv needs"):
        checked(0.1, ["fedavg", "fedcurv"])


def test_what_the_server_computes_before_every_round_counts():
    lab = checked(None, [{"fedcl": {"interval": 1}}])
    seconds = alone(lab, "pi-4-0", 1e6, "fedcl") + Costs(lab, "fedcl", 1).request(0).total_seconds
    assert checked(seconds + 1e-6, [{"fedcl": {"interval": 1}}])
    with pytest.raises(BadScenario, match=r"\(server "):
        checked(seconds - 1e-6, [{"fedcl": {"interval": 1}}])
    assert checked(seconds - 1e-6, [{"fedcl": {"interval": 2}}])  # only in every other round


def test_the_message_says_what_would_be_right():
    with pytest.raises(BadScenario) as error:
        checked(0.01)
    allowed = float(str(error.value).rpartition("allow ")[2].removesuffix(" or more"))
    assert "\n" not in str(error.value)
    assert checked(allowed)


def test_a_narrow_server_is_a_bound_too():
    """Down at 0.5 MB/s instead of 1: the model takes as long again."""
    server = {"link": {"up_mbit_s": 4, "down_mbit_s": 1000, "latency_ms": 0}}
    lab = checked(None)
    seconds = alone(lab, "pi-4-0", 1e6) + message_sizes(lab, Run("fedavg", 1))[0] / 1e6
    assert checked(seconds + 1e-6, server=server)
    with pytest.raises(BadScenario):
        checked(seconds - 1e-6, server=server)


def test_a_recording_at_its_best_is_the_bound(tmp_path):
    """1 MB/s and 50 ms now and then, and else nothing like it: no round is sooner, and one may be as soon."""
    walk = tmp_path / "walk.csv"
    walk.write_text("time_s,down_mbit_s,up_mbit_s,latency_ms,loss\n0,1,1,900,0.5\n9,8,8,50,0\n10,,,,\n")
    link = {"trace": {"down": str(walk)}}
    fleet = {"fleet": [{"profile": "pi-4", "count": 2, "link": link}]}
    seconds = alone(checked(None, **fleet), "pi-4-0", 1e6)
    assert checked(seconds + 1e-6, **fleet)
    with pytest.raises(BadScenario):
        checked(seconds - 1e-6, **fleet)


def test_with_tcp_headers_count_and_hand_shakes_and_slow_start_do_not(tmp_path):
    """A lower bound: later messages find the connection open, and one that was silent for a moment only is fast."""
    fleet = {"fleet": [{"profile": "pi-4", "count": 2, "link": LINK}], "network": {"model": "tcp"}}
    lab = checked(None, **fleet)
    sizes = start(lab, Memory(), Run("fedavg", 1)).weights.nbytes, message_sizes(lab, Run("fedavg", 1))[1]
    work = Costs(lab, "fedavg", 1).device("pi-4-0", 0, ("weights",), ()).total_seconds
    seconds = work + sum(0.05 + (size + -(-size // 1448) * 52) / 1e6 for size in sizes)
    assert checked(seconds + 1e-6, **fleet)
    with pytest.raises(BadScenario):
        checked(seconds - 1e-6, **fleet)


def test_batches_that_vary_may_make_a_round_shorter_than_its_mean():
    """For a lognormal with cv 0.5, mu is -ln(1.25) / 2 and sigma the root of ln(1.25); seven draws are below the
    mean."""
    seconds = alone(lab := checked(None, fleet=FLEET[:1]), "pi-4-0", 1e6)
    work = Costs(lab, "fedavg", 1).device("pi-4-0", 0, ("weights",), ()).total_seconds
    fleet = [{**FLEET[0], "jitter": 0.5}]
    shortest = seconds - work * (1 - math.exp(-math.log(1.25) / 2 - 7 * math.sqrt(math.log(1.25))))
    assert checked(shortest + 1e-6, fleet=fleet)
    with pytest.raises(BadScenario, match="even on pi-4-0"):
        checked(shortest - 1e-6, fleet=fleet)
