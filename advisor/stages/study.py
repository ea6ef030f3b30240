"""The study that a run belongs to: its storage, name, folder of logs, contract, and what it already knows."""

import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass
from importlib.metadata import version
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_args

from advisor.base.errors import TargetError, UsageError
from advisor.base.fault_points import hit
from advisor.base.settings import Settings, Value
from advisor.profiles.facts.machine import Machine
from advisor.profiles.facts.profile import Profile
from advisor.profiles.facts.profile_json import PROFILE
from advisor.result.document import ResultData, Trial
from advisor.stages.launching import request_digest
from advisor.stages.thread_collapse import KNOB, told_again, with_threads
from advisor.storage.contract import (
    BEGUN,
    THREADS,
    begun_space,
    default_study_name,
    digests_of_target,
    refuse_if_changed,
    study_contract,
)
from advisor.storage.storage_url import parse_storage
from advisor.storage.store import Store, StoredComparison
from advisor.tuners.comparing.measure import Estimate
from advisor.tuners.comparing.pair_places import Where
from advisor.tuners.search.asking import GP_TRIALS
from advisor.tuners.search.measured import Measured
from advisor.tuners.space.configuration import Configuration
from advisor.tuners.supervision.failures import Cause, stays_failed

if TYPE_CHECKING:
    import optuna

GP_STEP_S = 0.05  # least seconds of a step for a Gaussian process


@dataclass
class Study:
    """One study, kept in a store or for this call alone (``store`` is ``None``).

    Attributes:
        folder: Where logs of trials lie (0700).
        begun: What is tried of each knob, since the first part of the study came to try something.
        logs_told: A user is told where they lie, or may be; else, without a store, they go at the end.
        threads: Of all runs, where the program's own collapsed as the study began; 0 where they did not,
            ``None`` until its first run has decided it.
    """

    settings: Settings
    store: Store | None
    name: str
    folder: Path
    begun: dict[str, list[Value]] | None = None
    logs_told: bool = True
    threads: int | None = None

    @classmethod
    def open(cls, settings: Settings, stack: ExitStack, warn: Callable[[str], None]) -> "Study":
        """Open the storage and claim the study; ``stack`` closes it.

        Raises:
            UsageError: The study exists although it should not, or does not although it should.
            EnvironmentProblem: The storage cannot be used, or somebody else runs this study.
        """
        wanted = settings.study or default_study_name(settings.target.name)
        if settings.storage is None:
            base = Path(tempfile.mkdtemp(prefix="advisor-study-"))
            study = cls(settings, None, wanted, study_folder(wanted, base))
            stack.callback(study._let_go_of, base)
            return study
        url = parse_storage(settings.storage)
        for text in url.warnings:
            warn(text)
        store = stack.enter_context(Store.open(url, create=True, warn=warn))
        threads = None
        if settings.resume:
            threads = int(store.require_study(wanted).contract.get(THREADS, 0))
        elif settings.study is None:
            wanted = store.unused_name(wanted)
        elif store.load_study(wanted) is not None:
            raise UsageError(
                f"there is a study '{wanted}' already", hint="`--resume`, or another `--study NAME`"
            )
        hit("claim.before")
        store.claim(wanted)
        hit("claim.after")
        base = Path(".advisor") if url.path is None else Path(url.path).parent
        return cls(settings, store, wanted, study_folder(wanted, base / "studies"), threads=threads)

    def _let_go_of(self, base: Path) -> None:
        """Remove the folder of a study without a store, unless somebody may want to read logs in it."""
        if not self.logs_told or not any(path.is_file() for path in base.rglob("*")):
            shutil.rmtree(base, ignore_errors=True)

    def measured_under(self, warn: Callable[[str], None]) -> Settings:
        """The settings under which all is measured: those asked for, with what the study began with."""
        if self.threads:
            warn(told_again(self.threads))
            self.settings = with_threads(self.settings, self.threads)
        return self.settings

    def decide_threads(self, settings: Settings) -> Settings:
        """Take up the settings of the first run, and note the threads that it has made of those asked for."""
        if settings != self.settings:
            self.settings, self.threads = settings, int(settings.fixed[KNOB])
        return settings

    def join(
        self, profile: Profile, choices: Mapping[str, Sequence[Value]], say: Callable[[str], None]
    ) -> Measured:
        """Begin the study, or resume it where it is about the same thing.

        Args:
            profile: What the target is.
            choices: The whole search space.
            say: Is told of trials that were interrupted.

        Returns:
            What earlier parts of the study measured.

        Raises:
            StudyChanged: The stored study is about something else.
        """
        if self.store is None:
            return Measured()
        contract = contract_of(self.settings, profile.machine, choices)
        stored = self.store.load_study(self.name)
        if stored is None:
            hit("contract.before")
            self.store.create_study(self.name, contract | ({THREADS: self.threads} if self.threads else {}))
            hit("contract.after")
        else:
            refuse_if_changed(self.name, stored.contract, contract)
            self.begun = begun_space(stored.contract)
            self.store.mark_status(self.name, "running")
            lost = self.store.reap(self.name)
            if lost:
                say(f"{len(lost)} trials were interrupted; they are run again")
        self.store.save_machine(profile.machine)
        self.store.save_profile(self.name, PROFILE.dump_python(profile, mode="json"))
        return measured_of(self.store.finished(self.name), self.store.comparisons(self.name))

    def keep_space(self, choices: Mapping[str, Sequence[Value]]) -> None:
        """Note what is tried, for the time that this study is resumed; what it was begun with stays."""
        if self.store is not None and self.begun is None:
            self.begun = {name: list(values) for name, values in choices.items()}
            self.store.add_to_contract(self.name, BEGUN, [[name, list(v)] for name, v in choices.items()])

    def keep_failed_baseline(self, error: TargetError) -> None:
        """Note that the target itself failed, so that ``advisor report`` can say so."""
        if self.store is None or self.store.load_study(self.name) is not None:
            return
        self.store.create_study(self.name, {"target": self.settings.target.name})
        cause: Cause = cast(Cause, error.code) if error.code in get_args(Cause) else "user_error"
        trial = Trial(
            number=0, config={}, stage="baseline", state="failed", cause=cause, message=error.message
        )
        self.store.record(self.name, trial)
        self.store.mark_status(self.name, "failed")

    def next_number(self) -> int:
        """The first number that no trial of the study has."""
        return 1 if self.store is None else max(1, self.store.next_number(self.name))

    def optuna(self, step_s: float) -> "optuna.Study":
        """Optuna's study, in the same storage, with its sampler.

        The seed also counts the trials so far: a resumed study would draw the same numbers again.

        Args:
            step_s: Seconds of a step. A Gaussian process needs fewer trials than TPE but 26 to 71 ms for a
                proposal, and more with every trial (measurement.md, section 5): slow steps are worth it.
        """
        import optuna

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        if self.store is None:
            study = optuna.create_study(direction="maximize")
        else:
            study = self.store.optuna_study(self.name, None)
        few = self.settings.trials is None or self.settings.trials <= GP_TRIALS
        seed = (self.settings.seed + len(study.get_trials(deepcopy=False))) % 2**32
        study.sampler = (
            optuna.samplers.GPSampler(seed=seed)
            if step_s > GP_STEP_S and few
            else optuna.samplers.TPESampler(seed=seed)
        )
        return study

    def guarded(self) -> AbstractContextManager[None]:
        """Around calls of Optuna's study: errors of the storage are told plainly."""
        return nullcontext() if self.store is None else self.store.guarded()

    def digest(self) -> str:
        """Digest of the target and of the project files it imports."""
        return request_digest(self.settings.target)

    def result(self) -> ResultData | None:
        """What earlier parts of the study found, if they got that far."""
        return None if self.store is None else self.store.result(self.name)

    def save(self, result: ResultData) -> None:
        """Keep the result."""
        if self.store is None:
            self.logs_told = any(trial.log or trial.state == "failed" for trial in result.trials)
            return
        hit("result.before")
        self.store.save_result(self.name, result)
        hit("result.after")
        stopped = result.budget.stopped_by == "interrupted"
        self.store.mark_status(self.name, "interrupted" if stopped else "complete")

    def save_partial(self, result: ResultData) -> None:
        """Keep what is known so far beside the trials, in case this process is killed."""
        if self.store is not None:
            self.store.save_result(self.name, result, finished=False)


def measured_of(
    finished: Sequence[tuple[Trial, float | None]], comparisons: Sequence[StoredComparison]
) -> Measured:
    """The measurement cache of a stored study.

    Args:
        finished: Trial and score, in the order in which they ended.
        comparisons: What was measured of confirmations.
    """
    measured = Measured()
    for trial, score in finished:
        config = Configuration(trial.config)
        if trial.cause == "killed":
            measured.interrupted.append(config)
        elif trial.cause is not None and stays_failed(trial.cause, trial.message):
            measured.failures[config] = trial.cause
        elif trial.state == "complete" and score is not None:
            measured.scores.setdefault(config, []).append(score)
    for each in comparisons:
        if each.kind == "confirm":
            config = Configuration.from_key(each.data["key"])
            places = [Where(*place) for place in each.data.get("where", ())]
            for log_ratios, where in zip_longest(each.data["instances"], places):
                measured.add_instance(config, log_ratios, where)
        elif each.kind == "ablate":
            told = each.data["contributions"]
            config = Configuration.from_key(each.data["key"])
            measured.contributions[config] = {n: Estimate(**of) for n, of in told.items()}
    return measured


def contract_of(
    settings: Settings, machine: Machine, choices: Mapping[str, Sequence[Value]]
) -> dict[str, Any]:
    """What a study of these settings is about, on one machine and in one search space."""
    request = settings.target
    is_file = request.kind in ("script", "workload")
    return study_contract(
        objective=settings.objective,
        direction="maximize",
        space=choices,
        target=request.name,
        files=digests_of_target(Path(request.name)) if is_file else {request.name: request_digest(request)},
        machine=machine,
        advisor_version=version("torch-advisor"),
        args=request.args,
        fix=settings.fixed,
        strategy=str(settings.fixed.get("strategy", "single")),
        ranks=settings.ranks or (1,),
        seed=settings.seed,
        asked=_asked(settings),
    )


def _asked(settings: Settings) -> dict[str, str]:
    """What the user asked for of the space, as the options are written."""
    options = {"--max-batch": settings.max_batch, "--max-memory": settings.max_memory}
    asked = {name: str(value) for name, value in options.items() if value is not None}
    if settings.latency_limit_s is not None:
        asked["--latency-limit"] = f"{1e3 * settings.latency_limit_s:g}ms"
    for name, values in settings.knobs.items():
        asked[f"--knob {name}"] = ", ".join(map(str, values)) if values else "its own choices"
    return asked | ({"--keep-batch": "given"} if settings.keep_batch else {})


def study_folder(study: str, base: Path) -> Path:
    """A new folder of a study's logs below ``base`` (0700)."""
    base.mkdir(mode=0o700, parents=True, exist_ok=True)
    stamp = time.strftime("%Y%m%d-%H%M%S")
    return Path(tempfile.mkdtemp(prefix=f"{study}-{stamp}-", dir=base)).absolute()
