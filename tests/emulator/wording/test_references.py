"""What a paper is told to cite: each algorithm's own paper, once, and nothing for code that is the user's."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from emulator.results.results import Results
from emulator.wording.references import ESTIMATES, PAPERS, cited
from scenarios.load import build
from scenarios.schema.known import algorithms
from tests.all_of import all_of
from tests.conftest import SMALL, merged

ENTRY = re.compile(r"@(\w+)\{(\w+),\n((?:  \w+ = \{.*\},\n)+)\}")


def told(host: dict[str, Any] | None = None, **changes: Any) -> str:
    scenario = build(merged(SMALL, changes))
    return "\n\n".join(cited(Results(Path("out"), scenario, "", host or {}, {"digest": "abc"}, None, {})))


def test_no_algorithm_is_left_out() -> None:
    assert PAPERS.keys() == set(algorithms())


@pytest.mark.parametrize("paper", dict.fromkeys([*PAPERS.values(), *ESTIMATES.values()]), ids=lambda paper: paper.key)
def test_a_reference_is_valid_bibtex(paper: Any) -> None:
    (found,) = ENTRY.findall(paper.bibtex())
    fields = dict(re.findall(r"(\w+) = \{(.*)\},", found[2]))
    assert {"author", "title", "year"} <= fields.keys()
    assert found[1].startswith(re.sub(r"\W", "", fields["author"].split(" and ")[0].split()[-1]).lower())
    assert fields["year"] in found[1]
    assert all_of(text.count("{") == text.count("}") for text in fields.values())
    assert re.fullmatch(r"\d{4}\.\d{5}", fields.get("eprint", "1602.05629"))


def test_each_paper_is_listed_once_and_where_it_is_used() -> None:
    labels = [{"fedcl": {}, "name": "a_1"}, {"fedcl": {"importance": "mas"}, "name": "b"}, "fedavg"]
    text = told(algorithms=labels)
    keys = [key for _, key, _ in ENTRY.findall(text)]
    assert keys == ["yao2020continual", "aljundi2018memory", "mcmahan2017communication", "fedlapse"]
    said = r"We compared a\_1 \cite{yao2020continual}, b \cite{yao2020continual,aljundi2018memory} and fedavg \cite{mc"
    assert text.startswith(said)


@pytest.mark.parametrize(
    ("task", "metric", "said"),
    [
        ("classification", "accuracy", "test accuracy 0.9"),
        ("classification", "validation", "validation accuracy 0.9"),
        ("regression", "mse", "test mse 0.9"),
        ("regression", "personalised", "personalised mse 0.9"),
    ],
)
def test_a_target_is_named_by_the_metric_of_its_task(task: str, metric: str, said: str) -> None:
    targets = [{"metric": metric, "value": 0.9}]
    text = told(task=task, rounds={"max": 5, "targets": targets}, data={"set": "digits", "validation": 0.1})
    assert f"the virtual time until {said}." in text


def test_a_paper_at_a_conference_is_in_its_proceedings() -> None:
    kinds = {paper.key: paper.bibtex().partition("{")[0] for paper in PAPERS.values()}
    assert kinds["wang2024tackling"] == kinds["mcmahan2017communication"] == "@inproceedings"
    assert kinds["kim2020agent"] == kinds["shoham2019overcoming"] == "@misc"


def test_own_code_has_no_paper_here() -> None:
    text = told(algorithms=["fedavg", {"algorithms.fedavg:FedAvg": {}, "name": "mine"}])
    assert "% mine: not part of fedlapse" in text
    assert r"and mine with fedlapse" in text


def test_versions_are_those_that_ran() -> None:
    text = told(host={"versions": {"fedlapse": "0.0.9", "torch": "2.9.0"}})
    assert "Versions: fedlapse 0.0.9, torch 2.9.0.\nDigest of the records: abc." in text
    assert "with fedlapse 0.0.9 " in text
    assert "  version = {0.0.9},\n" in text
    assert "Versions: not recorded." in told()
