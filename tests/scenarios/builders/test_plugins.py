"""Algorithms that a scenario may name."""

from dataclasses import dataclass
from importlib.metadata import EntryPoint

import pytest
from ruamel.yaml import YAML

from algorithms.fedavg import FedAvg
from algorithms.fedprox import FedProx
from scenarios.builders import plugins
from scenarios.builders.plugins import UnknownName, kind, kinds
from scenarios.load import BadScenario, build
from scenarios.schema.entries import Entry
from scenarios.schema.known import GROUP
from scenarios.schema.training import Training
from tests.conftest import SMALL


@pytest.fixture
def installed(monkeypatch):
    """Entry points, as installed packages give them."""

    def install(**points):
        made = [EntryPoint(name, value, GROUP) for name, value in points.items()]
        wanted = lambda group, name=None: [p for p in made if name in (None, p.name)]  # noqa: E731
        monkeypatch.setattr(plugins, "entry_points", wanted)
        kinds.cache_clear()

    yield install
    monkeypatch.undo()
    kinds.cache_clear()


def test_those_that_come_along_are_known_by_their_files():
    assert {"fedavg", "fedprox", "fedcl", "fedcurv"} <= kinds().keys()


def test_an_entry_point_gives_an_algorithm_its_name(installed):
    installed(mean="algorithms.fedavg:FedAvg")
    assert kind("mean") is kind("fedavg")


def test_what_comes_along_keeps_its_name(installed):
    installed(fedavg="algorithms.fedprox:FedProx")
    assert kind("fedavg").__name__ == "FedAvg"


def test_a_broken_entry_point_stops_only_who_names_it(installed):
    installed(broken="no_such_package.x:Y")
    assert "broken" not in kinds()
    assert kind("fedavg").__name__ == "FedAvg"
    with pytest.raises(UnknownName, match="No module named 'no_such_package'"):
        kind("broken")


# --- slips in an algorithm's class ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Misspelt(FedAvg):
    def trian(self, download, device):
        raise NotImplementedError


class Undecorated(FedAvg):
    strength: float = 0.5


@dataclass(frozen=True)
class Untyped(FedAvg):
    step = 0.5


@dataclass(frozen=True)
class Ignored(FedProx):
    mu = 0.5


@dataclass(frozen=True)
class Sound(FedAvg):
    strength: float = 0.5
    LIMIT = 3
    downloads = ("weights", "more")

    def train(self, download, device):
        return super().train(download, device)

    def trained(self):
        """Near `train`, but that is there."""

    def distance(self):
        """Near nothing."""


def at(own):
    return f"{own.__module__}:{own.__name__}"


@pytest.mark.parametrize(
    ("own", "words"),
    [
        (Misspelt, r"has a method trian\(\); did you mean train\(\)\?"),
        (Undecorated, r"write @dataclass\(frozen=True\) above `class Undecorated`"),
        (Ignored, r"does not change the option; annotate it: `mu: float = 0.5`"),
    ],
)
def test_what_python_takes_silently_is_refused(own, words):
    with pytest.raises(UnknownName, match=words):
        kind(at(own))


def test_helpers_constants_and_kinds_of_ones_own_are_fine():
    assert kind(at(Sound)) is Sound


def test_every_algorithm_that_comes_along_is_free_of_slips():
    for own in kinds().values():
        assert kind(at(own)) is own


def test_the_help_of_an_inherited_option_stands_in_its_base():
    @dataclass(frozen=True)
    class Near(FedProx):
        mu: float = 0.2

    said = plugins.options(FedProx)["properties"]["mu"]
    assert plugins.options(Near)["properties"]["mu"] == {**said, "default": 0.2}
    assert said["description"]


def test_an_option_without_a_type_is_told_as_one():
    with pytest.raises(BadScenario, match=r"Untyped has it without a type.*annotate it: `step: float = 0.5`"):
        build({**SMALL, "algorithms": [{at(Untyped): {"step": 1.0}}]})


def test_what_is_no_option_is_not_proposed():
    with pytest.raises(
        BadScenario, match=r"unknown key 'zzz'; it must be one of encoding, rounds, selection, strength, training$"
    ):
        build({**SMALL, "algorithms": [{at(Sound): {"zzz": 1.0}}]})


def test_a_module_that_is_nowhere_is_told_with_where_it_was_looked_for():
    with pytest.raises(UnknownName, match=r"in Python's path; start it in the folder of no_such_module\.py$"):
        kind("no_such_module:Thing")
    with pytest.raises(UnknownName, match=r"it must be package.module:name"):
        kind("algorithms.fedavg:Nothing")


def test_a_module_that_lacks_another_is_told_as_that(tmp_path, monkeypatch):
    (tmp_path / "needy_one.py").write_text("import no_such_module\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UnknownName, match="No module named 'no_such_module'; 'needy_one' imports it"):
        kind("needy_one:Thing")


def test_kinds_that_are_made_options_are_told(tmp_path, monkeypatch):
    text = "from dataclasses import dataclass\nfrom algorithms.fedavg import FedAvg\n\n\n@dataclass(frozen=True)\n"
    (tmp_path / "made_options.py").write_text(f"{text}class Up(FedAvg):\n    uploads: tuple = ('weights',)\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UnknownName, match=r"no options: give them the type ClassVar"):
        kind("made_options:Up")


def encoded(options, key="fedcurv"):
    entry = Entry(key=key, options=options, name="x")
    return plugins.encoding(entry, plugins.algorithm(entry, Training()))


def test_squares_beside_what_loses_are_bfloat16_and_their_int8_is_that_of_roots():
    found = encoded({"encoding": {"up": {"weights": "int8"}}})
    assert found.up == {"weights": "int8", "fisher": "bfloat16", "fisher_theta": "bfloat16"}
    assert encoded({"encoding": {"up": {"fisher": "int8", "fisher_theta": "float32"}}}).up == {"fisher": "int8-sqrt"}
    assert encoded({"encoding": {"down": {"weights": "float16"}}}).up == {}
    assert encoded({"keep": 0.1}).up == encoded({"keep": 0.1}).down == {"fisher": "sparse", "fisher_theta": "sparse"}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"encoding": {"up": {"weigths": "int8"}}}, "sends no 'weigths' up; did you mean weights"),
        ({"encoding": {"up": {"weights": "int9"}}}, "int9"),
        ({"encoding": {"up": {"weights": 8}}}, "string"),
        ({"encoding": {"sideways": {}}}, "unknown key 'sideways'; it must be one of down, up"),
    ],
)
def test_an_encoding_that_there_is_not_is_refused_by_name(options, said):
    (fault,) = plugins.faults(Entry(key="fedcurv", options=options, name="x"), Training(), ())
    assert said in fault.message


def test_a_preset_trains_as_it_says_unless_the_entry_says_otherwise():
    shared = Training(epochs=3, lr=0.1, momentum=0.5)
    code = Entry(key="fedcl", options={"preset": "author_code"}, name="x")
    own = Entry(key="fedcl", options={"preset": "author_code", "training": {"momentum": 0.0}}, name="x")
    found = plugins.training_of(code, shared)
    assert (found.epochs, found.lr, found.momentum, found.lr_schedule, found.lr_rounds) == (
        3,
        0.005,
        0.9,
        "cosine",
        500,
    )
    assert plugins.training_of(own, shared).momentum == 0.0
    assert plugins.algorithm(code, shared).importance == "tensor_scalar"


def test_no_choice_of_an_option_is_a_word_that_yaml_reads_as_something_else():
    """`fisher: true` would be a truth value, and never the choice of that name."""
    yaml = YAML(typ="safe", pure=True)
    for key, own in kinds().items():
        for name, said in plugins.options(own)["properties"].items():
            for choice in said.get("enum", ()):
                assert yaml.load(f"{name}: {choice}") == {name: choice}, f"{key}.{name}"


@pytest.mark.parametrize(
    ("optimizer", "said"),
    [
        ("torch.optim:Adagrad", []),
        ("torch.optim:Adagard", ["cannot find 'torch.optim:Adagard'"]),
        ("torch.optim:LBFGS", ["torch.optim:LBFGS takes no step on a matrix: TypeError"]),
    ],
)
def test_an_optimiser_of_ones_own_is_tried_before_any_run(optimizer, said):
    from scenarios.schema import training as schema
    from scenarios.schema.entries import Entry

    shared = schema.Training(optimizer=optimizer)
    found = plugins.faults(Entry.model_validate("fedavg"), shared, ("algorithms", 0))
    assert [fault.loc for fault in found] == [("training", "optimizer")] * len(said)
    assert [fault.message.startswith(words) for fault, words in zip(found, said, strict=True)] == [True] * len(said)
