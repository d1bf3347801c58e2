"""A job's key: a digest of everything that its result depends on, and of nothing else.

So two jobs with one key have one result, in any run, scenario and process, on any machine that computes alike.  Not in
it: links, profiles, labels, paths, workers, the time of day.  Whatever jobs of lab/jobs.py read stands here again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from algorithms.algorithm import Algorithm
from emulator.lab import jobs
from emulator.lab.guarded import unguarded
from emulator.lab.jobs import Opening, Trained
from emulator.lab.lab import Lab
from emulator.lab.scoring import test_shards
from emulator.lab.seeds import seed as derive
from emulator.ledger.canonical import digest, name_of, packed, plain
from emulator.messages.store import NOTHING, Ref
from emulator.record.run import Run
from network.wire.form import FRAME
from scenarios.builders import own_code, reads
from scenarios.builders.sources import OURS, sources

FORM = b"fedlapse-job-v1\0"

Job = Callable[..., Any]
Parts = Mapping[str, Any]  # plain values (see canonical.plain), by what they are
Kinds = frozenset[str]
Code = Mapping[str, str | None]  # digests of files by the label of an algorithm, "" for none; None: there is no file


class Keys:
    """The keys of one lab's jobs.

    Sources are read before the first key is asked for: what is edited later is not what has been loaded.
    """

    def __init__(self, lab: Lab, numerics: str, code: Code | None = None) -> None:
        """`numerics`: what probe.py says of the machine that the jobs run on; `code`: what `sources_of` has found."""
        import torch

        self.lab = lab
        versions = {"torch": str(torch.__version__), "torch_git": torch.version.git_version, "numpy": np.__version__}
        self.machine = {**versions, "numerics": numerics}
        self.sources = sources_of(lab) if code is None else code
        self.kinds: dict[str, Kinds] = {NOTHING.digest: frozenset()}  # of messages, by digest
        self.known: dict[tuple[Any, ...], Any] = {}  # what has been looked at before

    def key(self, job: Job, args: Sequence[Any]) -> str:
        """SHA-256, in hex, for the job with these arguments after lab and store.

        Raises ValueError if there is none: for another job than those of PARTS, and for an algorithm whose options
        or files do not say what it is.  Such a job must be computed each time.
        """
        return hashlib.sha256(FORM + packed(self.parts(job, args))).hexdigest()

    def parts(self, job: Job, args: Sequence[Any]) -> Parts:
        """What the key is made of, in a form to be read.  Raises ValueError as `key` does."""
        if job not in PARTS:
            raise ValueError(f"{name_of(job)} has no key; these jobs have: {', '.join(map(name_of, PARTS))}")
        return {"job": job.__name__, **self.machine, **PARTS[job](self, *args)}

    def own(self, job: Job, args: Sequence[Any]) -> bool:
        """Whether a user's own code takes part in the job."""
        run: Run = args[0]
        return bool(_own_modules(self.lab, () if job is jobs.evaluate else (run.label,)))

    def note(self, result: Any) -> None:
        """Remembers of which kinds the messages in a job's result are.

        It is to be called with each result before what is in it becomes an argument, whether it was computed or
        found; what was not noted makes other keys, never wrong ones.
        """
        found = []
        if isinstance(result, Opening):
            found = [result.download, *result.extra.values()]
        elif isinstance(result, Trained):
            found = [result.kept, *([result.kept_if_counted] if result.kept_if_counted else [])]
        elif isinstance(result, list):
            for each in result:
                self.note(each)
        for message in found:
            self.kinds.setdefault(message.ref.digest, _shared(message.sizes.keys() - {FRAME}))

    # ---- of each job

    def _start(self, run: Run) -> Parts:
        return {**self._of_server(run, 0), "first": derive(run.seed, "weights")}

    def _request(self, run: Run, round: int, state: Ref, names: Sequence[str]) -> Parts:
        seed = derive(run.seed, "encode", "server", round)
        return {**self._of_server(run, round), "state": state.digest, "names": list(names), "encoding_seed": seed}

    def _train(self, run: Run, device: str, round: int, download: Ref, memory: Ref, measure: bool) -> Parts:
        penalised = self._penalised(run, round, download, memory)
        own = self._of_device(run, device, round, download, memory, measure)
        return {**self._of_devices(run, round, penalised), **own}

    def _train_stack(
        self,
        run: Run,
        round: int,
        devices: Sequence[str],
        downloads: Sequence[Ref],
        memories: Sequence[Ref],
        measure: bool,
    ) -> Parts:
        each = list(zip(devices, downloads, memories, strict=True))
        penalised = any(self._penalised(run, round, download, memory) for _, download, memory in each)
        stack = [self._of_device(run, device, round, download, memory, measure) for device, download, memory in each]
        return {**self._of_devices(run, round, penalised), "stack": stack}

    def _personalise_stack(
        self, run: Run, round: int, devices: Sequence[str], downloads: Sequence[Ref], memories: Sequence[Ref]
    ) -> Parts:
        return self._train_stack(run, round, devices, downloads, memories, measure=True)

    def _combine(
        self, run: Run, round: int, state: Ref, replies: Mapping[str, tuple[Ref, int]], download: Ref
    ) -> Parts:
        uploads = [[name, upload.digest, examples] for name, (upload, examples) in sorted(replies.items())]
        # Only differences of weights are put on top of what went down.
        base = download.digest if "weights" in self.lab.up.get(run.label, {}) else None
        return {**self._of_server(run, round), "state": state.digest, "uploads": uploads, "download": base}

    def _evaluate(self, run: Run, weights: Ref, part: str, cycle: int, block: int) -> Parts:
        return {
            "model": self._model(),
            "sources": self._sources(),
            "weights": weights.digest,
            "data": self._data("test" if part == "test" else "train"),
            "examples": self._once(
                lambda: digest(jobs.block_of(self.lab, run, part, cycle, block)), run.seed, part, cycle, block
            ),
        }

    # ---- of each side

    def _of_server(self, run: Run, round: int) -> Parts:
        names = self._once(lambda: digest(packed(list(self.lab.names))), "names")
        proxy = self._once(lambda: digest(self.lab.splits[run.seed].proxy), run.seed, "proxy")
        seed = derive(run.seed, "server", "server", round)
        return {**self._of_party(run, round, penalised=False), "fleet": names, "examples": proxy, "seed": seed}

    def _of_devices(self, run: Run, round: int, penalised: bool) -> Parts:
        """What all devices of a round have in common."""
        return {**self._of_party(run, round, penalised), "devices": len(self.lab.fleet)}

    def _of_device(self, run: Run, device: str, round: int, download: Ref, memory: Ref, measure: bool) -> Parts:
        cycle = self.lab.cycle(run.label, round)
        return {
            "device": device,
            "examples": self._once(lambda: digest(self.lab.held(run.seed, device, cycle)), run.seed, device, cycle),
            "seed": derive(run.seed, "train", device, round),
            "encoding_seed": derive(run.seed, "encode", device, round),
            "download": download.digest,
            "memory": memory.digest,
            "tests": self._tests(run, device, round) if measure else None,
        }

    def _penalised(self, run: Run, round: int, download: Ref, memory: Ref) -> bool:
        """Whether the options of the penalty may matter; True where kinds are not known."""
        received, kept = (self.kinds.get(ref.digest) for ref in (download, memory))
        if received is None or kept is None:
            return True
        return self.lab.algorithms[run.label].penalised(round, received, kept)

    def _of_party(self, run: Run, round: int, penalised: bool) -> Parts:
        """`penalised`: whether the options of the penalty may matter."""
        return {
            "model": self._model(),
            "algorithm": self._once(lambda: _options(self.lab.algorithms[run.label], penalised), run.label, penalised),
            "sources": self._sources(run.label),
            "data": self._data("train"),
            "round": round,
            "up": plain(self.lab.up.get(run.label, {})),
            "down": plain(self.lab.down.get(run.label, {})),
        }

    def _model(self) -> Parts:
        return {"name": self.lab.model, "classes": self.lab.data.classes}

    def _sources(self, label: str = "") -> str:
        found = self.sources[label]
        if found is None:
            what = f"the code of {label or self.lab.model}"
            raise ValueError(f"{what} is in no file, or in one that has changed since it was imported")
        return found

    def _tests(self, run: Run, device: str, round: int) -> Parts:
        shards = test_shards(self.lab, run, device, round)
        return {"data": self._data("test"), "examples": [digest(shard) for shard in shards]}

    def _data(self, part: str) -> Any:
        data = self.lab.data
        arrays = (data.x, data.y) if part == "train" else (data.x_test, data.y_test)
        return self._once(lambda: digest(packed([*map(digest, arrays)])), part)

    def _once(self, make: Callable[[], Any], *what: str | int) -> Any:
        if what not in self.known:
            self.known[what] = make()
        return self.known[what]


# Each job, and what its result depends on beside the versions and the machine.
PARTS: Mapping[Job, Callable[..., Parts]] = {
    jobs.start: Keys._start,
    jobs.request: Keys._request,
    jobs.train: Keys._train,
    jobs.train_stack: Keys._train_stack,
    jobs.personalise_stack: Keys._personalise_stack,
    jobs.combine: Keys._combine,
    jobs.evaluate: Keys._evaluate,
}


def _options(algorithm: Algorithm, penalised: bool) -> Parts:
    """The algorithm's class and options; unless `penalised`, without the penalty's, if the class itself names them."""
    own = unguarded(algorithm)
    found: dict[str, Any] = plain(own)
    if penalised or "penalty_options" not in vars(type(own)):
        return found
    return {name: value for name, value in found.items() if name not in algorithm.penalty_options}


def watch_own(lab: Lab) -> None:
    """Notes from now on what a user's own code reads that this lab's jobs call in this process."""
    for module in _own_modules(lab, lab.algorithms):
        reads.watch(module)


def _own_modules(lab: Lab, labels: Iterable[str]) -> list[str]:
    """Of a user's: that of the model, and those of these algorithms."""
    kinds = {type(unguarded(lab.algorithms[label])).__module__ for label in labels}
    model = {lab.model.partition(":")[0]} if ":" in lab.model else set()
    return sorted(model | {name for name in kinds if name.partition(".")[0] not in OURS})


def sources_of(lab: Lab) -> Code:
    """Digests of the source files that the lab's jobs consist of, by the algorithm's label: a quarter of a second."""
    kinds = {label: _classes(algorithm) for label, algorithm in lab.algorithms.items()}
    return {label: _sources(lab, *of_label) for label, of_label in {"": (), **kinds}.items()}


def _classes(algorithm: Algorithm) -> Sequence[type]:
    return [type(algorithm), type(unguarded(algorithm))]


def _sources(lab: Lab, *classes: type) -> str | None:
    """Digest of the files that jobs consist of which use these classes; None if one of them is in no file, or is a
    user's and has changed since it was imported."""
    of_model = {lab.model.partition(":")[0]} if ":" in lab.model else set()
    try:
        found = sources({jobs.__name__, *of_model, *(each.__module__ for each in classes)})
    except ValueError:
        return None
    return None if own_code.changed(found) else digest(packed(found))


_SHARED: dict[Kinds, Kinds] = {}


def _shared(kinds: Collection[str]) -> Kinds:
    """The same object for the same kinds: there are many messages, and few kinds."""
    found = frozenset(kinds)
    return _SHARED.setdefault(found, found)
