"""Data sets of Hugging Face and Flower themselves, if they are installed; nothing is downloaded or sent."""

import os

import numpy as np
import pytest
from PIL import Image

from devices.data.recognised import recognised
from tests.all_of import all_of

os.environ["FLWR_TELEMETRY_ENABLED"] = "0"
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # theirs
WHY = "is not installed, so fedlapse is tried with stubs of it only: pip install datasets flwr-datasets"
PIXELS = np.random.default_rng(1).integers(0, 256, (40, 4, 5, 3), dtype=np.uint8)
LABELS, WRITERS = [k % 3 for k in range(40)], [f"writer-{k % 4}" for k in range(40)]


def hugging_face(some=slice(None)):
    datasets = pytest.importorskip("datasets", reason=f"datasets {WHY}")
    features = datasets.Features(
        {"image": datasets.Image(), "label": datasets.ClassLabel(num_classes=5), "writer": datasets.Value("string")}
    )
    images = [Image.fromarray(pixels) for pixels in PIXELS[some]]
    columns = {"image": images, "label": LABELS[some], "writer": WRITERS[some]}
    return datasets.Dataset.from_dict(columns, features=features)


def test_a_data_set_of_hugging_face_has_its_images_classes_and_owners():
    data = recognised("t", hugging_face(), {"owner": "writer"}, 0)
    np.testing.assert_allclose(data.x, np.moveaxis(PIXELS, -1, 1) / np.float32(255))
    assert (data.y.tolist(), data.classes) == (LABELS, 5)
    assert [data.owners[k] for k in data.owner] == WRITERS


def test_a_dict_of_hugging_face_has_its_test_split():
    datasets = pytest.importorskip("datasets", reason=f"datasets {WHY}")
    both = datasets.DatasetDict({"train": hugging_face(slice(30)), "test": hugging_face(slice(30, 40))})
    data = recognised("t", both, {}, 0.5)
    assert (data.y.tolist(), data.y_test.tolist()) == (LABELS[:30], LABELS[30:])


def test_columns_with_a_format_of_torch_are_the_same():
    data = recognised("t", hugging_face().select_columns(["image", "label"]).with_format("torch"), {}, 0)
    np.testing.assert_allclose(data.x, np.moveaxis(PIXELS, -1, 1) / np.float32(255))


@pytest.mark.parametrize("kind", ["IidPartitioner", "DirichletPartitioner", "NaturalIdPartitioner"])
def test_each_partition_of_flower_is_an_owner(kind):
    partitioners = pytest.importorskip("flwr_datasets.partitioner", reason=f"flwr_datasets {WHY}")
    said = {
        "IidPartitioner": {"num_partitions": 4},
        "DirichletPartitioner": {"num_partitions": 4, "partition_by": "label", "alpha": 1.0, "min_partition_size": 1},
        "NaturalIdPartitioner": {"partition_by": "writer"},
    }[kind]
    partitioner = getattr(partitioners, kind)(**said)
    partitioner.dataset = hugging_face()
    data = recognised("t", partitioner, {}, 0)
    assert sorted(data.owners) == ([f"writer-{k}" for k in range(4)] if "Natural" in kind else list("0123"))
    wanted = [[row["label"] for row in partitioner.load_partition(k)] for k in range(4)]
    held = [data.y[data.owner == k].tolist() for k in range(4)]
    assert held == wanted
    assert all_of(held)


def test_a_federated_data_set_of_flower_has_its_test_split(monkeypatch):
    flower = pytest.importorskip("flwr_datasets", reason=f"flwr_datasets {WHY}")
    datasets = pytest.importorskip("datasets", reason=f"datasets {WHY}")
    both = datasets.DatasetDict({"train": hugging_face(slice(30)), "test": hugging_face(slice(30, 40))})
    monkeypatch.setattr(datasets, "load_dataset", lambda **_: both)  # which would download it
    federated = flower.FederatedDataset(dataset="mnist", partitioners={"train": 4}, shuffle=False)
    data = recognised("t", federated, {}, 0.5)
    assert (data.owners, data.owner_test, data.y_test.tolist()) == (tuple("0123"), None, LABELS[30:])
    assert len(data.y) == 30
