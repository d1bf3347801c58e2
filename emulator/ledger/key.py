"""Computes a job's key in the ledger: a digest of everything on which the job's result depends, and of nothing else.

Two jobs with one key have equal results, in any run, scenario and process, on any machine with the same arithmetic.  A
key does not depend on links, profiles, labels, paths, workers and the time of day.  This file must list the same inputs
of each job as lab/jobs.py and lab/training.py use.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from importlib.metadata import version
from typing import Any

import numpy as np

from algorithms.algorithm import Algorithm, Training
from emulator.lab import jobs, training
from emulator.lab.guarded import Unmade, unguarded
from emulator.lab.jobs import Opening
from emulator.lab.lab import Lab
from emulator.lab.scoring import test_shards
from emulator.lab.seeds import seed as derive
from emulator.lab.training import Trained
from emulator.ledger.canonical import digest, name_of, packed, plain
from emulator.messages.store import NOTHING, Ref
from emulator.record.run import Run
from network.wire.form import FRAME
from scenarios.builders import own_code, reads
from scenarios.builders.sources import OURS, sources

FORM = b"fedlapse-job-v1\0"
_SHARED: dict[frozenset[str], frozenset[str]] = {}  # one object for equal kinds: many messages share few kinds

Job = Callable[..., Any]
Parts = Mapping[str, Any]  # plain values (see canonical.plain), by name
Kinds = frozenset[str]
Code = Mapping[str, str | None]  # digests of source files by label ("": without an algorithm); None: no file


class Keys:
    """Computes the keys of one lab's jobs.

    It reads the source files when it is made, because a later edit does not change the code that is loaded.
    """

    def __init__(self, lab: Lab, numerics: str, code: Code | None = None) -> None:
        """Prepares the keys of the lab's jobs.  `numerics`: the digest of arithmetic (probe.py) on the machine that
        does the jobs; `code`: the result of `sources_of`, computed here if None."""
        import torch

        self.lab = lab
        versions = {"torch": str(torch.__version__), "torch_git": torch.version.git_version, "numpy": np.__version__}
        self.machine = {**versions, "numerics": numerics}
        self.sources = sources_of(lab) if code is None else code
        self.kinds: dict[str, Kinds] = {NOTHING.digest: frozenset()}  # kinds in messages, by the message's digest
        self.known: dict[tuple[Any, ...], Any] = {}  # parts that were computed before

    def key(self, job: Job, args: Sequence[Any]) -> str:
        """Returns the key, a SHA-256 in hex, of a job with the arguments `args`, those after lab and store.

        Raises ValueError for a job that is not in PARTS, and for an algorithm whose options or files do not identify
        it.  Such a job must be computed each time.
        """
        return hashlib.sha256(FORM + packed(self.parts(job, args))).hexdigest()

    def parts(self, job: Job, args: Sequence[Any]) -> Parts:
        """Returns the values of which a job's key is a digest, by name.  Raises ValueError as `key` does."""
        if job not in PARTS:
            raise ValueError(f"{name_of(job)} has no key; these jobs have: {', '.join(map(name_of, PARTS))}")
        return {"job": job.__name__, **self.machine, **PARTS[job](self, *args)}

    def own(self, job: Job, args: Sequence[Any]) -> bool:
        """Returns true if the job runs a user's own code."""
        run: Run = args[0]
        return bool(_own_modules(self.lab, () if job is jobs.evaluate else (run.label,)))

    def note(self, result: Any) -> None:
        """Notes the kinds of tensors in the messages of a job's result.

        Call it with each result, computed or remembered, before its messages become arguments of other jobs.  If the
        kinds are unknown, a job gets another key; then it may be computed again, but its result is never wrong.
        """
        messages = []
        if isinstance(result, Opening):
            messages = [result.download, *result.extra.values()]
        elif isinstance(result, Trained):
            messages = [result.kept, *([result.kept_if_counted] if result.kept_if_counted else [])]
        elif isinstance(result, list):
            for part in result:
                self.note(part)
        for message in messages:
            kinds = frozenset(message.sizes.keys() - {FRAME})
            self.kinds.setdefault(message.ref.digest, _SHARED.setdefault(kinds, kinds))

    # ---- of each job

    def _start(self, run: Run) -> Parts:
        return {**self._of_server(run, 0), "first": derive(run.seed, "weights")}

    def _request(self, run: Run, round: int, state: Ref, names: Sequence[str], new: Sequence[str] = ()) -> Parts:
        seed = derive(run.seed, "encode", "server", round)
        more = {"new": list(new)} if new else {}
        parts = {**self._of_server(run, round), **more}
        return {**parts, "state": state.digest, "names": list(names), "encoding_seed": seed}

    def _train(
        self,
        run: Run,
        device: str,
        round: int,
        download: Ref,
        memory: Ref,
        measure: bool,
        combined: Mapping[str, Ref] = training.ALL_COMBINED,
    ) -> Parts:
        penalised = self._penalised(run, round, download, memory)
        own = self._of_device(run, device, round, download, memory, measure, combined)
        return {**self._of_devices(run, round, penalised), **own}

    def _train_stack(
        self,
        run: Run,
        round: int,
        devices: Sequence[str],
        downloads: Sequence[Ref],
        memories: Sequence[Ref],
        measure: bool,
        combined: Mapping[str, Ref] = training.ALL_COMBINED,
    ) -> Parts:
        rows = list(zip(devices, downloads, memories, strict=True))
        penalised = any(self._penalised(run, round, download, memory) for _, download, memory in rows)
        stack = [self._of_device(run, name, round, down, kept, measure, combined) for name, down, kept in rows]
        return {**self._of_devices(run, round, penalised), "stack": stack}

    def _personalise_stack(
        self, run: Run, round: int, devices: Sequence[str], downloads: Sequence[Ref], memories: Sequence[Ref]
    ) -> Parts:
        return self._train_stack(run, round, devices, downloads, memories, measure=True)

    def _combine(
        self,
        run: Run,
        round: int,
        state: Ref,
        replies: Mapping[str, tuple[Ref, int]],
        download: Ref,
        stale: Mapping[str, tuple[int, Ref]] = jobs.NONE_STALE,
        steps: Mapping[str, int] = jobs.NONE_TOLD,
    ) -> Parts:
        uploads = [[name, upload.digest, examples] for name, (upload, examples) in sorted(replies.items())]
        # Only differences of weights are added to the download.
        relative = "weights" in self.lab.up.get(run.label, {})
        base = download.digest if relative else None
        older = [
            [name, age, self.lab.turn(run.label, round - age), sent.digest if relative else None]
            for name, (age, sent) in sorted(stale.items())
        ]
        parts = {**self._of_server(run, round), "state": state.digest, "uploads": uploads, "download": base}
        told = {"steps": sorted(map(list, steps.items()))} if steps else {}
        return {**parts, **told, "stale": older} if older else {**parts, **told}

    def _evaluate(self, run: Run, weights: Ref, part: str, cycle: int, block: int) -> Parts:
        return {
            "model": self._model(run),
            "metrics": list(self.lab.metrics),
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
        parts = {**self._of_party(run, round, penalised=False), "fleet": names, "examples": proxy, "seed": seed}
        ahead = self.lab.ahead(run.label, round)
        return parts if ahead == 1 else {**parts, "ahead": ahead}

    def _of_devices(self, run: Run, round: int, penalised: bool) -> Parts:
        """Returns the parts of a key that all devices of a round share."""
        parts = {**self._of_party(run, round, penalised), "devices": len(self.lab.fleet)}
        power = self.lab.loss_power(run.label)
        return {**parts, "loss_power": power} if power else parts

    def _of_device(
        self,
        run: Run,
        device: str,
        round: int,
        download: Ref,
        memory: Ref,
        measure: bool,
        combined: Mapping[str, Ref],
    ) -> Parts:
        cycle = self.lab.cycle(run.label, round)
        profile = self.lab.fleet[device].profile if self.lab.tells_steps(run.label) else None
        asked = self.lab.asked.get(run.label, 1)
        return {
            **({"profile": plain(profile), "load": [len(self.lab.fleet), asked]} if profile else {}),
            **({"combined": combined[device].digest} if device in combined else {}),
            "device": device,
            "examples": self._once(lambda: digest(self.lab.held(run.seed, device, cycle)), run.seed, device, cycle),
            "seed": derive(run.seed, "train", device, round),
            "encoding_seed": derive(run.seed, "encode", device, round),
            "download": download.digest,
            "memory": memory.digest,
            "tests": {
                "metric": self.lab.metrics[0],
                "data": self._data("test"),
                "examples": [digest(shard) for shard in test_shards(self.lab, run, device, round)],
            }
            if measure
            else None,
        }

    def _penalised(self, run: Run, round: int, download: Ref, memory: Ref) -> bool:
        """Returns true if the job may depend on the options of the algorithm's penalty, or if that is unknown."""
        received, kept = (self.kinds.get(ref.digest) for ref in (download, memory))
        if received is None or kept is None:
            return True
        return self.lab.algorithms[run.label].penalised(self.lab.turn(run.label, round), received, kept)

    def _of_party(self, run: Run, round: int, penalised: bool) -> Parts:
        """Returns the parts of a key that the server and the devices of a round share.  `penalised`: includes the
        options of the penalty."""
        augment = self.lab.augment and {"steps": plain(self.lab.augment), "torchvision": version("torchvision")}
        return {
            **({"augment": augment} if augment else {}),
            "model": self._model(run),
            "algorithm": self._once(lambda: _options(self.lab.algorithms[run.label], penalised), run.label, penalised),
            "sources": self._sources(run.label),
            "data": self._data("train"),
            "round": self.lab.turn(run.label, round),
            "up": plain(self.lab.up.get(run.label, {})),
            "down": plain(self.lab.down.get(run.label, {})),
        }

    def _model(self, run: Run) -> Parts:
        said = self.lab.model
        more = {"weights": said.digest, "train": said.train, "keep": said.keep, "inputs": plain(self.lab.data.inputs)}
        found = {"name": said.name, "classes": self.lab.data.classes, "task": self.lab.task_name}
        first = {"first": derive(run.seed, "weights")} if said.keep else {}  # what is kept begins so
        return found | {key: value for key, value in more.items() if value} | first

    def _sources(self, label: str = "") -> str:
        found = self.sources[label]
        if found is None:
            what = f"the code of {label or self.lab.model.name}"
            raise ValueError(f"{what} is in no file, or in one that has changed since it was imported")
        return found

    def _data(self, part: str) -> Any:
        data = self.lab.data
        arrays = (data.x, data.y) if part == "train" else (data.x_test, data.y_test)
        return self._once(lambda: digest(packed([*map(digest, arrays)])), part)

    def _once(self, make: Callable[[], Any], *name: str | int) -> Any:
        if name not in self.known:
            self.known[name] = make()
        return self.known[name]


# Each job, and the parts of its key besides the versions and the machine.
PARTS: Mapping[Job, Callable[..., Parts]] = {
    jobs.start: Keys._start,
    jobs.request: Keys._request,
    training.train: Keys._train,
    training.train_stack: Keys._train_stack,
    training.personalise_stack: Keys._personalise_stack,
    jobs.combine: Keys._combine,
    jobs.evaluate: Keys._evaluate,
}


def _options(algorithm: Algorithm, penalised: bool) -> Parts:
    """Returns the algorithm's class and options.  Unless `penalised`, the options of its penalty are left out, if the
    class itself says which they are."""
    own = unguarded(algorithm)
    options: dict[str, Any] = plain(own)
    if penalised or "penalty_options" not in vars(type(own)):
        return options
    return {name: value for name, value in options.items() if name not in algorithm.penalty_options}


def watch_own(lab: Lab) -> None:
    """Makes this process note the files and variables that a user's own code reads in this lab's jobs."""
    for module in _own_modules(lab, lab.algorithms):
        reads.watch(module)


def _own_modules(lab: Lab, labels: Iterable[str]) -> list[str]:
    """Returns the names of a user's own modules: those of model and task, and those of the algorithms with these labels
    and of their optimisers."""
    algorithms = [unguarded(lab.algorithms[label]) for label in labels]
    kinds = {type(each).__module__ for each in algorithms}
    named = _modules(lab.model.name, lab.task_name, *map(_optimizer, algorithms))
    return sorted(named | {name for name in kinds if name.partition(".")[0] not in OURS})


def _optimizer(algorithm: Any) -> str:
    """Returns the name of the algorithm's optimiser; "" if it cannot tell it, could not be made, or if it is torch's,
    whose version is in the key."""
    training = None if isinstance(algorithm, Unmade) else getattr(algorithm, "training", None)
    found = training.optimizer if isinstance(training, Training) else ""
    return "" if found.startswith("torch.") else found


def _modules(*names: str) -> set[str]:
    """Returns the modules of those of the names that are package.module:thing."""
    return {name.partition(":")[0] for name in names if ":" in name}


def sources_of(lab: Lab) -> Code:
    """Returns digests of the source files that the lab's jobs use, by the algorithm's label.  Takes a quarter of a
    second."""
    own = {
        label: {type(each).__module__, type(unguarded(each)).__module__, *_modules(_optimizer(unguarded(each)))}
        for label, each in lab.algorithms.items()
    }
    return {label: _sources(lab, modules) for label, modules in {"": set[str](), **own}.items()}


def _sources(lab: Lab, modules: Collection[str]) -> str | None:
    """Returns the digest of the source files of jobs that use these modules; None if one has no file, or if the file of
    a user's own has changed since it was imported."""
    own = _modules(lab.model.name, lab.task_name)
    try:
        found = sources({jobs.__name__, training.__name__, type(lab.task).__module__, *own, *modules})
    except ValueError:
        return None
    return None if own_code.changed(found) else digest(packed(found))
