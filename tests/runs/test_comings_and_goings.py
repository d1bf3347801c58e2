"""Runs whose devices come and go at random: whatever happens, the record obeys its laws (`play` audits it)."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.slow

UNSEEN = {"evaluate": {"every": 0}}  # who comes and goes, not what the model is worth
LINK = {"up_mbit_s": 4, "down_mbit_s": 8, "latency_ms": 20}
ABSENCE = st.tuples(st.floats(0.0, 3.0), st.floats(0.001, 2.0)).map(lambda pair: [pair[0], sum(pair)])
GROUP = st.fixed_dictionaries(
    {
        "profile": st.sampled_from(["phone-mid", "pi-4"]),
        "count": st.integers(1, 2),
        "link": st.just(LINK),
        "presence": st.fixed_dictionaries({"off": st.lists(ABSENCE, max_size=4)}),
        "throttling": st.booleans(),
        "wakeup": st.booleans(),
    },
    optional={"jitter": st.just(0.3)},
)
ROUNDS = st.fixed_dictionaries(
    {
        "max": st.just(3),
        "fraction": st.sampled_from([0.5, 1.0]),
        "when_off": st.sampled_from(["lose", "pause", "restart"]),
        "transfers": st.sampled_from(["lose", "restart", "resume"]),
        "stragglers": st.sampled_from(["stop", "finish"]),
    },
    optional={"deadline_s": st.sampled_from([0.7, 1.5])},
)


@settings(max_examples=20, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(first=GROUP, second=GROUP, rounds=ROUNDS, model=st.sampled_from(["ideal", "tcp"]))
def test_whoever_goes_and_whatever_becomes_of_it_the_record_obeys(play, first, second, rounds, model):
    fleet = [{**first, "name": "a"}, {**second, "name": "b"}]
    run = play(fleet=fleet, rounds=rounds, network={"model": model}, **UNSEEN)
    assert len(run.rounds) == 3 or run.outcome.failure


def test_sessions_that_are_drawn_are_the_same_in_each_run_of_a_fleet(play):
    sessions = {"renewal": {"mean_on_s": 2, "mean_off_s": 1, "cv_on": 0.5}}
    fleet = [{"profile": "pi-4", "count": 4, "link": LINK, "presence": sessions}]
    rounds = {"max": 3, "when_off": "pause", "transfers": "resume"}
    runs = [play(fleet=fleet, rounds=rounds, fleet_seed=seed, **UNSEEN) for seed in (0, 0, 1)]
    assert runs[0].events == runs[1].events != runs[2].events
    assert any(run.of("off") for run in runs)
