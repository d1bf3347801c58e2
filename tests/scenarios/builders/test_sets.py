"""Data sets that a scenario names in one line."""

import json

import numpy as np
import pytest
from PIL import Image

from emulator.lab.build import lab_of
from emulator.ledger.key import Keys
from scenarios.builders import machines, parts
from scenarios.load import BadScenario, build
from tests.conftest import SMALL, merged

OWN = """
import numpy as np
from devices.data.dataset import Dataset

rng = np.random.default_rng(0)
X, Y = rng.random((120, 1, 8, 8), np.float32), np.arange(120) % 10

class Mine:
    def __len__(self):
        return 100
    def __getitem__(self, k):
        return X[k], int(Y[k])

def arrays(n=120):
    return X[:n], Y[:n]

def dataset():
    return Mine()

def ready():
    return Dataset("ready", X[:100], Y[:100], X[100:], Y[100:], 10)

def owned():
    return {"x": X, "y": Y, "owner": Y % 4, "x_test": X, "y_test": Y}

def nothing():
    pass

class Broken(Mine):
    def __getitem__(self, k):
        raise KeyError(k)
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    (tmp_path / "brought.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def data(**says):
    return parts.dataset(build(merged(SMALL, {"data": says})))


def test_what_a_function_returns_is_recognised(here):
    assert [len(data(set=f"brought:{name}").y) for name in ("arrays", "dataset", "ready")] == [96, 80, 100]
    assert len(data(set="brought:arrays", options={"n": 30}, test=0.1).y) == 27


def test_a_dataset_of_ones_own_may_be_transformed(here):
    shrunk = data(set="brought:ready", transform=[{"Resize": 4}])
    assert (shrunk.x.shape, shrunk.x_test.shape) == ((100, 1, 4, 4), (20, 1, 4, 4))


def test_a_folder_of_images_of_several_sizes_is_resized(here):
    for name in ("cat", "dog"):
        (here / "pets" / name).mkdir(parents=True)
        for size in range(5, 10):
            Image.new("RGB", (size, 6), "red").save(here / "pets" / name / f"{size}.png")
    found = data(set="folder:pets", transform=[{"Resize": [4, 4]}, "Grayscale"])
    assert (found.x.shape, len(found.y_test), found.classes) == ((8, 1, 4, 4), 2, 2)
    with pytest.raises(BadScenario, match=r"data\.set: folder:pets: example 1 has shape .*Resize"):
        data(set="folder:pets")


def table(folder, rows=120):
    lines = [f"{k},{k / 7},{'abcd'[k % 4]},{'yes' if k % 3 else 'no'}" for k in range(rows)]
    (folder / "t.csv").write_text("\n".join(["warm,wet,owner,label", *lines]))


def test_a_table_has_owners_for_a_natural_split_who_keep_their_names(here):
    table(here)
    says = {"set": "file:t.csv", "test": 0.2, "split": {"kind": "natural", "least": 1}, "validation": 0}
    scenario = build(merged(SMALL, {"data": says}))
    found = parts.dataset(scenario)
    assert (found.x.shape, found.classes, set(found.owners)) == ((96, 2), 2, set("abcd"))
    held = parts.split(scenario, found, machines.fleet(scenario)[0], np.random.default_rng(1))
    assert sorted(held["owners"].values()) == list("abcd")
    for name, owner in held["owners"].items():
        (train,), (tests,) = held["train"][name], held["tests"][name]
        warm = [*found.x[train, 0].tolist(), *found.x_test[tests, 0].tolist()]
        assert sorted(warm) == list(range("abcd".index(owner), 120, 4))


def test_test_examples_that_are_nobodys_are_dealt_by_label(here):
    (here / "brought2.py").write_text(
        OWN + "def owned():\n    return dict(x=X, y=Y, owner=Y % 4, x_test=X, y_test=Y)\n"
    )
    scenario = build(merged(SMALL, {"data": {"set": "brought2:owned", "split": {"kind": "natural", "least": 1}}}))
    found = parts.dataset(scenario)
    held = parts.split(scenario, found, machines.fleet(scenario)[0], np.random.default_rng(1))
    for name, owner in held["owners"].items():
        (tests,) = held["tests"][name]
        assert len(tests) >= 24  # a quarter of 120, unless there are fewer with its labels
        assert set(found.y_test[tests] % 4) == {int(owner)}
    with pytest.raises(BadScenario, match="proxy.owners needs the owners of the test examples too"):
        parts.split(
            build(merged(SMALL, {"data": {**scenario.data.model_dump(mode="json"), "proxy": {"owners": 2}}})),
            *(found, machines.fleet(scenario)[0], np.random.default_rng(1)),
        )


def test_a_torchvision_class_takes_its_options_and_a_transform():
    found = data(
        set="torchvision:FakeData",
        options={"size": 20, "image_size": [3, 9, 9], "num_classes": 4},
        transform=["Grayscale", {"Resize": [8, 8]}],
    )
    assert (found.x.shape, found.x_test.shape[0], found.x.dtype) == ((16, 1, 8, 8), 4, np.float32)
    assert 0 <= found.x.min() <= found.x.max() <= 1


@pytest.mark.parametrize(
    ("says", "said"),
    [
        ({"set": "torchvision:Nothing"}, "torchvision.datasets has no class 'Nothing'"),
        ({"set": "torchvision:FakeData", "options": {"sice": 3}}, "unexpected keyword argument 'sice'"),
        ({"set": "folder:nowhere"}, "nowhere"),
        ({"set": "file:nowhere.csv"}, "nowhere.csv"),
        ({"set": "file:t.csv", "options": {"path": "x"}}, "there is no option 'path'; it must be one of test"),
        ({"set": "folder:pets", "options": {"test": "x"}}, "there is no option 'test'; folder:pets takes none"),
        ({"set": "file:t.csv", "columns": {"y": "kind"}}, "file:t.csv: it has no column 'kind'; it has warm, wet"),
        ({"set": "file:t.csv", "options": {"test": "u.csv"}}, "u.csv"),
        ({"set": "brought:nothing"}, "brought:nothing: it is a NoneType; it must be a devices"),
        ({"set": "brought:Broken"}, "brought:Broken: KeyError: 0"),
    ],
)
def test_what_cannot_be_read_says_why(here, says, said):
    table(here)
    with pytest.raises(BadScenario, match=said) as error:
        data(**says)
    assert "\n" not in str(error.value)


def test_a_changed_file_is_another_key(here):
    def key():
        says = {"set": "file:a.npz", "split": {"kind": "file", "path": "split.json"}}
        lab = lab_of(build(merged(SMALL, {"data": says, "model": "mlp"})))
        parts = Keys(lab, "numerics", {"": "", "fedavg": ""})
        return parts._data("train"), parts._once(lambda: lab.held(1, lab.names[0], 0).tolist(), "held")

    rng = np.random.default_rng(1)
    values, labels = rng.random((80, 1, 28, 28), np.float32), np.arange(80) % 10
    found = []
    for scale, shift in ((1, 0), (0.5, 0), (1, 1), (1, 0)):
        np.savez(here / "a.npz", x=values * np.float32(scale), y=labels, x_test=values, y_test=labels)
        (here / "split.json").write_text(json.dumps([[k + shift, k + 9, k + 20] for k in range(4)]))
        found.append(key())
    assert found[0] == found[3]
    assert found[0][0] != found[1][0]
    assert found[0][1] != found[2][1]
