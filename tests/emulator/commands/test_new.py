"""For each fleet and each template `fedlapse new` writes a scenario that can be read."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from emulator.__main__ import app
from scenarios.builders.assumed import assumptions
from scenarios.load import load

RUNNER = CliRunner()


@pytest.mark.parametrize("study", [(), ("--study",)])
@pytest.mark.parametrize(
    ("fleet", "profiles"),
    [
        ((), ["phone-mid", "pi-4"]),
        (("--phones",), ["phone-high", "phone-mid", "phone-low"]),
        (("--pis",), ["pi-4", "pi-5"]),
        (("--lte",), ["phone-mid", "phone-low", "phone-low"]),
        (("--lte", "--pis"), ["pi-4", "pi-5", "phone-mid", "phone-low", "phone-low"]),
        (("--lte", "--phones"), ["phone-high", "phone-mid", "phone-low", "phone-mid", "phone-low", "phone-low"]),
    ],
)
def test_each_fleet_is_a_scenario(
    fleet: tuple[str, ...], profiles: list[str], study: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = RUNNER.invoke(app, ["new", "mine", *fleet, *study])
    assert done.exit_code == 0, done.output
    made = load("mine.yaml", algorithms=False)
    assert made.name == "mine"
    assert [group.profile for group in made.fleet] == profiles
    assert (made.study is not None) == bool(study)
    assert not [said for said in assumptions(made) if "not used" in said]
    text = (tmp_path / "mine.yaml").read_text()
    assert text.count("\nfleet:") == text.count("\nserver:") == 1


def test_a_schema_of_the_users_stays_unless_forced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    schema, mine = tmp_path / "scenario.schema.json", '{"properties": {"scene": {}}}'
    schema.write_text(mine)
    done = RUNNER.invoke(app, ["new", "mine"])
    assert (done.exit_code, schema.read_text(), (tmp_path / "mine.yaml").exists()) == (2, mine, False)
    assert "scenario.schema.json exists already, and is none of fedlapse's" in done.output
    assert RUNNER.invoke(app, ["new", "mine", "--force"]).exit_code == 0
    schema.write_text(schema.read_text().replace("A fleet, data, a model", "Another version"))
    assert RUNNER.invoke(app, ["new", "other"]).exit_code == 0  # its own file is brought up to date
    assert "Another version" not in schema.read_text()
