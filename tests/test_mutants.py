"""The list of planted faults is up to date; `make mutants` plants them."""

import ast

import pytest

from tests.mutants import MUTANTS, ROOT, Mutant, planted


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.what)
def test_each_fault_can_be_planted_and_has_a_test_beside_its_file(mutant: Mutant) -> None:
    assert planted(mutant) != (ROOT / mutant.file).read_text(encoding="utf-8")
    ast.parse(planted(mutant))
    assert all((ROOT / test.partition("::")[0]).exists() for test in mutant.tests.split())


def test_each_fault_is_planted_once() -> None:
    assert len({mutant.what for mutant in MUTANTS}) == len(MUTANTS)
