"""Time to the target: means, their intervals, and seeds that never got there."""

from emulator.record.targets import Target
from emulator.report import critical, payloads, times
from emulator.results.standings import with_means
from emulator.results.summary import summarise

EASY, HARD, NEVER = Target("accuracy", 0.5), Target("accuracy", 0.8), Target("accuracy", 0.99)


def runs(**accuracies):
    """Runs of rounds of 10 s by label: a list of accuracies for each seed."""
    return {
        label: {
            seed: [_row(number, accuracy) for number, accuracy in enumerate(values)]
            for seed, values in enumerate(seeds, 1)
        }
        for label, seeds in accuracies.items()
    }


def _row(number, accuracy, wait=0.0):
    path = {"device": "d", "setup_s": 1.0, "wait_s": wait, "server_s": {}}
    parts = {"down_s": {"weights": 2.0}, "compute_s": {"train": 3.0}, "up_s": {"weights": 4.0}}
    metrics = dict.fromkeys(("accuracy", "initial", "personalised", "validation"), accuracy)
    counts = {"asked": 1, "counted": 1, "late": 0, "lost": 0, "refused": 0, "wasted_bytes": 0}
    told = {"bytes": {"down": {"weights": 8}, "up": {"weights": 8}}, "leverage": {}, "critical": {**path, **parts}}
    return {"round": number, "time_s": 10.0 * (number + 1), "loss": 1.0, **metrics, **counts, **told}


def summed(played):
    aims = [EASY, HARD, NEVER]
    return with_means(summarise(played, aims, dict.fromkeys(played, 0.0)), played, aims)


def figure(played, target):
    return times.figure(played, summed(played), target)


def test_the_hardest_target_that_any_seed_reached_is_shown():
    played = runs(a=[[0.6, 0.9]], b=[[0.1, 0.2]])
    summary = summed(played)
    assert times.hardest(summary, [EASY, NEVER, HARD]) == HARD
    assert times.hardest(summary, [NEVER]) is None


def test_rows_are_sorted_by_time_and_who_never_got_there_is_last():
    """In 40 s, b takes 10 s, a 20 s, c 30 s with one seed and does not get there with the other, d and e never do."""
    low, late = [0.1] * 4, [0.1, 0.1, 0.9, 0.9]
    played = runs(e=[low], a=[[0.6, 0.9, 0.9, 0.9]], b=[[0.9] * 4], c=[late, low], d=[low])
    assert times.order(played, summed(played), HARD) == ["b", "a", "c", "e", "d"]
    assert times.order(played, summed(played), None) == list(played)
    shown = figure(played, HARD)
    assert [row[0] for row in shown.rows][:3] == ["b", "a", "c"]
    layer = shown.chart.to_dict()["layer"][-1]["encoding"]
    assert layer["y"]["scale"]["domain"][:3] == ["b", "a", "c"]


def test_seeds_are_listed_and_one_that_never_got_there_has_no_time():
    """Seed 1 of b reaches 0.8 after 30 s, seed 2 never in 20 s, so both count 20 s; a's 20 s and 10 s are known."""
    shown = figure(runs(a=[[0.6, 0.9], [0.9]], b=[[0.1, 0.2, 0.9], [0.1, 0.1]]), HARD)
    assert shown.rows == [("a", "15.0 s", "1: 20.0, 2: 10.0"), ("b", "≥ 20.0 s", "1: 30.0, 2: –")]
    assert "A triangle stands where the run of a seed ended" in shown.caption


def test_the_seconds_beside_it_are_those_up_to_the_target():
    """Rounds of 10 s: 1 set-up, 2 down, 3 compute, 4 up; b's second seed never got there, and does not count."""
    played = runs(a=[[0.6, 0.9, 0.9]], b=[[0.1, 0.1, 0.9, 0.9], [0.1]])
    known = critical.mean(critical.until(played["b"], HARD))
    assert known[("upload", "weights")] == 12.0
    assert sum(known.values()) == 30.0
    assert critical.figure(played, HARD).rows[0] == ("set-up", "2.00", "3.00")
    assert critical.figure(played, None).rows[0] == ("set-up", "3.00", "2.50")  # whole runs


def test_both_charts_have_one_axis():
    """b's second seed, whose run ended after 40 s, is the last mark; its number has room beside it."""
    played = runs(a=[[0.6, 0.9]], b=[[0.1, 0.9], [0.1, 0.1, 0.1, 0.1]])
    summary = summed(played)
    end = times.end(played, summary, HARD)
    assert end == times.ROOM * 40.0
    dots, bars = figure(played, HARD).spec(), critical.figure(played, HARD, end).spec()
    assert dots["layer"][1]["encoding"]["x"]["scale"] == bars["encoding"]["x"]["scale"]


def test_captions_explain_only_what_is_there():
    """Waiting is 1 s of the 11 s of a round, or none; the bar needs five seeds that get there."""
    without, waiting = runs(a=[[0.9]]), {"a": {1: [_row(0, 0.9, wait=1.0)]}}
    assert "Waiting" not in critical.figure(without, HARD).caption
    assert "Waiting is what that path does not explain" in critical.figure(waiting, HARD).caption
    alone, few, many = ([[0.9]] + [[0.1]] * 4, [[0.9]] * 4, [[0.9]] * 5)
    assert "≥: its mean is cut off" in figure(runs(a=alone), HARD).caption
    assert ["bar is" in figure(runs(a=seeds), HARD).caption for seeds in (few, many)] == [False, True]
    assert "stroke" in figure(runs(a=few), HARD).caption


def test_the_bytes_say_what_cut_is_where_something_was():
    whole, cut = runs(a=[[0.9]]), runs(a=[[0.9]])
    cut["a"][1][0]["bytes"] = {"down": {"weights": 8}, "up": {"cut": 3}}
    assert ["Cut is" in payloads.figure(each).caption for each in (whole, cut)] == [False, True]
