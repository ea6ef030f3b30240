"""The whole sequence from target to result: baseline, search, reduction, gate, confirmation.

Calls everything below and knows no screen: what it does is told to a ``Progress``, what it finds is
returned. Only a confirmation on fresh processes can recommend.
"""

import hashlib
import math
import shutil
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from advisor import assemble
from advisor.baseline import FLOOR, PROFILE, Baseline, run_baseline, target_error
from advisor.confirmation import Confirmation, Outcome, reserve_s
from advisor.contract import (
    default_study_name, digest_of_target, digests_of_target, refuse_if_changed, study_contract,
)  # fmt: skip
from advisor.errors import TargetError, UsageError
from advisor.keeping import Keeping
from advisor.profiles.machine import read_machine
from advisor.profiles.profile import Profile
from advisor.result import ResultData
from advisor.settings import Progress, Settings
from advisor.signals import StopRequests
from advisor.storage_url import parse_storage
from advisor.store import Store
from advisor.tuners.duel import MEMORY_SHARE_FOR_TWO, Arena
from advisor.tuners.failures import TrialFailed
from advisor.tuners.knob import Value
from advisor.tuners.knobs import KNOBS
from advisor.tuners.launch import Interrupted, Launcher, can_isolate
from advisor.tuners.proposals import Measured, propose_batches
from advisor.tuners.record import TrialRecord
from advisor.tuners.search import Search, StoppedBy
from advisor.tuners.space import NotTried, Space, build_space
from advisor.tuners.spec import Target

if TYPE_CHECKING:
    import optuna

SEARCH_SHARE = 0.65  # of the budget at most, before the confirmation begins

_last_signal: int | None = None


def received_signal() -> int | None:
    """The signal that ended the last run early, if one did."""
    return _last_signal


def tune(settings: Settings, progress: Progress) -> ResultData:
    """Find out what to change about a training run, and prove it.

    Args:
        settings: What to run, and the limits.
        progress: Is told what happens.

    Returns:
        The result, also written to ``settings.out``; after an interrupt what is known so far.

    Raises:
        TargetError: The target fails although nothing was changed.
        UsageError: Settings that cannot be meant, or a resumed study that is about something else.
        EnvironmentProblem: Storage or machine do not allow it.
        NoValidTrial: Every configuration failed.
    """
    global _last_signal
    _last_signal = None
    with StopRequests() as stop, ExitStack() as stack:
        try:
            return _Tuning(settings, progress, stop, stack).run()
        finally:
            _last_signal = stop.received


@dataclass
class _Tuning:
    """One call of ``tune``."""

    settings: Settings
    progress: Progress
    stop: StopRequests
    stack: ExitStack
    began: float = field(default_factory=time.monotonic)
    warnings: list[str] = field(default_factory=list)
    stopped_by: StoppedBy = "converged"
    measured_batches: list[Measured] = field(default_factory=list)

    def run(self) -> ResultData:
        """The stages in order; what is known is assembled at the end, however it ends."""
        self._begin()
        store = self._open_store()
        name = self._study_name(store)
        launcher = self.stack.enter_context(self._launcher(name))
        arena = Arena(launcher, KNOBS, {})
        baseline = self._baseline(launcher, arena)
        space = self._space(baseline, arena)
        keeping = Keeping(
            self.progress, time.monotonic, self.began + self.settings.budget_s, store, name, space.present,
            bool(baseline.profile.run and baseline.profile.run.samples_per_step),
        )  # fmt: skip
        known = self._join_study(store, name, baseline, launcher)
        outcome, not_tried = Outcome(dict(space.present), reason="interrupted"), list(space.not_tried)
        self._keep_baseline(keeping, baseline, space, store, name)
        try:
            search = self._search(arena, space, baseline, keeping, store, name, known)
            try:
                nominee = search.run(baseline.session)
            finally:
                not_tried += search.not_tried
                self.stopped_by = search.stopped_by
            outcome = self._confirm(arena, space, baseline, keeping, search, nominee)
            self._propose(arena, space, baseline, outcome)
        except Interrupted:
            self.stopped_by = "interrupted"
            if outcome.verdict == "keep":
                outcome.reason = "interrupted before the confirmation"
        return self._finish(store, name, launcher, baseline, space, outcome, keeping, not_tried)

    def _begin(self) -> None:
        machine = read_machine()
        gpus = ", ".join(gpu.name for gpu in machine.gpus) or "no GPU"
        limit = "" if self.settings.trials is None else f"{self.settings.trials} trials or "
        minutes = self.settings.budget_s / 60
        self.progress.begin(
            f"{self.settings.target.name}, {self.settings.target.kind}, {machine.cpus_allowed} CPUs, {gpus}: "
            f"up to {limit}{minutes:.3g} min"
        )

    def _open_store(self) -> Store | None:
        if self.settings.storage is None:
            return None
        url = parse_storage(self.settings.storage)
        return self.stack.enter_context(Store.open(url, create=True, warn=self._warn))

    def _study_name(self, store: Store | None) -> str:
        wanted = self.settings.study or default_study_name(self.settings.target.name)
        if store is None:
            return wanted
        if self.settings.resume:
            store.require_study(wanted)
        elif self.settings.study is None:
            wanted = store.unused_name(wanted)
        elif store.load_study(wanted) is not None:
            raise UsageError(
                f"there is a study '{wanted}' already", hint="`--resume`, or another `--study NAME`"
            )
        store.claim(wanted)
        return wanted

    def _launcher(self, study: str) -> Launcher:
        request = self.settings.target
        folder = self._study_folder(study)
        payload = None
        if request.payload is not None:
            file = folder / "payload"
            file.write_bytes(request.payload)
            file.chmod(0o600)
            payload = str(file)
        name = request.name if request.kind in ("module", "objects") else str(Path(request.name).absolute())
        scratch = Path(tempfile.mkdtemp(prefix="advisor-"))
        self.stack.callback(shutil.rmtree, scratch, ignore_errors=True)
        return Launcher(
            Target(request.kind, name, request.args, str(Path.cwd()), payload), folder, seed=self.settings.seed,
            device=self.settings.device, isolate=self._isolate(), compile_cache=self._compile_cache(folder),
            scratch=scratch, waiting=self._waiting,
        )  # fmt: skip

    def _study_folder(self, study: str) -> Path:
        """Where logs of trials lie: beside the database, or for this call alone."""
        if self.settings.storage is not None and self.settings.storage.startswith("sqlite:///"):
            base = Path(self.settings.storage.removeprefix("sqlite:///")).parent / "studies"
        elif self.settings.storage is not None:
            base = Path(".advisor") / "studies"
        else:
            base = Path(tempfile.mkdtemp(prefix="advisor-study-"))
        base.mkdir(mode=0o700, parents=True, exist_ok=True)
        stamp = time.strftime("%Y%m%d-%H%M%S")
        folder = Path(tempfile.mkdtemp(prefix=f"{study}-{stamp}-", dir=base))
        return folder.absolute()

    def _compile_cache(self, folder: Path) -> Path:
        cache = folder / "compile-cache"
        cache.mkdir(mode=0o700)
        return cache

    def _isolate(self) -> bool:
        if self.settings.target.kind not in ("script", "module"):
            return False
        reason = can_isolate()
        if reason is not None:
            self._warn(f"files that the script writes are not kept apart from yours: {reason}")
        return reason is None

    def _baseline(self, launcher: Launcher, arena: Arena) -> Baseline:
        self.progress.say("running it unchanged")
        try:
            baseline = run_baseline(launcher, arena, self.settings)
        except TrialFailed as failed:
            raise target_error(failed.failure, None) from None
        except Interrupted:
            raise TargetError("interrupted before the baseline was measured", code="interrupted") from None
        arena.training_dataset = baseline.profile.loader.dataset if baseline.profile.loader else None
        arena.max_steps = baseline.max_steps
        arena.sigma = max(baseline.aa_sigma, FLOOR)
        arena.queue_depth = queue_depth
        memory = baseline.profile.memory
        if memory is not None:
            free = baseline.profile.machine.memory_bytes
            arena.two_fit = 2 * memory.host_peak_bytes < MEMORY_SHARE_FOR_TWO * free
        if baseline.thread_collapse:
            self._warn("threads collapse under other load on this machine; times are not those of a quiet one")
        elif baseline.contended:
            self._warn("other processes use this machine; small differences cannot be told")
        return baseline

    def _space(self, baseline: Baseline, arena: Arena) -> Space:
        space = self._build_space(baseline.profile, baseline.detectable)
        arena.present = space.own
        if baseline.session is not None:
            baseline.session.settle(space.own)
        return space

    def _build_space(self, profile: Profile, detectable: float) -> Space:
        settings = self.settings
        space = build_space(
            KNOBS, profile, named=settings.knobs, fixed=settings.fixed, keep_batch=not self._batch_allowed(),
            max_batch=settings.max_batch, detectable=detectable, planned_steps=settings.steps_planned,
        )  # fmt: skip
        if self._batch_allowed():
            return space
        told = [entry for entry in space.not_tried if entry.knob not in ("batch_size", "lr_scaling")]
        return replace(space, not_tried=told)

    def _batch_allowed(self) -> bool:
        """Whether a batch size may be recommended: what is learnt changes, so it has to be asked for."""
        if self.settings.keep_batch:
            return False
        named = {"batch_size", "lr_scaling"} & self.settings.knobs.keys()
        return bool(named) or self.settings.objective == "throughput"

    def _join_study(
        self, store: Store | None, name: str, baseline: Baseline, launcher: Launcher
    ) -> dict[str, float]:
        """Begin or resume the study; scores that an earlier part of it measured, by configuration."""
        if store is None:
            return {}
        full = self._build_space(baseline.profile, 0.0)
        request = self.settings.target
        files = {request.name: launcher.target.payload or ""} if request.kind == "objects" else {}
        if request.kind in ("script", "workload"):
            files = digests_of_target(Path(request.name))
        contract = study_contract(
            objective=self.settings.objective, direction="maximize", space=full.choices, target=request.name,
            files=files, machine=baseline.profile.machine, advisor_version=version("torch-advisor"),
            args=request.args, fix=self.settings.fixed, seed=self.settings.seed,
        )  # fmt: skip
        stored = store.load_study(name)
        if stored is None:
            store.create_study(name, contract)
            return {}
        refuse_if_changed(name, stored.contract, contract)
        store.mark_status(name, "running")
        lost = store.reap(name)
        if lost:
            self.progress.say(f"{len(lost)} trials were interrupted; they are run again")
        return {
            key: math.log(trial.against_baseline.estimate)
            for key, trial in store.trials_by_key(name).items()
            if trial.against_baseline is not None and trial.stage in ("screen", "search")
        }

    def _keep_baseline(
        self, keeping: Keeping, baseline: Baseline, space: Space, store: Store | None, name: str
    ) -> None:
        record = TrialRecord(
            0, dict(space.present), "baseline", slots=baseline.slots, against_baseline=baseline.aa,
            startup_s=baseline.startup_s,
        )  # fmt: skip
        keeping.record(record, space.key(space.present))
        if store is not None:
            store.save_machine(baseline.profile.machine)
            store.save_profile(name, PROFILE.dump_python(baseline.profile, mode="json"))

    def _search(
        self, arena: Arena, space: Space, baseline: Baseline, keeping: Keeping, store: Store | None, name: str,
        known: Mapping[str, float],
    ) -> Search:  # fmt: skip
        spent = time.monotonic() - self.began
        reserve = reserve_s(arena, baseline, self.settings)
        end = max(spent, min(self.settings.budget_s - reserve, SEARCH_SHARE * self.settings.budget_s))
        return Search(
            arena, space, baseline.profile, self._optuna(store, name), keeping, deadline=self.began + end,
            max_trials=self.settings.trials, known=known,
            next_number=1 if store is None else max(1, store.next_number(name)),
        )  # fmt: skip

    def _optuna(self, store: Store | None, name: str) -> "optuna.Study":
        import optuna

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        sampler = optuna.samplers.TPESampler(seed=self.settings.seed)
        if store is None:
            return optuna.create_study(direction="maximize", sampler=sampler)
        return store.optuna_study(name, sampler)

    def _confirm(
        self, arena: Arena, space: Space, baseline: Baseline, keeping: Keeping, search: Search,
        nominee: dict[str, Value],
    ) -> Outcome:  # fmt: skip
        confirmation = Confirmation(
            arena, space, baseline, self.settings, keeping, self.progress,
            deadline=self.began + self.settings.budget_s, next_number=search.next_number,
        )  # fmt: skip
        return confirmation.decide(nominee)

    def _propose(self, arena: Arena, space: Space, baseline: Baseline, outcome: Outcome) -> None:
        """Measure larger batches beside the verdict, where they may not be part of it."""
        if self._batch_allowed() or self.settings.keep_batch or self.settings.knobs or self.settings.fixed:
            return
        wide = build_space(
            KNOBS, baseline.profile, named={"batch_size": None, "lr_scaling": None},
            max_batch=self.settings.max_batch,
        )  # fmt: skip
        deadline = self.began + self.settings.budget_s
        self.measured_batches = propose_batches(arena, wide, outcome.config, deadline, self.progress.say)

    def _finish(
        self, store: Store | None, name: str, launcher: Launcher, baseline: Baseline, space: Space, outcome: Outcome,
        keeping: Keeping, not_tried: list[NotTried],
    ) -> ResultData:  # fmt: skip
        request = self.settings.target
        digest = ""
        if request.kind in ("script", "workload"):
            digest = digest_of_target(Path(request.name))
        elif request.payload is not None:
            digest = "sha256:" + hashlib.sha256(request.payload).hexdigest()
        result = assemble.result(
            self.settings, baseline, space, outcome, keeping.trials, not_tried, self.warnings, name,
            digest=digest, launches=launcher.launches, stopped_by=self.stopped_by,
            seconds=time.monotonic() - self.began, batches=self.measured_batches,
        )  # fmt: skip
        if store is not None:
            store.save_result(name, result)
            store.mark_status(name, "interrupted" if self.stopped_by == "interrupted" else "complete")
        if self.settings.out is not None:
            from advisor.report import write_report

            write_report(result, self.settings.out)
        return result

    def _waiting(self, what: str, seconds: float) -> None:
        if self.stop.received is not None:
            raise Interrupted
        self.progress.waiting(what, seconds)

    def _warn(self, text: str) -> None:
        if text not in self.warnings:
            self.warnings.append(text)
            self.progress.warn(text)


def queue_depth(config: Mapping[str, Any]) -> int:
    """How many batches the loader's workers can run ahead under ``config``."""
    return int(config.get("num_workers", 0)) * int(config.get("prefetch_factor", 2) or 2)
