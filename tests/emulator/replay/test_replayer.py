import json
import math
from dataclasses import replace

import pytest

from algorithms.counting.step_counts import StepCounts
from devices.device import Device, profiles
from emulator.commands.replay.text import _assumed, _guessed, _turned
from emulator.conversation.rounds import Round, RoundRules
from emulator.record.call import Call
from emulator.record.events import ServerEnded
from emulator.record.lines import read_events
from emulator.record.run import RUN, AlgorithmFacts, Run, text_of
from emulator.record.tally import Bill
from emulator.record.targets import Target
from emulator.replay.bare import Setting
from emulator.replay.batch import Batch
from emulator.replay.conditions import Condition, Uplink, at_speed, links_from
from emulator.replay.findings import ALL, Finding, Times, finding, flips, result_of, time_of, time_to
from emulator.replay.replayer import Check, Parting, Replayed, ReplayRecord
from emulator.replay.script import RoundScript, Script, Served, read_script
from emulator.results.comparison import observed, rankings
from emulator.results.restricted import Timed
from network.links.link import Link
from network.links.tcp import Tcp
from network.links.trace import Trace
from network.sharing.flow import SharedLink
from scenarios.load import build
from tests.conftest import SMALL, merged

GOAL = Target("accuracy", 0.5)
FACTS = AlgorithmFacts(keeps_uncounted=False, any_cohort_will_do=True, cohort="drawn")


def replayed(*rows, parting=None, failure=None, label="fedavg", seed=1):
    """A replay whose rounds end at these times with these accuracies."""
    made = [
        {"round": number, "time_s": at, "accuracy": accuracy, "bytes": {"down": {}, "up": {}}}
        for number, (at, accuracy) in enumerate(rows)
    ]
    return Replayed(label, seed, made, parting, 0, failure)


def test_the_time_to_a_target_is_that_of_its_round():
    assert time_to(replayed((3.0, 0.4), (7.0, 0.6)), GOAL, 2) == Timed(7.0, 7.0)


def test_a_target_that_is_not_reached_is_never():
    assert time_to(replayed((3.0, 0.4)), GOAL, 1) == Timed(None, 3.0)


@pytest.mark.parametrize(
    "ended",
    [
        {"parting": Parting(1, "counts a, not b")},
        {"failure": "3 rounds in a row had fewer than min_replies"},
        {},  # the record does not say what is sent in round 1: not even --anyway continues
    ],
)
def test_what_is_beyond_the_end_of_a_replay_is_not_known_and_what_is_before_it_is(ended):
    """Only the first of two rounds was replayed."""
    assert time_to(replayed((3.0, 0.4), **ended), GOAL, 2) is None
    assert time_to(replayed((3.0, 0.6), **ended), GOAL, 2) == Timed(3.0, 3.0)
    assert time_of(replayed((3.0, None), **ended), 2) is None


def test_a_replay_that_went_on_after_its_parting_is_whole():
    assert time_of(replayed((3.0, 0.4), (7.0, 0.4), parting=Parting(0, "")), 2) == Timed(7.0, 7.0)


@pytest.mark.parametrize(("beyond", "time"), [(None, Timed(7.0, 7.0)), (2, Timed(7.0, 7.0)), (1, None)])
def test_a_target_that_may_have_been_reached_in_a_round_of_unknown_accuracy_has_no_time(beyond, time):
    rows = replayed((3.0, 0.4), (7.0, 0.6), parting=Parting(0, ""))
    assert time_to(replace(rows, unknown=beyond), GOAL, 2) == time


def test_a_run_that_would_have_gone_on_may_yet_reach_its_target():
    rows = replayed((3.0, 0.4), (7.0, 0.4), parting=Parting(0, ""))
    assert time_to(replace(rows, unknown=2), GOAL, 2) is None
    assert time_to(rows, GOAL, 2) == Timed(None, 7.0)


def test_a_replay_that_ended_with_failed_rounds_has_no_time_for_all_rounds():
    rows = (3.0, None), (5.0, None), (8.0, None)
    assert time_of(replayed(*rows, failure="3 rounds in a row failed"), 3) is None
    assert time_of(replayed(*rows, failure="3 rounds in a row failed"), 2) == Timed(5.0, 5.0)
    assert time_of(replayed(*rows), 3) == Timed(8.0, 8.0)


def test_a_time_is_assumed_if_the_target_is_reached_after_the_parting():
    """For a time before the parting, --anyway assumes nothing."""
    assert not result_of(replayed((3.0, 0.6), (7.0, 0.7), parting=Parting(1, "")), [GOAL], 2).guesses
    assert result_of(replayed((3.0, 0.4), (7.0, 0.7), parting=Parting(1, "")), [GOAL], 2).guesses == {GOAL.name}


def script(*failed: bool, cycles=None) -> Script:
    """A record in which these rounds failed; models are numbered by the rounds that moved them."""
    rounds, model = [], 0
    for number, fails in enumerate(failed):
        row = {"failed": fails, "numbers": {"cycle": cycles[number]} if cycles else {}}
        model_before, model = model, model + (not fails)
        served = {} if fails else {"combine": Served(Bill(), f"m{model}")}
        rounds.append(RoundScript(number, (), f"m{model_before}", (), True, served, row=row))
    return Script(Run("x", 1), FACTS, rounds)


def test_how_many_examples_devices_hold_is_read_from_the_split_of_the_seed(tmp_path):
    """As `compare` writes it: counts of each class, under each seed."""
    folder = tmp_path / "fedavg-s7"
    folder.mkdir()
    opened = {"asked": ["a"], "event": "open", "model": "", "round": 0, "t": 0.0}
    closed = {"counted": [], "event": "close", "reason": "", "round": 0, "t": 1.0}
    (folder / "events.jsonl").write_text(f"{json.dumps(opened)}\n{json.dumps(closed)}\n")
    (folder / "rounds.jsonl").write_text('{"round": 0}\n')
    (folder / "work.jsonl").touch()
    (folder / RUN).write_text(text_of(Run("fedavg", 7), FACTS))
    assert read_script(folder).examples == {}
    seeds = {"1": {"devices": {"a": [1, 1]}}, "7": {"devices": {"a": [3, 4], "b": [0, 2]}, "of": 9}}
    (tmp_path / "split.json").write_text(json.dumps({"classes": 2, "seeds": seeds}))
    assert read_script(folder).examples == {"a": 7, "b": 2}
    (tmp_path / "split.json").write_text("[]")
    with pytest.raises(ValueError, match="split.json is not as"):
        read_script(folder)


def test_a_record_has_a_model_for_each_round_that_moved_it():
    assert script(False, True, False).models == ["m0", "m1", "m2"]
    assert script(True, False, True).models == ["m0", "m1"]


def test_the_model_after_so_many_steps_is_looked_up_where_the_record_had_it():
    made = script(False, True, False)
    assert [at.number if (at := made.after(1, number)) else None for number in (0, 1, 2)] == [0, 1, 1]
    assert made.after(0, 0) is None
    assert made.after(3, 2) is None


def test_a_model_was_not_measured_on_data_of_another_time_slice():
    made = script(False, False, False, cycles=(0, 0, 1))
    assert made.after(1, 1).number == 0
    assert made.after(2, 2) is None


def test_without_a_target_the_end_counts():
    assert result_of(replayed((3.0, None), (5.0, None)), [], 2).times == {ALL: Timed(5.0, 5.0)}
    assert result_of(replayed((3.0, None), (5.0, None)), [], 2, shared=1).times == {
        ALL: Timed(3.0, 3.0)
    }  # another has but one


def timed(at: float | None) -> Timed | None:
    """None is not known; one that never gets there is played for 1000 s."""
    return None if at is None else Timed(None, 1000.0) if at == math.inf else Timed(at, at)


def found(name: str, **seconds: float | None) -> Finding:
    tau = 1000.0 if math.inf in seconds.values() else math.inf
    times = {label: Times({1: timed(at)}, tau=tau) for label, at in seconds.items()}
    return Finding(name, (), {"t": times}, (), (), 0, 0)


def seeds(*times: float) -> Times:
    return Times({seed: Timed(time, time) for seed, time in enumerate(times)})


def test_what_the_sign_of_an_assumed_time_means_is_told_only_where_one_is_shown():
    exact, guessed, unknown = (seeds(5.0), replace(seeds(5.0), assumed=True), Times({1: None}, assumed=True))
    for times, told in ((exact, 0), (guessed, 1), (unknown, 0)):
        one = Finding("s", (), {"t": {"x": times}, ALL: {"x": exact}}, (), (), 0, 0)
        assert len(list(_guessed([found("as recorded", x=1.0), one]))) == told


def test_the_order_turns_where_another_one_is_first():
    first, same, turned = (found("a", x=1.0, y=2.0), found("b", x=5.0, y=9.0), found("c", x=3.0, y=2.0))
    assert flips([first, same, turned], "t") == ["c"]


def test_a_lead_of_less_than_1_percent_is_a_tie_and_turns_nothing():
    ahead, tie, just = (found("a", x=1.0, y=1.02), found("b", x=1.009, y=1.0), found("c", x=1.01, y=1.0))
    assert [each.first("t") for each in (ahead, tie, just)] == ["x", "tie", "y"]
    assert flips([ahead, tie, just], "t") == ["c"]
    assert flips([tie, ahead, just], "t") == []
    assert found("d", x=math.inf, y=math.inf).first("t") is None
    assert found("e", x=math.inf, y=5.0).first("t") == "y"


@pytest.mark.parametrize(
    ("theirs", "first"), [((15.0, 16.4, 18.1, 15.2, 13.4, 16.4), "x"), ((12.0, 11.0, 9.0, 14.0, 17.0, 11.0), "tie")]
)
def test_from_six_seeds_on_a_lead_must_be_shown_by_them(theirs, first):
    """With the second label one seed is faster, two as fast and three slower: its mean is 17 % longer, and no
    difference is shown."""
    mine = seeds(10.0, 11.0, 12.0, 10.0, 9.0, 11.0)
    there = Finding("a", (), {"t": {"x": mine, "y": seeds(*theirs)}}, (), (), 0, 0)
    assert there.first("t") == first
    turned = Finding("b", (), {"t": {"x": seeds(*theirs), "y": mine}}, (), (), 0, 0)
    assert flips([there, turned], "t") == (["b"] if first == "x" else [])


def test_five_seeds_cannot_show_a_lead_so_their_means_count():
    there = Finding("a", (), {"t": {"x": seeds(10.0, 11.0, 12.0, 10.0, 9.0), "y": seeds(*[12.0] * 5)}}, (), (), 0, 0)
    assert there.ahead("t", "x", "y")
    assert there.first("t") == "x"


def test_the_order_is_told_with_the_settings_that_change_it() -> None:
    record, same = found("as recorded", a=1.0, b=2.0), found("s", a=3.0, b=4.0)
    tied, turned = found("t", a=1.001, b=1.0), found("u", a=3.0, b=2.0)
    order = "Order at t by mean time: a, b."
    assert _turned([record, same], "t", "t") == f"{order} It is the same in every setting."
    assert _turned([record, turned, same], "t", "t") == f"{order} It changes on u."
    assert _turned([record, tied], "t", "t").endswith(
        "the same in every setting, except for ties on t (less than 1 %, or not significant)."
    )


def test_an_order_with_an_unknown_time_turns_nothing():
    assert flips([found("a", x=1.0, y=2.0), found("b", x=None, y=2.0)], "t") == []


def test_who_never_gets_there_is_the_last():
    assert found("a", x=math.inf, y=2.0).order("t") == ("y", "x")
    assert found("a", x=math.inf, y=math.inf).order("t") is None


def test_a_mean_needs_every_seed():
    both = [result_of(replayed((at, 0.6), seed=seed), [GOAL], 1) for seed, at in ((1, 4.0), (2, 6.0))]
    assert finding("s", (), both).times["accuracy 0.5"]["fedavg"].mean == 5.0
    lost = result_of(replayed(seed=3, parting=Parting(0, "")), [GOAL], 1)
    assert not finding("s", (), [*both, lost]).times["accuracy 0.5"]["fedavg"].known


def test_a_replay_says_of_a_record_what_compare_says():
    """Times 4 to 8 s, and 6 to 12 s but for a seed that never gets there in 9 s, so that times count up to 9 s."""
    runs = {"a": {seed: [(at, 0.6)] for seed, at in enumerate((4.0, 5.0, 6.0, 7.0, 8.0), 1)}}
    runs["b"] = {seed: [(at, 0.6)] for seed, at in enumerate((6.0, 8.0, 9.0, 12.0), 1)} | {5: [(9.0, 0.4)]}
    made = [replayed(*rows, label=label, seed=seed) for label, of in runs.items() for seed, rows in of.items()]
    rows = {label: {each.seed: each.rows for each in made if each.label == label} for label in runs}
    (compared,) = rankings(observed(rows), [GOAL])
    there = finding("as recorded", (), [result_of(each, [GOAL], 1) for each in made]).ranking(GOAL.name)
    assert (
        (there.best.mean, there.others[0].mine.mean) == (compared.best.mean, compared.others[0].mine.mean) == (6.0, 8.2)
    )
    assert there.others[0].contrast == compared.others[0].contrast
    assert there.others[0].contrast.tau == 9.0
    assert (there.fastest, there.others[0].adjusted) == (compared.fastest, compared.others[0].adjusted)


def written(folder, text):
    path = folder / "trace.csv"
    path.write_text(text)
    return str(path)


def test_a_downlink_alone_is_refused(tmp_path):
    path = written(tmp_path, "time_s,down_mbit_s\n0,8\n1,16\n2,\n")
    with pytest.raises(ValueError, match="is a downlink only"):
        list(links_from([path], Uplink()))


def test_an_uplink_alone_is_no_downlink(tmp_path):
    path = written(tmp_path, "time_s,up_mbit_s\n0,8\n1,16\n2,\n")
    with pytest.raises(ValueError, match="no trace of the direction down, only up"):
        list(links_from([path], Uplink()))


def test_a_log_of_downloads_is_no_uplink(tmp_path):
    path = tmp_path / "log"
    path.write_text("0.5 2.0\n1.0 3.0\n1.7 1.0\n")
    with pytest.raises(ValueError, match="nothing about an uplink"):
        list(links_from([], Uplink([str(path)])))


def test_a_share_of_the_downlink_is_for_those_without_an_uplink(tmp_path):
    """A folder with a log of downloads and a pair: the pair keeps what was recorded."""
    (tmp_path / "log").write_text("0.5 2.0\n1.0 3.0\n1.7 1.0\n")
    (tmp_path / "lte.down").write_text("1\n2\n")
    (tmp_path / "lte.up").write_text("4\n")
    log, pair = links_from([str(tmp_path)], Uplink(ratio=0.5))
    assert (log.up.mean, log.assumptions) == (log.down.mean / 2, ("assumed: uplink = 0.5 x downlink",))
    assert (pair.up.mean, pair.assumptions) == (
        375e3,
        ("the uplink is the recorded one, and none is assumed",),
    )


@pytest.mark.parametrize(("uplink", "share"), [(Uplink(ratio=0.2), 0.2), (Uplink(symmetric=True), 1.0)])
def test_an_assumed_uplink_is_a_share_of_the_downlink_and_is_said(tmp_path, uplink, share):
    path = written(tmp_path, "time_s,down_mbit_s\n0,8\n1,16\n2,\n")
    (condition,) = links_from([path], uplink)
    assert isinstance(condition.up, Trace)
    assert condition.up.carried(0.0, 2.0) == pytest.approx(share * 3e6)  # 1 MB and 2 MB
    assert any(said.startswith("assumed: ") for said in condition.assumptions)


def test_a_pair_of_files_is_one_trace_with_both_ways(tmp_path):
    (tmp_path / "lte.down").write_text("1\n2\n")
    (tmp_path / "lte.up").write_text("4\n")
    (condition,) = links_from([str(tmp_path)], Uplink())
    assert (condition.name, condition.down.mean, condition.up.mean) == ("lte", 1.5e6, 375e3)  # 1500 bytes a line


def test_a_trace_that_carries_nothing_is_refused(tmp_path):
    path = written(tmp_path, "time_s,down_mbit_s,up_mbit_s\n0,0,1\n2,,\n")
    with pytest.raises(ValueError, match="carries no bytes down"):
        list(links_from([path], Uplink()))


def test_a_folder_passes_over_what_is_no_trace_and_says_so_but_not_over_all(tmp_path):
    (tmp_path / "README").write_text("about the traces\n")
    with pytest.raises(ValueError, match=r"holds no downlink trace: left out README \(unknown format\)"):
        list(links_from([str(tmp_path)], Uplink(symmetric=True)))
    written(tmp_path, "time_s,down_mbit_s\n0,8\n2,\n")
    (tmp_path / "damaged.csv").write_text("time_s,down_mbit_s\n0,x\n2,\n")
    told: list[str] = []
    made = links_from([str(tmp_path)], Uplink(symmetric=True), tell=told.append)
    assert [each.name for each in made] == ["trace.csv"]
    (passed,) = told
    assert passed.startswith(f"left out of {tmp_path}: README (unknown format), damaged.csv (line 2: ")


def test_a_format_that_content_leaves_open_is_asked_for_and_taken(tmp_path):
    (tmp_path / "log").write_text("0 1\n1 1\n2 3\n3 3\n")
    for place in (tmp_path / "log", tmp_path):
        with pytest.raises(ValueError, match="could be pensieve or oboe; name its format with --from"):
            list(links_from([str(place)], Uplink(symmetric=True)))
        (made,) = links_from([str(place)], Uplink(symmetric=True), "oboe")
        assert made.down.peak == 3e3 / 8
    with pytest.raises(ValueError, match="no such format; did you mean oboe"):
        list(links_from([str(tmp_path)], Uplink(symmetric=True), "obo"))


def test_traces_are_looked_for_in_the_data_folder_too(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDLAPSE_DATA", str(tmp_path))
    written(tmp_path, "time_s,down_mbit_s,up_mbit_s\n0,8,4\n2,,\n")
    assert [each.name for each in links_from(["trace.csv"], Uplink())] == ["trace.csv"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("5g_trace_15", "5g_trace_15: there is no such file"),
        ("10_walks", "10_walks: there is no such file"),
        ("5Mbps", "not a rate; write it as 100Mbit/s .*; nor is there such a file"),
    ],
)
def test_a_file_that_is_not_there_is_no_bad_rate(name, said):
    with pytest.raises(ValueError, match=said):
        list(links_from([name], Uplink(symmetric=True)))


def test_a_rate_is_a_link_that_never_changes():
    (condition,) = links_from(["8Mbit/s"], Uplink(ratio=0.5))
    assert (condition.down, condition.up) == (1e6, 0.5e6)


def test_one_uplink_serves_all_downlinks_and_two_do_not_serve_three():
    assert [each.up for each in links_from(["8Mbit/s", "16Mbit/s"], Uplink(["4Mbit/s"]))] == [0.5e6, 0.5e6]
    with pytest.raises(ValueError, match="2 uplinks for 3 downlinks"):
        list(links_from(["1Mbit/s"] * 3, Uplink(["4Mbit/s"] * 2)))


def test_a_recorded_link_keeps_its_model_and_leaves_its_cell(tmp_path):
    path = written(tmp_path, "time_s,down_mbit_s,up_mbit_s\n0,8,4\n50,16,8\n100,,\n")
    (condition,) = links_from([path], Uplink())
    before = Link(1.0, 1.0, 0.1, tcp=Tcp(tls=2), via="cell")
    after = condition.link(before)
    assert (after.latency, after.tcp, after.via) == (0.1, before.tcp, None)
    assert after.down.mean == 1.5e6
    assert Condition("slow", down=5.0).link(before).via == "cell"


def base(*links):
    """A setting of devices with these links, where there is a cell."""
    server = Device("server", profiles()["workstation"])
    cell = {"cell": SharedLink(1.0, None, False)}
    named = dict(zip("abc", links, strict=False))
    return Setting("base", {}, named, server, Link(1.0, 1.0, 0.0), {"down": cell, "up": cell})


def test_a_cell_that_is_left_out_is_an_assumption(tmp_path):
    path = written(tmp_path, "time_s,down_mbit_s,up_mbit_s\n0,8,4\n100,,\n")
    (traced,) = links_from([path], Uplink())
    within, alone = Link(1.0, 1.0, 0.0, via="cell"), Link(1.0, 1.0, 0.0)
    (said,) = traced.about(base(within, alone))
    assert said == "a recorded link already contains its share of a cell, so it is not behind cell"
    assert traced.about(base(alone)) == Condition("slow", down=5.0).about(base(alone)) == ()
    (said,) = Condition("slow", down=5.0).about(base(within))
    assert said == "devices behind cell stay there, and share what the scenario says"


def test_recorded_latencies_are_told_unless_another_is_said(tmp_path):
    path = written(tmp_path, "time_s,down_mbit_s,up_mbit_s,latency_ms\n0,8,4,70\n100,,,\n")
    (traced,) = links_from([path], Uplink())
    assert traced.about(base()) == ("latencies are those of the trace instead of the link's",)
    assert replace(traced, latency=0.04).about(base()) == ()
    assert replace(traced, latency=0.04).link(Link(1.0, 1.0, 0.1)).mean_latency == 0.04


@pytest.mark.parametrize("kind", ["conv", "recurrent"])
def test_at_one_speed_every_kind_of_layer_is_as_fast(kind):
    """1 GFLOP at 1 GFLOP/s is a second, also on a profile with speeds by kind of layer."""
    phone = Device("phone", profiles()["pixel-4"])
    (made,) = at_speed({"phone": phone}, 1e9).values()
    took = made.seconds(StepCounts(1e9, **{kind: 1e9}), 1) - made.seconds(StepCounts(), 1)
    assert took == pytest.approx(1.0)
    assert phone.seconds(StepCounts(1e9, **{kind: 1e9}), 1) - phone.seconds(StepCounts(), 1) != pytest.approx(1.0)


def test_how_much_of_a_replay_the_record_lacks_is_told_as_a_share():
    """Two replays of 40 and 60 messages and computations, of which 1 and 3 were not in the record: 4 %."""
    runs = [
        replace(replayed((3.0, 0.6), seed=seed), assumed=lacks, pieces=of)
        for seed, lacks, of in ((1, 1, 40), (2, 3, 60))
    ]
    there = finding("there", (), [result_of(run, [GOAL], 1) for run in runs])
    assert (there.plain["assumed"], there.plain["pieces"]) == (4, 100)
    (said,) = _assumed([found("as recorded", x=1.0), there])
    assert said.startswith("4 % of the messages and computations are not in the recorded runs")
    assert list(_assumed([found("as recorded", x=1.0)])) == []


def test_of_all_runs_the_most_repeated_recording_is_told():
    both = [
        result_of(replace(replayed((5.0, 0.6), seed=seed), loops=loops), [GOAL], 1) for seed, loops in ((1, 3), (2, 7))
    ]
    assert finding("s", (), both).loops == 7


def test_a_record_that_is_none_is_told_in_a_line(tmp_path):
    folder = tmp_path / "fedavg-s1"
    folder.mkdir()
    (folder / RUN).write_text(text_of(Run("fedavg", 1), FACTS))
    (folder / "work.jsonl").touch()
    (folder / "rounds.jsonl").write_text('{"round":0}\n')
    (folder / "events.jsonl").write_text('{"event":"close","round":0,"t":1}\n')
    with pytest.raises(ValueError, match=r"events.jsonl:1 is not as"):
        read_script(folder)
    with pytest.raises(ValueError, match=r"nothing is not the folder of a run: it has no run\.json"):
        read_script(tmp_path / "nothing")


def test_a_condition_that_says_nothing_changes_no_link():
    assert Condition("same").link(Link(3.0, 2.0, 0.1)) == Link(3.0, 2.0, 0.1)


def test_a_round_without_enough_replies_moves_no_model():
    """All three rounds succeeded in the record; in the replay the second one fails."""
    written = [
        RoundScript(number, ("a",), "", counted=(Call("a", number),), row={"numbers": {}}) for number in range(3)
    ]
    check, rules = Check(Script(Run("fedavg", 1), FACTS, written), anyway=True), RoundRules(3, needed=1, ask=1)
    for number in range(3):
        round = Round(number, ["a"], rules, 0.0)
        (round.lose if number == 1 else round.count)("a")
        check.closed(round)
    assert check.steps == [1, 1, 2]
    assert check.parting == Parting(1, "a is no longer aggregated")


def test_a_round_that_failed_has_no_leverage():
    """Its model is that of the round before, with that one's accuracy; but nobody's training moved it."""
    made = script(False, False)
    for written, accuracy in zip(made.rounds, (0.4, 0.6), strict=True):
        written.row.update(accuracy=accuracy, leverage={"p99": 2.0})
    check = Check(made, anyway=True)
    check.parting, check.steps = Parting(1, "a is no longer aggregated"), [1, 1]
    row = check.row({"round": 1, "failed": True, "numbers": {}, "accuracy": None, "leverage": {}})
    assert (row["accuracy"], row["leverage"]) == (0.4, {})


def test_what_combines_ends_with_the_model_of_the_next_round(tmp_path):
    """And a request with the one that goes down: that a round moved the model is noted later, when it is over."""
    made = script(False, False)
    record = ReplayRecord(tmp_path, lambda: 0.0, made, Check(made, anyway=True))
    for what in ("request", "combine"):
        record.server_start(0, what, Bill(), 1.0)
        record.server_end(0, what, "made anew")
    record.shut()
    ends = [event for event in read_events(tmp_path / "events.jsonl") if isinstance(event, ServerEnded)]
    assert [(event.what, event.model) for event in ends] == [("request", "m0"), ("combine", "m1")]


def test_runs_of_unlike_length_compare_up_to_the_end_of_the_shortest():
    batch = Batch.__new__(Batch)
    batch.scenario = build(SMALL)
    batch.scripts = [script(False, False, False), script(False, False)]
    assert (batch.shared, batch.every) == (2, "the first 2 rounds")
    batch.scripts = [script(False, False)] * 2
    assert (batch.shared, batch.every) == (2, "all 2 rounds")


def test_versions_are_compared_as_parts_of_a_round():
    """K = 2, M = 3: 4 versions are 8 replies, two rounds of three, which the third version completes."""
    batch = Batch.__new__(Batch)
    own = {"rounds": {"mode": "async", "buffer": 2, "in_flight": 3}}
    batch.scenario = build(merged(SMALL, {"algorithms": ["fedavg", {"fedbuff": own}]}))
    versions = replace(script(*[False] * 4), run=Run("fedbuff", 1))
    batch.scripts = [replace(script(*[False] * 5), run=Run("fedavg", 1)), versions]
    assert (batch.shared, batch.every) == (2, "the first 2 rounds")
    assert (batch.compared("fedavg"), batch.compared("fedbuff")) == (2, 3)
    alone = Batch.__new__(Batch)
    alone.scenario, alone.scripts = batch.scenario, [versions]
    assert (alone.shared, alone.compared("fedbuff")) == (4, 4)
