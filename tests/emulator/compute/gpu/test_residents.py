"""Uploads that stay on a GPU.  The CPU stands for one here, under its other name, cpu:0."""

import sys
import threading
from dataclasses import replace

import pytest
import torch

from algorithms import models
from algorithms.training.torch_lock import HANDED_OVER
from emulator.compute.crew import executor
from emulator.compute.executors import Inline
from emulator.compute.gpu import threaded
from emulator.compute.gpu.residents import Residents
from emulator.compute.gpu.threaded import Threaded
from emulator.lab import gpu, jobs, training
from emulator.lab.build import lab_of
from emulator.lab.lab import Lab
from emulator.messages import flat
from emulator.messages.codec import decode, encode
from emulator.messages.files import Drafts, Files, Memory
from emulator.messages.store import NOTHING, OTHERWISE
from emulator.record.run import Run
from network.wire import payload
from scenarios.load import build
from tests.all_of import all_of
from tests.conftest import SMALL, merged

HERE = "cpu:0"
RUN = Run("fedavg", 1)
FORM = {"weights": {"a": ("float32", (2, 3)), "b": ("float32", (4,))}}


@pytest.fixture(scope="module")
def lab() -> Lab:
    return lab_of(build(merged(SMALL, {"algorithms": ["fedavg", "fedcurv", "agentimportance"]})))


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch):
    monkeypatch.setattr(threaded.gpus, "use", lambda place: None)


def message(seed=1, **changes):
    generator = torch.Generator().manual_seed(seed)
    tensors = {"a": torch.randn(2, 3, generator=generator), "b": torch.randn(4, generator=generator)}
    return {"weights": tensors | changes}


def rounds(lab, inner, label, count=2):
    """The models after so many rounds of three devices."""
    run, found = Run(label, 1), []
    names = lab.names[:3]
    with inner:
        state = inner.submit(jobs.start, run).result()
        memory = dict.fromkeys(names, NOTHING)
        for round in range(count):
            down = inner.submit(jobs.request, run, round, state.message, names).result().download.ref
            done = [inner.submit(training.train, run, name, round, down, memory[name], True).result() for name in names]
            replies = {name: (each.upload.ref, each.examples) for name, each in zip(names, done, strict=True)}
            state = inner.submit(jobs.combine, run, round, state.message, replies, down).result()
            memory = {n: (d.kept_if_counted or d.kept).ref for n, d in zip(names, done, strict=True)}
            found.append(state.weights.digest)
    return found, done


@pytest.mark.slow
@pytest.mark.parametrize("label", ["fedavg", "fedcurv", "agentimportance"])
def test_the_models_are_the_same_to_the_bit(lab, label):
    wanted, plain = rounds(lab, Inline(lab), label)
    found, stay = rounds(lab, Threaded(replace(lab, trains_on=(HERE,))), label)
    assert found == wanted
    assert [each.upload.sizes for each in stay] == [each.upload.sizes for each in plain]
    assert [each.upload.ref.nbytes for each in stay] == [each.upload.ref.nbytes for each in plain]
    assert all_of(each.upload.ref.digest.startswith(OTHERWISE) for each in stay)
    assert len({each.upload.ref.digest for each in stay}) == len(stay)


@pytest.mark.slow
def test_where_several_processes_share_gpus_uploads_travel_under_the_same_names(lab, tmp_path):
    there = replace(lab, trains_on=(HERE,))
    store = Memory()
    down = jobs.request(there, store, RUN, 0, jobs.start(there, store, RUN).message, lab.names[:1]).download.ref
    residents = Residents([tmp_path])
    residents.put(*payload.trusted(store.get(down)).pieces)
    one = training.train(there, store, RUN, lab.names[0], 0, down, NOTHING, False).upload
    other = training.train(there, residents, RUN, lab.names[0], 0, down, NOTHING, False).upload
    assert (one.ref, one.sizes) == (other.ref, other.sizes)
    assert bytes(store.get(one.ref)) == bytes(residents.get(other.ref))


@pytest.mark.parametrize("workers", [0, 1])
def test_one_process_on_a_gpu_is_this_one(lab, workers):
    with executor(replace(lab, trains_on=(HERE,)), workers) as made:
        assert isinstance(made, Threaded)


@pytest.mark.parametrize("chunk", [flat.CHUNK, 1])
def test_a_stack_is_shown_the_test_shards_at_once(lab, tmp_path, monkeypatch, chunk):
    """With a network of dense layers and images; losses but for rounding, and drifts in chunks, too."""
    monkeypatch.setattr(flat, "CHUNK", chunk)
    names, there = lab.names[:3], replace(lab, trains_on=(HERE,))
    found = []
    for each in (lab, there):
        folder = tmp_path / each.on
        folder.mkdir()
        store = Residents([folder])
        down = jobs.request(each, store, RUN, 0, jobs.start(each, store, RUN).message, names).download.ref
        found.append(training.train_stack(each, store, RUN, 0, names, [down] * 3, [NOTHING] * 3, True))
    for one, other in zip(*found, strict=True):
        assert len(one.learnt.personalised) == 1
        for wanted, hits in zip(one.learnt.personalised, other.learnt.personalised, strict=True):
            assert (hits.value, hits.counted) == (wanted.value, wanted.counted)
            assert hits.counted > 0
            assert hits.loss == pytest.approx(wanted.loss, rel=1e-5)
        assert one.learnt.numbers == other.learnt.numbers


def test_a_job_that_fails_fails_its_future_only(lab):
    def fails(_lab, _store):
        raise ValueError("broken")

    with Threaded(replace(lab, trains_on=(HERE,))) as there:
        assert isinstance(there.submit(fails).exception(), ValueError)
        assert there.submit(lambda _lab, _store, x: x + 1, 2).result() == 3


def waits(order, go):
    """A job that hands its work over, and waits for the GPU until `go` is set."""

    def job(_lab, _store):
        order.append("python")
        HANDED_OVER.set()
        assert go.wait(10)
        order.append("done")

    return job


def test_who_gives_a_thread_work_waits_until_the_gpu_has_it(lab, monkeypatch):
    """Not longer, not for what must wait for its turn, and until the end of a job that leaves a GPU nothing to do."""
    monkeypatch.setattr(threaded, "PATIENCE", 10.0)
    order, go = [], threading.Event()
    with Threaded(replace(lab, trains_on=(HERE,))) as there:
        first = there.submit(waits(order, go))
        assert order == ["python"]
        second = there.submit(lambda _lab, _store: order.append("second"))
        assert order == ["python"]
        go.set()
        assert (first.result(), second.result(), order) == (None, None, ["python", "done", "second"])
        HANDED_OVER.clear()
        assert there.submit(lambda _lab, _store: 3).done() or HANDED_OVER.is_set()


def test_and_not_longer_than_it_has_patience(lab, monkeypatch):
    monkeypatch.setattr(threaded, "PATIENCE", 0.001)
    go = threading.Event()
    with Threaded(replace(lab, trains_on=(HERE,))) as there:
        slow = there.submit(lambda _lab, _store: go.wait(10))
        assert not slow.done()
        go.set()
        assert slow.result()


def test_a_new_model_is_there_before_anybody_reads_it(lab, monkeypatch):
    """The combined model is evaluated and sent next, and nobody has to map and decode its file for this."""
    there, store = replace(lab, trains_on=(HERE,)), Memory()
    state = jobs.start(there, store, RUN)
    wanted = decode(store.get(state.weights))
    monkeypatch.setattr(gpu, "decode", None)
    for found in (gpu.brought(there, store, state.weights), gpu.own(there, store, state.weights)):
        assert found.keys() == wanted.keys()
        assert all_of(torch.equal(found["weights"][name], value) for name, value in wanted["weights"].items())


def test_it_stops_at_once_and_leaves_nothing(lab):
    interval = sys.getswitchinterval()
    there = Threaded(replace(lab, trains_on=(HERE,)))
    there.stop()
    there.__exit__(None, None, None)
    assert sys.getswitchinterval() == interval
    assert all_of(not scratch.path.exists() for scratch in there.scratch)


def test_a_message_reads_as_what_it_was_made_of():
    (found,) = flat.flattened([message()], FORM) or ()
    assert {name: value.tolist() for name, value in found["weights"].items()} == {
        name: value.tolist() for name, value in message()["weights"].items()
    }
    assert (len(found["weights"]), set(found["weights"] | {"c": torch.ones(1)})) == (2, {"a", "b", "c"})


@pytest.mark.parametrize(
    "other",
    [
        message(a=torch.zeros(3, 2)),
        message(b=torch.zeros(4, dtype=torch.float64)),
        message(b=torch.tensor([1.0, float("nan"), 2.0, 3.0])),
        message(b=torch.tensor([1.0, float("-inf"), float("inf"), 3.0])),
        message(c=torch.zeros(1)),
        {**message(), "more": {}},
        {},
    ],
)
def test_what_is_of_another_form_or_not_finite_goes_the_usual_way(other):
    assert flat.flattened([message(), other], FORM) is None


def test_a_sum_beyond_the_range_is_no_fault():
    assert flat.flattened([message(b=torch.full((4,), 3e38))], FORM) is not None


def named(*messages):
    found = flat.flattened(messages, FORM)
    assert found is not None
    return [each.ref.digest for each in flat.stored(Memory(), found, encode(messages[0]))]


def test_names_tell_messages_apart_and_depend_on_nothing_but_them():
    one, other = named(message(1), message(2))
    assert one != other
    assert named(message(1)) == [one]
    assert len(one) == 64
    swapped = message(1)["weights"]["b"][[1, 0, 2, 3]]
    last_bit = torch.nextafter(message(1)["weights"]["b"], torch.tensor(9.0))
    assert len({one, *named(message(1, b=swapped), message(1, b=last_bit))}) == 3


def test_the_sums_are_those_of_whole_numbers():
    """By hand, modulo 2^64."""
    row = message()["weights"]["b"]
    factors = [[int(number) for number in factor] for factor in flat._factors(4, "cpu")]
    wanted = [sum(f * int(b) for f, b in zip(factor, row.view(torch.int32), strict=True)) % 2**64 for factor in factors]
    assert [int(number) % 2**64 for number in flat._digests([row])[0]] == wanted
    assert all_of(number % 2 for factor in factors for number in factor)


@pytest.fixture
def store(tmp_path):
    return Residents([tmp_path])


def kept(store):
    messages = flat.flattened([message()], FORM)
    return flat.stored(store, messages or [], encode(message()))[0].ref


def test_it_is_there_as_long_as_somebody_holds_it(store, tmp_path):
    ref = kept(store)
    digest = ref.digest
    assert store.has(ref)
    assert store.tensors(ref) is not None
    assert not (tmp_path / digest).exists()
    again = replace(ref)
    del ref
    assert not store.has(again)
    with pytest.raises(KeyError):
        store.get(again)


@pytest.mark.parametrize("room", [False, True])
def test_its_bytes_are_those_that_would_have_been_sent(store, room):
    ref = kept(store)
    if room:
        store.make_room()
    assert bytes(store.get(ref)) == encode(message()).data
    assert len(store.get(ref)) == ref.nbytes
    assert torch.equal(decode(store.get(ref))["weights"]["a"], message()["weights"]["a"])


def test_others_are_in_files_as_ever(store, tmp_path):
    ref = store.put(b"some", b"thing")
    assert (tmp_path / ref.digest).read_bytes() == b"something"
    assert store.put(b"something") == ref
    assert store.tensors(ref) is None


def test_bytes_can_have_a_name_that_is_given(tmp_path):
    for store in (Memory(), Files([tmp_path])):
        ref = store.put(b"abc", digest="gpu1")
        assert (ref.digest, ref.nbytes, bytes(store.get(ref))) == ("gpu1", 3, b"abc")
    drafts = Drafts([tmp_path])
    assert drafts.put(b"abc", digest="gpu2").digest == "gpu2"


@pytest.mark.parametrize(
    "use",
    [
        lambda lab: models.build("mlp", 3),
        lambda lab: lab.algorithms["fedavg"].cohort(0, lab.names, 2, 5),
    ],
    ids=["a network is built", "an algorithm chooses devices"],
)
def test_nobody_else_uses_torchs_generator_while_a_job_runs(lab, use):
    """Else dropout would depend on when that happens."""
    runs, free = threading.Event(), threading.Event()

    def job(_lab, _store):
        runs.set()
        return free.wait(5)

    with Threaded(replace(lab, trains_on=(HERE,))) as there:
        done = there.submit(job)
        assert runs.wait(5)
        wanted = threading.Thread(target=lambda: use(lab))
        wanted.start()
        wanted.join(0.05)
        assert wanted.is_alive()
        free.set()
        assert done.result()
        wanted.join(5)
        assert not wanted.is_alive()


class LetsGo(dict):
    """Drops what it is asked to, in the middle of a loop over it."""

    def __init__(self, messages, drop):
        super().__init__(messages)
        self.drop = drop

    def items(self):
        first, *rest = list(super().items())
        yield first
        self.drop()
        yield from rest


def test_who_makes_room_is_not_disturbed_by_who_lets_go(store):
    refs = [kept(store), kept(store)]
    waits = threading.Thread(target=refs.clear)

    def drop():
        waits.start()
        waits.join(0.05)

    store._tensors = LetsGo(store._tensors, drop)
    store.make_room()
    waits.join(5)
    assert not store._tensors


def test_bytes_that_are_being_freed_are_written_again(store, monkeypatch, tmp_path):
    """Another thread lets go of the last one, after it was seen that they are there."""
    refs, true = [store.put(b"abc")], Files.has

    def late(self, ref):
        found = true(self, ref)
        refs.clear()
        return found

    monkeypatch.setattr(Files, "has", late)
    ref = store.put(b"abc")
    assert bytes(store.get(ref)) == b"abc"


def test_a_full_gpu_is_tried_again_once_there_is_room(lab, monkeypatch):
    tried, made = [], []

    def fills(_lab, _store):
        tried.append(1)
        if len(tried) == 1:
            raise torch.OutOfMemoryError("full")
        return len(tried)

    monkeypatch.setattr(threaded, "make_room", made.append)
    with Threaded(replace(lab, trains_on=(HERE,))) as there:
        assert there.submit(fills).result() == 2
        assert made == [there.store]


def test_what_a_gpu_says_when_it_cannot_be_used_is_said(lab, monkeypatch):
    def busy(place):
        raise RuntimeError("CUDA-capable devices are busy")

    interval = sys.getswitchinterval()
    monkeypatch.setattr(threaded.gpus, "use", busy)
    with pytest.raises(RuntimeError, match="are busy"):
        Threaded(replace(lab, trains_on=(HERE,)))
    assert sys.getswitchinterval() == interval


def test_over_sockets_uploads_are_bytes_under_their_own_names(lab):
    there = replace(lab, trains_on=(HERE,), over_sockets=True)
    with executor(there, 0) as made:
        assert not isinstance(made, Threaded)
        _, done = rounds(there, made, "fedavg", 1)
        assert all_of(not each.upload.ref.digest.startswith(OTHERWISE) for each in done)


def test_the_servers_examples_are_its_own(lab):
    x, _ = lab.proxy(1)
    before = x.clone()
    x.mul_(2)
    assert torch.equal(lab.proxy(1)[0], before)
    assert torch.equal(before, lab.examples("train", lab.splits[1].proxy)[0])


def test_tensors_are_in_the_order_of_bytes_whatever_their_layout():
    form = {"weights": {"b": ("float32", (2, 3, 4, 5)), "a": ("float32", ())}}
    value = torch.randn(2, 3, 4, 5).contiguous(memory_format=torch.channels_last)
    (found,) = flat.flattened([{"weights": {"b": value, "a": torch.tensor(7.0)}}], form) or ()
    assert list(found["weights"]) == ["a", "b"]
    assert torch.equal(found["weights"]["b"], value)
    assert found["weights"]["a"] == 7
    assert flat.flattened([{"weights": {}}], {"weights": {}}) is None
