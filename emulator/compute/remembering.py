"""An executor that does each job only once: it takes known results from the ledger, computes the others, and adds them
to the ledger.

A fact, the result of a job in the ledger, names messages whose bytes may be gone.  The bytes are needed only if
something must be computed from them; then the job that made the message is repeated.  So the content of the ledger
never changes a result.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from types import TracebackType
from typing import Any

from emulator.compute.crew import Workers, executor
from emulator.compute.executor import Executor, Tally
from emulator.compute.futures import SharedJob, ended, pass_on
from emulator.compute.origins import Origins, Remake, plain_args
from emulator.lab.jobs import State, combine, export
from emulator.lab.lab import Lab
from emulator.lab.training import personalise_stack, train, train_stack
from emulator.ledger.facts import Fact
from emulator.ledger.inputs import Inputs
from emulator.ledger.key import Keys, sources_of
from emulator.ledger.ledger import Ledger
from emulator.ledger.place import KEEP_STATES
from emulator.ledger.probe import probe
from emulator.ledger.results import FORMS, Job, refs
from emulator.messages.files import LEFT_FREE, Files
from emulator.messages.store import Ref
from emulator.record.run import Run
from emulator.record.writing import why

STACKS = (train_stack, personalise_stack)


def trainings(job: Job, args: Sequence[Any]) -> int:
    """Returns the number of device-rounds that a job trains; 0 for a job of another kind."""
    return len(args[2]) if job in STACKS else int(job is train)


class Disagreed(RuntimeError):  # noqa: N818  an event, and not an error
    """The error that a repeated job gave other bits than the ledger has."""


class Remembering(Executor):
    """An executor that answers jobs from a ledger, and passes those with unknown results to the executor `inner`.
    `scenario` is the digest of the scenario under which new facts are noted."""

    store: Files
    tally: Tally

    def __init__(
        self,
        inner: Executor,
        ledger: Ledger,
        keys: Keys,
        scenario: str,
        keep_states: int = KEEP_STATES,
        own: bool = True,
    ) -> None:
        """Keeps the state of each `keep_states`-th round in the ledger.  With `own`, closes the ledger together with
        this executor."""
        assert isinstance(inner.store, Files)
        self.inner, self.ledger, self.keys, self.scenario = inner, ledger, keys, scenario
        self.store, self.keep_states, self.own = inner.store, keep_states, own
        self.inputs = Inputs(ledger.facts, scenario, ledger.warn)
        self.tally, self.numerics = Tally(), keys.machine["numerics"]
        self.origins = Origins()
        self.under_way: dict[str, SharedJob] = {}  # by key
        self.newest: dict[Run, State] = {}
        # Jobs that wait for others to be repeated must not block the event loop; inline, jobs are done immediately.
        self.aside = None if inner.immediate else ThreadPoolExecutor(1)

    def submit(self, job: Job, *args: Any) -> Future[Any]:
        if job is export:
            return self._exported(*args)
        key = self._key(job, args)
        if key is None:
            return self.computed(job, args)
        if shared := self.under_way.get(key):
            self.tally.known += trainings(job, args)
            return shared.result()
        if fact := self.inputs.known(key):
            result = FORMS[job][1](fact.result)
            self.tally.known += trainings(job, args)
            for ref in refs(result):
                self.store.hold(ref)
            self._seen(job, args, result)
            return ended(result)
        self.tally.computed += trainings(job, args)
        shared = self.under_way[key] = SharedJob(self.computed(job, args))
        shared.job.add_done_callback(partial(self._note, key, job, args))  # first: notes which facts are used
        return shared.result()

    def _exported(self, weights: Ref) -> Future[Ref]:
        """Submits the job that writes the final model of a run, and keeps the run's weights in the ledger as soon as it
        is done.

        A command that resumes the other runs writes this model again, and without the weights it would have to repeat
        the whole run.
        """
        done = self.computed(export, (weights,))
        done.add_done_callback(lambda _: self._keep_message(weights))
        return done

    def knows(self, job: Job, *args: Any) -> bool:
        """Returns true if the ledger has a fact about this job."""
        key = self._key(job, args)
        return key is not None and self.inputs.known(key) is not None

    def _key(self, job: Job, args: Sequence[Any]) -> str | None:
        """Returns the job's key in the ledger; None if the job has no key and must be computed each time."""
        if job not in FORMS:
            return None
        try:
            return self.keys.key(job, args)
        except ValueError as none:
            self.ledger.warn(f"the ledger is not used where {none}")
            return None

    def _note(self, key: str, job: Job, args: Sequence[Any], done: Future[Any]) -> None:
        if not done.cancelled() and not done.exception():
            result = FORMS[job][0](done.result())
            fact = Fact(key, job.__name__, self.scenario, plain_args(args), result)
            self.inputs.put(fact, self.keys.own(job, args))
            self._seen(job, args, done.result())
        elif done.cancelled():
            self.tally.computed -= trainings(job, args)
        self.under_way.pop(key, None)

    def _seen(self, job: Job, args: Sequence[Any], result: Any) -> None:
        self.keys.note(result)
        self.origins.note(job, args, result)
        if job is combine:
            run, round = args[:2]
            self.newest[run] = result
            if (round + 1) % self.keep_states == 0:
                self._keep(result)

    def _keep(self, state: State) -> None:
        for ref in (state.message, state.weights):
            self._keep_message(ref)

    def _keep_message(self, ref: Ref) -> None:
        try:
            self.store.write_down(ref)
        except OSError as error:
            self.ledger.warn(f"{self.ledger.folder}: {why(error)}; a message is not kept")
        if not self.ledger.keep(ref) and self.store.has(ref):
            self.ledger.warn(f"{self.ledger.folder}: {LEFT_FREE >> 20} MB must stay free; models are not kept")

    # --- what must be there before a job can be computed ----------------------------------------------------------

    def computed(self, job: Job, args: Sequence[Any]) -> Future[Any]:
        """Computes the job, even if the ledger has its result, and returns the future of the result.  Messages among
        its arguments that are missing are made again first."""
        missing = [ref for ref in dict.fromkeys(refs(args)) if not self._here(ref)]
        if not missing:
            return self.inner.submit(job, *args)
        future: Future[Any] = Future()
        if self.aside:
            self.aside.submit(self._bring_first, missing, job, args, future)
        else:
            self._bring_first(missing, job, args, future)
        return future

    def _bring_first(self, missing: Sequence[Ref], job: Job, args: Sequence[Any], future: Future[Any]) -> None:
        if not future.set_running_or_notify_cancel():
            return
        try:
            self._bring(missing)
            done = self.inner.submit(job, *args)
        except Exception as error:  # for the caller who reads the result
            done = Future()
            done.set_exception(error)
        done.add_done_callback(partial(pass_on, future))

    def _bring(self, missing: Sequence[Ref]) -> None:
        """Makes these messages again, by repeating the jobs that made them, and waits for them.  Raises Disagreed if a
        repeated job gives other bits, and NoOrigin if the job that made a message is not known."""
        plan = deque(self.origins.plan(missing, self._held))
        coming: dict[str, tuple[Remake, Future[Any]]] = {}  # by the digest of the wanted message
        while plan:
            each = plan.popleft()  # its inputs are held until it is done, and no longer
            _await([coming.pop(ref.digest) for ref in refs(each.args) if ref.digest in coming])
            done = self.inner.submit(each.job, *each.args)
            self.tally.again += trainings(each.job, each.args)
            if each.job is combine:  # other runs with the same beginning may need this state, too
                done.add_done_callback(self._keep_again)
            coming |= dict.fromkeys(each.wanted, (each, done))
        _await(coming.values())

    def _keep_again(self, done: Future[State]) -> None:
        if not done.cancelled() and not done.exception():
            self._keep(done.result())

    def _here(self, ref: Ref) -> bool:
        return self.store.has(ref) or self.ledger.fetch(ref)

    def _held(self, ref: Ref) -> bool:
        """Returns true if the message is stored, or the ledger has it.  If it is stored now or later, it is kept as
        long as this Ref exists."""
        self.store.hold(ref)
        return self._here(ref)

    # --- the end ----------------------------------------------------------------------------------------------------

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Ends the executor: keeps the last state of each run in the ledger, and, if the ledger is closed too, the
        messages of interrupted runs."""
        if self.aside:
            self.aside.shutdown(wait=False, cancel_futures=True)
        self.settle()  # while messages in memory still exist
        self.inner.__exit__(kind, error, trace)
        if self.own:
            self.ledger.close(self.broken_off, self.origins)

    def settle(self) -> None:
        """Keeps the last state of each run in the ledger.  Call it only when all runs so far have ended."""
        for state in list(self.newest.values()):  # results may still arrive in a thread of the pool
            self._keep(state)
        self.newest.clear()

    def stop(self) -> None:
        """Ends the workers as soon as possible."""
        self.inner.stop()


def remembering(
    lab: Lab,
    ledger: Ledger,
    workers: Workers,
    scenario: str,
    own: bool = True,
    keep_states: int = KEEP_STATES,
) -> Remembering:
    """Returns an executor that answers from the ledger and notes new results under the scenario with this digest.  See
    crew.executor for `workers`.

    It keeps the state of each `keep_states`-th round of a run, and of the last round.  With `own`, it closes the ledger
    at its end.
    """
    place = ledger.live.path
    with ExitStack() as unless_made:
        inner = executor(lab, workers, place)
        unless_made.push(inner)
        unless_made.callback(inner.stop)  # so that a Ctrl-C need not wait for the start of workers
        probing, code = inner.submit(probe), sources_of(lab)  # the sources are read while a worker is probed
        keys = Keys(lab, probing.result(), code)
        made = Remembering(inner, ledger, keys, scenario, keep_states, own)
        unless_made.pop_all()
    return made


def _await(coming: Iterable[tuple[Remake, Future[Any]]]) -> None:
    """Waits until repeated jobs are done.  Raises Disagreed if a result lacks a message that was wanted from it."""
    for again, done in coming:
        if again.wanted - {ref.digest for ref in refs(done.result())}:
            raise Disagreed(name_of_job(again.job.__name__, plain_args(again.args)))


def name_of_job(job: str, args: Sequence[Any]) -> str:
    """Returns a short name of a job for messages: the job's function, its run and its identifying arguments."""
    run = next((" ".join(map(str, arg["run"])) for arg in args if isinstance(arg, dict) and "run" in arg), "")
    rest = [str(arg) for arg in args if isinstance(arg, (str, int)) and not isinstance(arg, bool)]
    stack = next((f"{arg[0]} ... {arg[-1]}" for arg in args if isinstance(arg, list) and isinstance(arg[0], str)), "")
    return " ".join(filter(None, [job, run, *rest, stack]))
