"""The metrics of models in runs."""

import pytest

from tests.conftest import merged

pytestmark = pytest.mark.slow

HALF = {"rounds": {"max": 4, "fraction": 0.5}, "evaluate": {"personalise_every": 1}}


def test_personalised_gives_every_device_the_memory_that_its_next_request_would_leave_it(play):
    """With strength 0 the memory plays no part; with one device in all, its own term must be gone, whenever it was
    asked last: the penalty is 0, and FedCurv's personalised accuracy is FedAvg's."""
    alone = {
        "fleet": [{"profile": "pi-4", "count": 1, "link": {"up_mbit_s": 8, "down_mbit_s": 8}}],
        "data": {"validation": 0.9},
        "rounds": {"max": 3},
        "evaluate": {"personalise_every": 1},
    }
    curved, plain = (play(algorithm, **alone) for algorithm in ({"fedcurv": {"strength": 9.0}}, "fedavg"))
    keys = ("accuracy", "initial", "personalised", "personalised_participants")
    assert [[row[key] for key in keys] for row in curved.rounds] == [[row[key] for key in keys] for row in plain.rounds]


def test_with_everyone_asked_personalised_is_personalised_participants(play):
    """Both have the same devices, requests and memories, but personalised models are trained once more for the
    report."""
    run = play({"fedcurv": {"strength": 2.0}}, rounds={"max": 3}, evaluate={"personalise_every": 1})
    for row in run.rounds:
        assert row["personalised"] == pytest.approx(row["personalised_participants"], abs=1e-12)


def test_what_a_device_trains_for_the_report_starts_from_what_it_had_before_the_round(play):
    """Alg2 keeps its personal parameters: trained on from those it ended the round with, it would be ahead."""
    run = play(
        {"continual": {"variant": "alg2", "training": {"lr": 2.0, "epochs": 1}}},
        data={"set": "babble", "split": {"kind": "natural"}, "validation": 0},
        model="lstm-tiny",
        rounds={"max": 4, "per_cycle": 2, "fraction": 1.0},
        evaluate={"personalise_every": 1},
    )
    for row in run.rounds[1::2]:
        assert row["personalised"] == pytest.approx(row["personalised_participants"], abs=1e-12)
    assert run.rounds[3]["personalised"] > run.rounds[3]["initial"]


@pytest.mark.parametrize("average", [False, True])
def test_devices_of_the_continual_baseline_use_the_server_s_model(play, average):
    """So its `personalised` has no training that nobody charges for, beside algorithms that pay for retraining."""
    run = play(
        {"continual": {"variant": "baseline", "average": average, "training": {"lr": 2.0, "epochs": 1}}},
        data={"set": "babble", "split": {"kind": "natural"}, "validation": 0},
        model="lstm-tiny",
        rounds={"max": 4, "per_cycle": 2, "fraction": 1.0},
        evaluate={"personalise_every": 1},
    )
    for row in run.rounds:
        assert row["personalised"] == pytest.approx(row["initial"], abs=1e-12)


def test_initial_of_a_round_is_the_model_that_the_round_before_left(play):
    """iid test shards of equal size: their mean accuracy is near that of the whole set."""
    run = play(rounds={"max": 4}, training={"epochs": 3, "batch": 16})
    for before, row in zip(run.rounds, run.rounds[1:], strict=False):
        assert row["initial"] == pytest.approx(before["accuracy"], abs=0.08)


def test_rounds_that_are_not_due_have_no_metrics_and_the_last_has_all(play):
    run = play(rounds={"max": 4}, evaluate={"every": 3})
    assert [row["accuracy"] is None for row in run.rounds] == [True, True, False, False]
    assert all(run.rounds[3][key] is not None for key in ("initial", "personalised", "personalised_participants"))
    assert run.rounds[2]["personalised"] is None


def test_personalised_never_is_never_and_all_else_is_as_it_was(play):
    changes = {"rounds": {"max": 4}, "evaluate": {"every": 3}}
    never, last = play(**merged(changes, {"evaluate": {"personalise_every": "never"}})), play(**changes)
    assert [row["personalised"] for row in never.rounds] == [None] * 4
    assert last.rounds[3]["personalised"] is not None
    assert [{**row, "personalised": None} for row in last.rounds] == never.rounds


def test_without_the_test_set_validation_alone_is_known_and_it_is_as_it_was(play):
    changes = {"rounds": {"max": 3}, "evaluate": {"personalise_every": 1}}
    without, whole = play(**merged(changes, {"evaluate": {"test": False}})), play(**changes)
    for row, same in zip(without.rounds, whole.rounds, strict=True):
        assert row["validation"] == same["validation"] is not None
        keys = ("accuracy", "loss", "initial", "personalised", "personalised_participants")
        assert [row[key] for key in keys] == [None] * 5
        assert None not in [same[key] for key in keys]
    assert without.events == whole.events


def test_stop_at_trains_no_device_more_where_personalised_is_never_asked(play):
    stop = {"max": 9, "stop_at": {"metric": "accuracy", "value": 0.3}}
    run = play(rounds=stop, training={"epochs": 5, "batch": 16}, evaluate={"personalise_every": "never"})
    assert 0 < len(run.rounds) < 9
    assert run.rounds[-1]["personalised"] is None


def test_evaluation_costs_no_virtual_time(play):
    timelines = [play(evaluate=evaluate).events for evaluate in ({"every": 0}, {"every": 1, "personalise_every": 1})]
    assert timelines[0] == timelines[1]


def test_stop_at_ends_the_run_in_the_round_that_reached_it(play):
    run = play(rounds={"max": 9, "stop_at": {"metric": "accuracy", "value": 0.3}}, training={"epochs": 5, "batch": 16})
    assert 0 < len(run.rounds) < 9
    assert [row["accuracy"] >= 0.3 for row in run.rounds] == [False] * (len(run.rounds) - 1) + [True]
    assert run.rounds[-1]["personalised"] is not None


def test_until_s_ends_the_run_with_the_first_round_that_ends_after_it(play):
    whole = play(rounds={"max": 6})
    ends = [row["time_s"] for row in whole.rounds]
    for until, due in ((ends[0] / 2, 1), (ends[2], 3), (ends[2] + 1e-6, 4), (10 * ends[-1], 6)):
        assert [row["time_s"] for row in play(rounds={"max": 6, "until_s": until}).rounds] == ends[:due]


@pytest.mark.parametrize(("value", "due"), [(0.01, 5), (0.999, 1)])
def test_a_target_that_is_held_when_the_time_is_over_is_waited_for(play, value, due):
    """Any accuracy is enough for the first, which is to be held for five rounds; no accuracy is for the second."""
    targets = [{"metric": "accuracy", "value": value, "hold": 5}]
    assert len(play(rounds={"max": 8, "until_s": 1e-3, "targets": targets}).rounds) == due


def test_a_reply_that_is_not_finite_is_refused_counted_and_named(play):
    run = play(rounds={"max": 5}, training={"epochs": 3, "batch": 8, "lr": 1e6, "weight_decay": 1e6})
    assert run.of("refused")
    assert "not finite" in run.of("refused")[0]["why"]
    assert run.rounds[-1]["failed"]
    assert "lower lr" in run.outcome.failure
