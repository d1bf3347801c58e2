"""The facts about algorithms that are known without importing them."""

import json
import subprocess
import sys

import pytest

from algorithms.models import MODELS
from scenarios.builders import plugins
from scenarios.builders.sets import SETS
from scenarios.load import parse
from scenarios.schema import known
from scenarios.schema.entries import Entry
from scenarios.schema.training import Training
from scenarios.text.faults import BadScenario

VALUES = [True, 1, 0.5, "auto", "identity", "paper", "float32", {"lr": 0.5}, {}, None, [1]]


def test_all_that_can_be_named_is_known():
    assert known.models() == sorted(MODELS)
    assert known.sets() == sorted(SETS)
    assert set(known.algorithms()) == {
        name for name, kind in plugins.kinds().items() if "algorithms." in kind.__module__
    }


@pytest.mark.parametrize("algorithm", known.algorithms())
def test_what_an_algorithm_takes_is_never_refused_before_it_is_asked(algorithm):
    options = known.options(algorithm)
    for name in options.model_fields:
        for value in VALUES:
            entry = Entry(key=algorithm, options={name: value}, name="x")
            if not plugins.faults(entry, Training(), ()):
                assert options.model_validate_json(json.dumps({name: value}))


@pytest.mark.parametrize("wrong", ["strengthh", "training: {lrr: 1}, interval", "importance: squared, interval"])
def test_slips_in_the_options_are_reported_together_with_others(wrong):
    entry = f"{{fedcl: {{{wrong}: 1}}}}"
    with pytest.raises(BadScenario) as caught:
        parse(
            f"name: t\nfleeet: 1\nfleet: [{{profile: pi-4, link: {{radio: wifi}}}}]\nalgorithms: [{entry}]\n", "t.yaml"
        )
    assert "fleeet: unknown key" in str(caught.value)
    assert str(caught.value).count("t.yaml:") == 2


@pytest.mark.slow
@pytest.mark.parametrize("slip", ["roundss.max=3", "algorithms.fedcl.intervall=3", "model=digits_cnn", "seeds=[]"])
@pytest.mark.parametrize("command", ["check", "compare"])
def test_a_slip_costs_no_import_of_torch(command, slip):
    program = (
        "import sys\nfrom emulator.__main__ import main\n"
        f"sys.argv = ['fedlapse', '{command}', 'quickstart', '{slip}']\n"
        "try:\n    main()\nexcept SystemExit as end:\n    print(end.code, 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.stdout == "2 False\n", done.stderr
    assert done.stderr.startswith("fedlapse: ")
