"""The papers' settings: they can be read, and their published numbers are the papers'."""

import re
from pathlib import Path

import pytest

from scenarios.load import load
from scenarios.schema.scenario import Published, Scenario
from tests.all_of import all_of

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "scenarios" / "papers").glob("*.yaml"))
TEXTS = {  # what names begin with -> where the paper's text lies
    "fedcl": "fedcl.txt",
    "fedcurv": "fedcurv.txt",
    "agentimportance": "importance-from-agents.txt",
    "fedmeta": "fedmeta-uga.txt",
    "continual": "continual-fl.txt",
}
ROWS = {  # how the papers' tables call what we give another label
    "fedavg": ("FedAvg",),
    "fedprox": ("FedProx",),
    "fedcl": ("FedCL",),
    "fedcl-n10": ("FedCL N=10",),
    "fedcurv": ("FedCurv",),
    "agentimportance": ("Ours", "FedAvg + EWC + weighted average", "EWC"),
    "ewc-only": ("FedAvg + EWC",),
    "weighted-only": ("FedAvg + weighted average",),
    "rwalk": ("RWalk",),
    "fedshare": ("FedShare",),
    "uga": ("UGA",),
    "fedmeta": ("FedMeta",),
    "fedmeta-uga": ("FedMeta w/ UGA",),
}

each_file = pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)


def paper(stem: str) -> str:
    path = ROOT / "../shared/papers" / TEXTS[stem.partition("-")[0]]
    if not path.is_file():
        pytest.skip(f"NO PAPERS: {path.resolve()} is not there, so published numbers were compared with nothing")
    return path.read_text(encoding="utf-8")


def opening(file: Path) -> str:
    """The comment at the top, as one line."""
    lines = file.read_text(encoding="utf-8").splitlines()
    return " ".join(line.lstrip("# ") for line in lines if line.startswith("#"))


def words(share: float) -> set[str]:
    """The ways in which a text may write a share: 84.05, 92, 0.95."""
    return {f"{100 * share:.2f}", f"{100 * share:g}", f"{share:.2f}"}


def says(text: str, number: str) -> bool:
    """Whether the text has the number on its own, not within 184.05 or 84.051."""
    return re.search(rf"(?<![\d.]){re.escape(number)}(?!\.?\d)", text) is not None


def row(line: str) -> str:
    """The name of the row that a line begins with: FedMeta w/ UGA, not FedMeta."""
    return max((name for names in ROWS.values() for name in names if line.startswith(name)), key=len, default="")


def stated(text: str, one: Published) -> bool:
    """Whether the paper has this number: for a number of a table, in the row of its label."""
    if one.source.startswith("Table"):
        text = "\n".join(line for line in text.splitlines() if row(line) in ROWS[one.label])
    share, saved = one.final or one.ratio, 1 - one.ratio if one.ratio else 0.0  # a text may state what is saved
    return any(says(text, number) for number in (words(share) | words(saved) if share else {f"{one.rounds:g}"}))


def test_there_are_settings_of_all_five_papers():
    assert {file.stem.partition("-")[0] for file in FILES} == set(TEXTS)


@pytest.mark.parametrize("small", [False, True], ids=["full", "small"])
@each_file
def test_a_setting_can_be_read(file, small):
    scenario = load(str(file), small=small)
    labels = {entry.name for entry in scenario.algorithms}
    assert scenario.name == file.stem
    assert {name for one in scenario.published for name in (one.label, one.over or one.label)} <= labels
    for one in scenario.published:
        for share in (one.final, one.value, one.ratio):
            assert share is None or 0 < share <= 1


@each_file
def test_a_small_version_needs_no_files_and_leaves_the_labels_as_they_are(file):
    full, small = load(str(file)), load(str(file), small=True)
    assert small.data.set in ("digits", "babble")
    assert {entry.name for entry in small.algorithms} <= {entry.name for entry in full.algorithms}
    assert numbers(small) == numbers(full)


def numbers(scenario: Scenario) -> list[tuple[str, float | None, float | None, float | None]]:
    return [(one.label, one.final, one.rounds, one.ratio) for one in scenario.published]


def test_a_setting_does_not_depend_on_what_is_the_default():
    """FedCL's text has the identity, which is no default here, and none of the papers has a network."""
    scenarios = [load(str(file)) for file in FILES]
    assert all_of(scenario.network.model == "ideal" for scenario in scenarios)
    options = [entry.options for scenario in scenarios for entry in scenario.algorithms if entry.key == "fedcl"]
    assert all_of(option.get("fallback") or option.get("preset", "none") != "none" for option in options)


@each_file
def test_its_comment_says_what_the_text_leaves_open(file):
    first = file.read_text(encoding="utf-8").splitlines()[0]
    assert first == "# yaml-language-server: $schema=../scenario.schema.json"
    assert "leaves open" in opening(file) or "nothing is open" in opening(file)
    assert "From the text" in opening(file)
    assert "`--small`" in opening(file)


@each_file
def test_published_numbers_stand_in_the_paper(file):
    text = paper(file.stem)
    for one in load(str(file)).published:
        assert stated(text, one), one
        assert one.value is None or any(says(text, number) for number in words(one.value)), one


def test_a_gap_is_one_of_values_at_the_end():
    with pytest.raises(ValueError, match="has `over:` only with `final:`"):
        Published(label="a", value=0.9, rounds=3, over="b")


def test_a_slip_of_the_pen_would_be_found():
    text = paper("fedcl")
    right = Published(label="fedcl", metric="initial", final=0.8405, source="Table 1")
    assert stated(text, right)
    assert not stated(text, right.model_copy(update={"final": 0.8450}))  # digits in another order
    assert not stated(text, right.model_copy(update={"final": 0.8193}))  # FedAvg's


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "fedcl-code-mnist-alpha1",
        "fedcurv-table1-e10",
        "agentimportance-fig2-cifar-mlp-c20",
        "fedmeta-fig5-overlap050",
        "continual-lstm-small",
    ],
)
def test_a_small_version_plays_a_round(fedlapse, tmp_path, name):
    changes = ("rounds.max=1", "seeds=[1]", "--workers", "0", "--quiet", "--out", tmp_path / "out")
    done = fedlapse("compare", f"papers/{name}", "--small", *changes)
    assert done.returncode == 0, done.stderr
    labels = {entry.name for entry in load(f"papers/{name}", small=True).algorithms}
    assert {folder.name for folder in (tmp_path / "out").iterdir() if folder.is_dir()} >= {f"{x}-s1" for x in labels}
