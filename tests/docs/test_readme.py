"""The code blocks of README.md, the tutorial and the recipes, run in order as a reader would, cut short."""

import re
import shlex
import tomllib
from pathlib import Path
from textwrap import dedent

import pytest
from ruamel.yaml import YAML

from scenarios.builders import machines
from scenarios.load import parse

ROOT = Path(__file__).parents[2]
README, INDEX, INSTALL, TUTORIAL, HOW_TO, REPLAY = (
    (ROOT / page).read_text(encoding="utf-8")
    for page in ("README.md", *(f"docs/{name}.md" for name in ("index", "install", "tutorial", "how-to", "replay")))
)
READ = README + INDEX + INSTALL + TUTORIAL + REPLAY + HOW_TO
BLOCK = re.compile(r"^( *)```(\w*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
HERE = ["--workers", "0", "-q"]
SHORT = {name: [*HERE, "training.epochs=1", "training.batch=64"] for name in ("compare", "run")}
BARE = [*HERE, "--rounds", "1", "--seed", "1", "evaluate.every=0", "rounds.targets=[]", "--out", "o"]
KINDS = {"console", "yaml", "python", "text", "bibtex"}

pytestmark = pytest.mark.slow


def blocks(text):
    return [(kind, dedent(body)) for _, kind, body in BLOCK.findall(text)]


def commands(body):
    """The lines after `$ `, without what is said about them."""
    return [shlex.split(line[2:], comments=True) for line in body.splitlines() if line.startswith("$ ")]


def test_every_block_has_a_kind_that_is_tested():
    assert {kind for kind, _ in blocks(READ)} <= KINDS


def test_the_pages_run_as_they_are_read(fedlapse, tmp_path):
    """Files are written, then commands run in the folder that holds them; cut to one round of one epoch and seed."""
    ran = []
    for kind, body in blocks(READ):
        named = re.search(r"^# (\S+\.(?:yaml|py))$", body, re.MULTILINE)
        if kind == "yaml" and not named:
            assert check_with(body, fedlapse, tmp_path).returncode == 0, body
            continue
        if kind in ("yaml", "python"):
            assert named, f"a block that names no file: {body[:40]}"
            (tmp_path / named[1]).write_text(body, encoding="utf-8")
        for command in commands(body) if kind == "console" else []:
            if command[0] == "make":  # what CI runs
                assert f"{command[1]}:" in (ROOT / "Makefile").read_text(encoding="utf-8")
                continue
            if command[0] in ("pipx", "docker"):  # tests/test_distribution.py builds what they are given
                continue
            assert command[0] == "fedlapse"
            if "logs/" in command:
                beside_the_farm(tmp_path)
            if command[1] == "--help":
                continue
            done = fedlapse(*command[1:], *cut(command[1], command))
            assert done.returncode in ((0, 1) if command[1] == "diff" else (0, 3)), (command, done.stderr)
            ran.append(command[1])
    assert {"new", "check", "compare", "run", "report", "diff", "audit", "trace", "replay", "map"} <= set(ran)


@pytest.mark.parametrize(("page", "most"), [("ledger.md", 4), ("study.md", 2)])
def test_the_commands_of_a_page_run(page, most, fedlapse, tmp_path, monkeypatch):
    """A study itself takes minutes: tests/emulator/commands has one."""
    monkeypatch.setenv("FEDLAPSE_LEDGER", str(tmp_path / "ledger"))
    assert fedlapse("compare", *BARE, "algorithms=[fedavg]").returncode == 0
    said = (ROOT / "docs" / page).read_text(encoding="utf-8")
    told = [command for kind, body in blocks(said) if kind == "console" for command in commands(body)]
    done = [fedlapse(*command[1:]) for command in told[:most]]
    assert [each.stderr for each in done if each.returncode] == []
    assert len(done) == most


def check_with(part, fedlapse, folder):
    """`check` of the tutorial's scenario with these keys; my-board is measured as a pi-4."""
    rows = (ROOT / "devices" / "profiles.csv").read_text(encoding="utf-8").splitlines()
    board = [row.replace("pi-4,", "my-board,", 1) for row in rows if row.startswith("pi-4,")]
    (folder / "mine.csv").write_text("\n".join([*(row for row in rows if row.startswith("name,")), *board]))
    farm = next(body for kind, body in blocks(TUTORIAL) if kind == "yaml")
    yaml = YAML()
    whole = yaml.load(farm)
    whole.update(yaml.load(part))
    with (folder / "part.yaml").open("w", encoding="utf-8") as file:
        yaml.dump(whole, file)
    return fedlapse("check", "part.yaml")


def beside_the_farm(folder):
    """A folder of recordings and a scenario, which a reader has and the pages do not make."""
    (folder / "logs").mkdir()
    (folder / "logs" / "lte.csv").write_bytes((folder / "lte.csv").read_bytes())
    (folder / "other.yaml").write_bytes((folder / "farm.yaml").read_bytes())


def cut(name, command):
    rounds = [] if "--rounds" in command else ["--rounds", "1"]
    short = [*SHORT[name], *rounds, "--seed", "1"] if name in SHORT else []
    return [*short, "--speedup", "3"] if "sockets" in command else short


def test_the_scenario_of_the_tutorial_shows_what_it_explains():
    text = next(body for kind, body in blocks(TUTORIAL) if kind == "yaml")
    scenario = parse(text, "tutorial.md")
    assert scenario.fleet[0].link.down_mbit_s.lognormal
    assert scenario.algorithms[1].name == "fedcl-n10"
    assert scenario.expect


def test_the_break_even_lines_of_the_tutorial_are_those_of_check(fedlapse, tmp_path):
    (tmp_path / "farm.yaml").write_text(next(body for kind, body in blocks(TUTORIAL) if kind == "yaml"))
    shown = next(body for kind, body in blocks(TUTORIAL) if kind == "text")
    printed = " ".join(fedlapse("check", "farm.yaml").stdout.split())
    lines = re.split(r"\n  (?=a )", shown.strip())[1:]
    assert len(lines) == 2
    assert [line for line in lines if " ".join(line.split()) not in printed] == []


def test_every_page_of_the_docs_is_in_the_index():
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    found = [page for ending in ("md", "ipynb") for page in (ROOT / "docs").rglob(f"*.{ending}")]
    pages = {str(page.relative_to(ROOT / "docs")) for page in found} - {"index.md"}
    assert pages - set(re.findall(r"\]\(([^)#]+)", index)) == set()


def test_strength_0_of_the_how_to_algorithm_is_fedavg_bit_for_bit(fedlapse, tmp_path):
    text = next(body for kind, body in blocks(HOW_TO) if kind == "python")
    (tmp_path / "mine.py").write_text(text, encoding="utf-8")
    both = 'algorithms=[fedavg, {"mine:Mine": {strength: 0.0}, name: zero}, {"mine:Mine": {strength: 5.0}, name: five}]'
    done = fedlapse("compare", both, *BARE)
    assert done.returncode == 0, done.stderr
    models = {name: (tmp_path / "o" / f"{name}-s1" / "final.safetensors").read_bytes() for name in ("fedavg", "zero")}
    assert models["zero"] == models["fedavg"]
    assert (tmp_path / "o" / "five-s1" / "final.safetensors").read_bytes() != models["fedavg"]


def test_links_lead_somewhere():
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\((?!http)([^)#]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_blocks_of_docs_are_what_they_say(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "example"))
    seen = 0
    for page in {*(ROOT / "docs").glob("*.md")} - {ROOT / "docs" / "how-to.md"}:  # whose blocks are played
        for kind, body in blocks(page.read_text(encoding="utf-8")):
            if kind == "toml":
                assert tomllib.loads(body)["project"]["entry-points"]["fedlapse.algorithms"]
                seen += 1
            if kind == "yaml":
                said = YAML(typ="safe", pure=True).load(body)
                if "fleet" in said:
                    assert machines.fleet(parse(body, str(page)))[1]
                    continue
                fleet = "fleet: [{profile: pi-4, link: {up_mbit_s: 1, down_mbit_s: 1}}]"
                if "algorithms" not in said:
                    assert parse(f"name: x\n{fleet}\nalgorithms: [fedavg]\n{body}", str(page))
                    continue
                entries = said["algorithms"]
                named = [entry for entry in entries if entry != "holdhead"]  # that one needs the package installed
                assert len(parse(f"name: x\n{fleet}\nalgorithms: {named}\n", str(page)).algorithms) == 3
                seen += 1
    assert seen == 2


def test_the_pictures_are_pictures():
    for name in re.findall(r"!\[[^\]]+\]\(([^)]+)\)", README):
        assert (ROOT / name).read_bytes().startswith(b"\x89PNG")
        assert (ROOT / name).stat().st_size < 500_000


@pytest.mark.parametrize(("path", "off"), [("clipped:Clipped", "{norm: 0.0}"), ("partway:PartWay", "{step: 1.0}")])
def test_an_algorithm_of_the_docs_does_something_and_can_be_switched_off(path, off, fedlapse, tmp_path):
    for kind, body in blocks((ROOT / "docs" / "extending.md").read_text(encoding="utf-8")):
        if kind == "python":
            (tmp_path / re.search(r"^# (\S+\.py)$", body, re.MULTILINE)[1]).write_text(body, encoding="utf-8")
    both = f'algorithms=[fedavg, {{"{path}": {off}, name: off}}, {{"{path}": {{}}, name: on}}]'
    done = fedlapse("compare", both, *BARE)
    assert done.returncode == 0, done.stderr
    models = {
        name: (tmp_path / "o" / f"{name}-s1" / "final.safetensors").read_bytes() for name in ("fedavg", "off", "on")
    }
    assert models["off"] == models["fedavg"] != models["on"]
