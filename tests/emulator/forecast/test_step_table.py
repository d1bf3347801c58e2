"""Tables of measured steps, and the profiles that are fitted to them."""

from __future__ import annotations

import csv

import pytest

from devices.device import profiles, read_profiles
from emulator.forecast.fitting import RATES, predicted, rate_of, with_rates
from emulator.forecast.step_table import counted, fit, read
from scenarios.text.faults import BadScenario
from tests.all_of import all_of

LIKE = profiles()["pi-4"]
BOARD = with_rates(LIKE, [2.5 * rate_of(LIKE, rate) for rate in RATES])  # 2.5 times as fast in all
STEPS = [("mlp", 10), ("mlp", 1024), ("digits-cnn", 32), ("own_steps:network", 16)]
MINE = """
from torch import nn

def network():
    depthwise = nn.Conv2d(16, 16, 3, padding=1, groups=16)
    return nn.Sequential(nn.Conv2d(3, 16, 1), depthwise, nn.Flatten(), nn.Linear(16 * 8 * 8, 10))
"""


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "own_steps.py").write_text(MINE)

    def write(*rows, columns="network,batch,seconds,shape"):
        (tmp_path / "steps.csv").write_text("\n".join([columns, *rows]) + "\n")
        return tmp_path / "steps.csv"

    return write


def of_board(board=BOARD, slow=1.0):
    """Returns rows with the seconds of STEPS on a board; those of the last network times `slow`."""
    shapes = {"own_steps:network": "3x8x8"}
    seconds = [predicted(counted(name, batch, shapes.get(name, "")), board) for name, batch in STEPS]
    seconds[-1] *= slow
    return [f"{name},{batch},{took},{shapes.get(name, '')}" for (name, batch), took in zip(STEPS, seconds, strict=True)]


@pytest.mark.slow
def test_a_board_is_found_again_from_its_seconds_without_an_error(file):
    steps = read(file(*of_board()))
    found = fit(steps, LIKE)
    assert [rate_of(found.profile, rate) for rate in RATES] == pytest.approx(
        [rate_of(BOARD, r) for r in RATES], rel=1e-3
    )
    assert [told for *_, told in found.judged] == pytest.approx([took for _, took, _ in found.judged], rel=1e-3)
    assert [name for name, *_ in found.judged] == [f"{name}, batch {batch}" for name, batch in STEPS]
    assert found.profile.overhead_s == LIKE.overhead_s


@pytest.mark.slow
def test_all_steps_of_a_network_are_left_out_together(file):
    """The last network takes thrice as long: no other knows, and both steps of the first are predicted without it."""
    right, wrong = fit(read(file(*of_board())), LIKE).judged, fit(read(file(*of_board(slow=3.0))), LIKE).judged
    assert wrong[-1][1] == pytest.approx(3 * right[-1][1])
    assert wrong[-1][2] == pytest.approx(right[-1][2], rel=1e-6)
    only = fit(read(file(*of_board()[:2])), LIKE)
    assert only.judged == []
    assert {*only.told} <= {"dense_flops_per_s", "memory_bytes_per_s"}


@pytest.mark.slow
def test_the_counts_are_those_of_the_layers_by_hand(file):
    """Batch 16: 1 x 1 once (its gradients are dense, without that of the images), depthwise and dense thrice."""
    file()
    step, head = (counted("own_steps:network", 16, "3x8x8", trains) for trains in ("all", "head"))
    places = 16 * 8 * 8
    assert step.grouped == 3 * 2 * 9 * 16 * places
    assert step.pointwise == 2 * 3 * 16 * places
    last = 2 * 16 * 16 * 64 * 10
    assert step.flops == step.grouped + 2 * step.pointwise + 3 * last
    assert head.flops == step.grouped / 3 + step.pointwise + 2 * last


@pytest.mark.slow
def test_a_text_and_a_network_of_torchvision_are_counted():
    """An LSTM has 8 h² weights at each position, and its first state needs no gradient.  With all but the last layer
    frozen, a network costs hardly more than its forward pass."""
    tokens = counted("lstm-tiny", 4, "20 tokens")
    assert tokens.recurrent == 2 * 4 * 32 * 32 * (3 * 20 * 8 - 4)
    head = counted("torchvision:resnet18", 2, "3x224x224", "head")
    assert head.flops / 2 / 2 == pytest.approx(1.814e9, rel=1e-3)  # multiply-adds, as torchvision states them


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("mlp,0,1,", "line 3: batch is '0'; it must be a whole number from 1 on"),
        ("mlp,1.5,1,", "line 3: batch is '1.5'; it must be a whole number"),
        ("mlp,ten,1,", "line 3: batch is 'ten'; it must be"),
        ("mlp,10,-1,", "line 3: seconds is '-1'; it must be the seconds of one step"),
        ("mlp,10,0,", "line 3: seconds is '0'"),
        ("mlp,10,nan,", "line 3: seconds is 'nan'"),
        ("mlp,10,1,28*28", "line 3: shape is '28*28'; it must be such as 3x224x224 for images"),
        ("mlp,10,1,3x28x28", "line 3: shape is '3x28x28'; it must be that of examples of shape (1, 28, 28)"),
        ("lstm-tiny,10,1,", "line 3: shape is ''; it must be"),
        ("own_steps:network,10,1,", "line 3: shape is ''; it must be that of one example"),
        ("mpl,10,1,", "line 3: network is 'mpl': there is no model 'mpl'; "),
        ("nowhere:net,10,1,3", "line 3: network is 'nowhere:net': No module named 'nowhere'; looked in the folder"),
        pytest.param(
            *("torchvision:resnet,10,1,3x9x9", "line 3: network is 'torchvision:resnet': Unknown model resnet"),
            marks=pytest.mark.slow,  # it imports torchvision
        ),
        ("mlp,10,1", "line 3: the row has more or fewer cells than the columns"),
        ("mlp,10,1,,,", "line 3: the row has more or fewer cells than the columns"),
    ],
)
def test_a_wrong_row_is_told_with_its_line_its_column_its_value_and_what_is_right(file, row, said):
    with pytest.raises(BadScenario) as caught:
        read(file("mlp,10,1,", row))
    assert f"steps.csv, {said}" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        (
            "network,batch",
            "line 1: the columns are 'network,batch'; it must be network,batch,seconds, with any of shape,trains,softw",
        ),
        ("network,batch,seconds,second", "line 1: the columns are 'network,batch,seconds,second'"),
        ("network,batch,seconds", "has no measured steps"),
    ],
)
def test_a_table_without_its_columns_or_rows_is_refused(file, columns, said):
    with pytest.raises(BadScenario, match=said):
        read(file(columns=columns))


@pytest.mark.slow
def test_the_command_prints_a_profile_and_its_error(fedlapse, file):
    rows = [
        f"{row},{software}"
        for row, software in zip(of_board(), ["torch 2.10", '"a ""b"""', "", "torch 2.10"], strict=True)
    ]
    file(*rows, columns="network,batch,seconds,shape,software")
    done = fedlapse("calibrate", "--from", "steps.csv", "--name", "mine")
    assert done.returncode == 0, done.stderr
    profile = read_profiles(done.stdout.splitlines())["mine"]
    for what in ("flops_per_s", "dense_flops_per_s", "memory_bytes_per_s"):
        assert getattr(profile, what) == pytest.approx(getattr(BOARD, what), rel=2e-3)
    assert (profile.power, profile.memory_bytes) == (LIKE.power, LIKE.memory_bytes)
    by = 'measured: 4 factors fitted to 4 steps in steps.csv with torch 2.10, a "b"'
    assert f"{by}; a network that is left out is off by 0 %" in profile.source
    assert "memory: assumed: as pi-4" in profile.source
    assert "a network that is left out is off by 0 % in the median, 0 % at worst" in done.stderr
    assert "own_steps:network, batch 16" in done.stderr
    sources = {row["quantity"]: row["source"] for row in csv.DictReader(done.stdout.splitlines())}
    assert sources["speed_dense"].startswith("measured: ")


@pytest.mark.slow
def test_a_single_network_says_nothing_of_its_error(fedlapse, file):
    """Its steps grow as its FLOPs do, some six times, and so they tell the speed of dense layers."""
    file("mlp,10,0.5,", "mlp,64,3,")
    done = fedlapse("calibrate", "--from", "steps.csv", "--like", "nexus-6")
    assert "it is fitted to a single network" in done.stderr
    assert "predicted" not in done.stderr
    sources = {row["quantity"]: row["source"] for row in csv.DictReader(done.stdout.splitlines())}
    assert "it is fitted to a single network" in sources["speed_dense"]
    assert sources["speed_recurrent"] == sources["speed"] == "assumed: in proportion to the rates of nexus-6"
    assert sources["overhead"] == "assumed: as nexus-6"
    assert "speed_grouped" not in sources  # neither the steps nor nexus-6 say it


@pytest.mark.slow
def test_one_step_tells_one_factor_and_measures_no_rate(fedlapse, file):
    file("digits-cnn,32,0.41,")
    done = fedlapse("calibrate", "--from", "steps.csv")
    assert "1 factor fitted to 1 step in steps.csv; all other proportions are from pi-4" in done.stderr
    sources = {row["quantity"]: row["source"] for row in csv.DictReader(done.stdout.splitlines())}
    assert all_of(source.startswith("assumed: ") for source in sources.values())


def test_steps_that_are_shorter_than_the_overheads_are_named_and_not_fitted(file):
    """The overheads of a pi-4 are 1.2 ms a step, which mlp has with few operators."""
    steps = read(file("mlp,10,0.0011,", "mlp,1024,0.5,"))
    with pytest.raises(
        BadScenario, match=r"overheads of pi-4 alone: mlp, batch 10: 0.0011 s, of 0.001\d+ s; --like must"
    ):
        fit(steps, LIKE)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--like", "pi-5"], "--like needs --from"),
        (["--from", "steps.csv", "--seconds", "3"], "--seconds and --threads are for measuring"),
        (["--from", "steps.csv", "--like", "pi-44"], "there is no profile 'pi-44'; did you mean pi-4?"),
        (["--from", "nowhere.csv"], "nowhere.csv: no such file"),
        (["--from", "own_steps.py"], "own_steps.py, line 1: the columns are ''"),
    ],
)
def test_what_cannot_be_fitted_is_told_in_a_line(fedlapse, file, options, said):
    file("mlp,10,1,")
    done = fedlapse("calibrate", *options)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
