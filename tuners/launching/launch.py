"""Starting trials of one target.

Scripts get a process of their own; workloads a fork of a warm process that has torch and the workload
imported and has done no work.
"""

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from advisor.base.errors import EnvironmentProblem
from advisor.base.fault_points import hit
from advisor.base.unit import Unit
from advisor.profiles.facts.machine import read_machine
from advisor.tuners.knobs import KNOBS
from advisor.tuners.launching.environments import environment_of, join
from advisor.tuners.launching.exec_launch import ExecLaunch
from advisor.tuners.launching.meeting import port_was_taken
from advisor.tuners.launching.rank_group import RankGroup, Running
from advisor.tuners.launching.session import Session
from advisor.tuners.launching.zygote import Zygote
from advisor.tuners.place import Place
from advisor.tuners.strategies import STRATEGIES
from advisor.tuners.supervision.adoption import Adoption
from advisor.tuners.supervision.failures import TrialFailed
from advisor.tuners.supervision.isolation import Coverage, Isolation, remove
from advisor.tuners.supervision.limits import Limits
from advisor.tuners.supervision.process_tree import KILL_WAIT_S
from advisor.tuners.trial.channel import Channel
from advisor.tuners.trial.rank_environment import OwnGroup, own_device, wants_own_group
from advisor.tuners.trial.spec import Guard, Target, TrialSpec

PRIVATE = ("ADVISOR_STORAGE",)  # of our own environment; may hold a password
PORT_TRIES = 3  # of a command on several machines, whose port somebody else may take
CACHE_VARIABLE = "TORCHINDUCTOR_CACHE_DIR"


class StuckProcess(EnvironmentProblem):
    """No signal ends a process of a trial, which may hold memory, or compute: the run ends.

    Args:
        count: How many processes are left.
        device: What they were measured on, in words.
    """

    def __init__(self, count: int, device: str) -> None:
        several = "es" if count > 1 else ""
        super().__init__(
            f"{count} process{several} of a trial did not end within {KILL_WAIT_S:.0f} s of SIGKILL: "
            f"nothing more is measured on {device} in this run",
            cause="a process that waits for a disk or a driver within the kernel cannot be ended",
            hint="`ps -eo pid,stat,wchan,args` shows it with state D; restart the machine if it stays",
            code="process_stuck",
        )


@dataclass
class Launcher:
    """Starts sessions of one target.

    Attributes:
        folder: Where trial folders are made (0700), one per process started.
        coverage: What is isolated of what trials write; ``None`` for nothing.
        allow_writes: Trials may change files of the user's that nothing isolates.
        scratch: Where a folder for each trial is made that takes what it writes, until it ends.
        unit: What runs are counted in.
        between: Of requests: the time between them counts, too.
        waiting: Called while waiting, with what is waited for and for how long; may raise
            ``Interrupted``.
        compile_cache: Where trials compile, unless the user's environment names a folder.
        keeps_cache: That folder can be used.
        launches: Processes started so far.
        files: What programs wrote, as they named it.
        connections: ``host:port`` outside this machine that programs reached out to.
        held: Descriptors of the device's locks. Supervisors inherit them: a trial may outlive us a while.
        waited_s: How long another tuner had the device.
        measures_on: The device, or the CPUs, in words.
        everywhere: Of a command that spans several machines the ranks of all of them are measured, so that
            settings reach them; else those of this machine, the others run as they are.
    """

    target: Target
    folder: Path
    seed: int = 0
    device: str = "auto"
    coverage: Coverage | None = None
    allow_writes: bool = True
    compile_cache: Path | None = None
    keeps_cache: bool = True
    scratch: Path | None = None
    held: tuple[int, ...] = ()
    waited_s: float = 0.0
    measures_on: str = "this machine"
    everywhere: bool = False
    unit: Unit = Unit.STEP
    between: bool = False
    waiting: Callable[[str, float], None] = lambda what, seconds: None
    limits: Limits = field(default_factory=Limits)
    launches: int = 0
    files: set[str] = field(default_factory=set)
    connections: set[str] = field(default_factory=set)
    _zygote: Zygote | None = None
    adoption: Adoption = field(default_factory=Adoption)
    _sessions: list[Session] = field(default_factory=list)
    _commands: list[ExecLaunch] = field(default_factory=list)
    _groups: dict[Path, OwnGroup] = field(default_factory=dict)
    _stuck: StuckProcess | None = None

    def __enter__(self) -> "Launcher":
        self.adoption.open()
        try:
            if self.target.kind in ("workload", "objects"):
                self._zygote = Zygote(
                    self.target,
                    self.folder,
                    self._environment({}, self.folder / "zygote"),
                    self.waiting,
                    self.held,
                )
        except BaseException:
            self.adoption.close()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        for session in list(self._sessions):
            session.kill()
        for command in self._commands:
            command.close()
        for group in self._groups.values():
            group.close()
        if self._zygote is not None:
            self._zygote.close()
        self.adoption.close()

    def start(
        self,
        number: int,
        config: Mapping[str, int | str],
        present: Mapping[str, int | str],
        *,
        training_dataset: int | None = None,
        learning_steps: int = 0,
        seed_offset: int = 0,
        nudge: int = 0,
        norms: int = 0,
        waits: bool = False,
        environment: Mapping[str, str] | None = None,
    ) -> Running:
        """Start one trial, in as many processes as its strategy needs; returns at once.

        What ``config`` asks of the environment is set here; ``environment`` holds variables beside those.

        Raises:
            TrialFailed: The workload itself cannot be loaded.
            StuckProcess: A process of an earlier trial cannot be ended.
        """
        if self._stuck is not None:
            raise self._stuck
        self.launches += 1
        folder = self.folder / f"{self.launches:05d}"
        folder.mkdir(mode=0o700, parents=True)
        spec = TrialSpec(
            number=number, target=self.target, folder=str(folder), config=dict(config), present=dict(present),
            training_dataset=training_dataset, seed=self.seed, seed_offset=seed_offset, nudge=nudge,
            device=self.device, learning_steps=learning_steps, norms=norms, waits=waits,
            isolation=self._isolation(folder), guard=self._guard(folder),
            unit=self.unit, between=self.between,
        )  # fmt: skip
        variables = environment_of(config, present, KNOBS)
        join(variables, environment or {})
        # what is so already needs no process of its own: a warm one can be forked
        variables = {name: value for name, value in variables.items() if os.environ.get(name, "") != value}
        if self.target.kind == "exec":
            return self._command(spec, variables)
        workers = int(config.get("ranks", 1))
        if workers == 1:
            return self._launch(spec, variables)
        return self._ranks(spec, workers, variables)

    def _ranks(self, spec: TrialSpec, workers: int, environment: Mapping[str, str]) -> RankGroup:
        """Start a process for each rank, and the servers that their strategy has."""
        strategy = STRATEGIES[str(spec.config.get("strategy", "single"))]
        sessions: list[Session] = []
        own = self._own_group(Path(spec.folder), workers)
        try:
            gpus = len(read_machine().gpus)
            for place in places(spec, workers, strategy.servers(spec.config), gpus):
                folder = Path(spec.folder) / f"rank-{place.rank}"
                folder.mkdir(mode=0o700)
                ranked = replace(spec, folder=str(folder), place=place, device=place.device)
                more = (
                    own.environment(place.rank) if own is not None else own_device(place.device, os.environ)
                )
                workload = self.target.kind in ("workload", "objects")
                sessions.append(self._launch(ranked, environment if workload else {**environment, **more}))
        except BaseException:
            for session in sessions:
                session.kill()
            raise
        return RankGroup(sessions[:workers], sessions[workers:], strategy.losses, strategy.splits_batch)

    def _own_group(self, folder: Path, workers: int) -> OwnGroup | None:
        """What a script that makes its process group itself reads from its environment."""
        if self.target.kind != "script" or not wants_own_group(Path(self.target.name)):
            return None
        group = OwnGroup(workers, threads=max(1, len(os.sched_getaffinity(0)) // workers))
        self._groups[folder] = group
        return group

    def _command(self, spec: TrialSpec, environment: Mapping[str, str]) -> Running:
        """Start a launcher's command; returns when all ranks that it starts have come."""
        command = (self.target.name, *self.target.args)
        folder = Path(spec.folder)
        for tries in range(1, PORT_TRIES + 1):
            options = [] if spec.isolation is None else spec.isolation.options
            launch = ExecLaunch(
                command, spec, self._environment(environment, folder), options, self.held,
                asked=environment if self.everywhere or spec.config else None, guards=not self.allow_writes,
            )  # fmt: skip
            self._commands.append(launch)
            try:
                ranks = launch.ranks(self.limits.start_s, self.waiting)
                break
            except TrialFailed:
                is_taken = launch.has_port and port_was_taken(folder / "stderr.log")
                if tries == PORT_TRIES or not is_taken:
                    raise
        sessions = [
            Session(self, rank.spec, rank.folder, rank.channel, rank.status, rank.control, None)
            for rank in ranks
        ]
        self._sessions += sessions
        return sessions[0] if len(sessions) == 1 else RankGroup(sessions)

    def _launch(self, spec: TrialSpec, environment: Mapping[str, str]) -> Session:
        """Start one process."""
        folder = Path(spec.folder)
        spec.write(folder / "trial.json")
        ours, theirs = socket.socketpair()
        status_read, status_write = os.pipe()
        control_read, control_write = os.pipe()
        process: subprocess.Popen[bytes] | None = None
        hit("spawn.before")
        try:
            forks = self._zygote is not None and self._zygote.can_fork
            if self._zygote is not None and forks and not environment:
                self._zygote.fork(folder / "trial.json", theirs.fileno(), status_write, control_read)
            else:
                process = self._spawn(spec, environment, theirs.fileno(), status_write, control_read)
        finally:
            theirs.close()
            os.close(status_write)
            os.close(control_read)
        session = Session(self, spec, folder, Channel(ours), status_read, control_write, process)
        self._sessions.append(session)
        hit("spawn.after")
        return session

    def forget(self, session: Session) -> None:
        """A session has ended; what it wrote and where it connected is remembered."""
        if session in self._sessions:
            self._sessions.remove(session)
        trial = session.folder.parent
        if trial in self._groups and not any(other.folder.parent == trial for other in self._sessions):
            self._groups.pop(trial).close()
        own = self._scratch(session.folder)
        if not any(self._scratch(other.folder) == own for other in self._sessions):
            for command in self._commands:
                if self._scratch(command.folder) == own:
                    command.close()
            remove(own)
            if session.spec.guard is not None:
                session.spec.guard.clean()
        if session.outcome is not None:
            self.files.update(session.outcome.files)
            self.connections.update(session.outcome.connections)

    def end_orphans(self) -> None:
        """End what a trial left whose supervisor was killed; other trials live on."""
        supervisors = [session.supervisor for session in self._sessions]
        supervisors += [command.supervisor for command in self._commands]
        if self._zygote is not None:
            supervisors.append(self._zygote.supervisor)
            self._zygote.end_orphans()
        left = self.adoption.end_orphans([pid for pid in supervisors if pid is not None])
        if left:
            self.stuck(left)

    def stuck(self, count: int) -> None:
        """So many processes cannot be ended, and would disturb what is measured beside them: the run ends."""
        if self._stuck is None:
            self._stuck = StuckProcess(count, self.measures_on)
            for session in list(self._sessions):
                session.kill()

    def _spawn(
        self, spec: TrialSpec, environment: Mapping[str, str], channel: int, status: int, control: int
    ) -> "subprocess.Popen[bytes]":
        folder, isolating = Path(spec.folder), [] if spec.isolation is None else spec.isolation.options
        command = [
            sys.executable, "-P", "-m", "advisor.tuners.supervision.supervise", "--parent", str(os.getpid()),
            "--stdout", str(folder / "stdout.log"), "--stderr", str(folder / "stderr.log"),
            "--status-fd", str(status), "--control-fd", str(control), "--pass-fd", str(channel),
        ]  # fmt: skip
        command += [*isolating, "--", sys.executable, "-P", "-m", "advisor.tuners.trial.trial"]
        command += ["--spec", str(folder / "trial.json"), "--fd", str(channel)]
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, pass_fds=(channel, status, control, *self.held),
            cwd=self.target.cwd, env=self._environment(environment, folder), start_new_session=True,
        )  # fmt: skip

    def _isolation(self, folder: Path) -> Isolation | None:
        """What keeps the writes of the trial in this folder apart, with the folders that must reach us."""
        if self.coverage is None:
            return None
        kept = [folder]
        if self.compile_cache is not None:
            kept += [
                path
                for path in (self.compile_cache, self._compiles_into(self.compile_cache))
                if path.exists()
            ]
        names = sorted({str(path) for path in kept})
        scratch = str(self._scratch(folder))
        return Isolation(self.coverage.roots, scratch, tuple(names), self.coverage.in_memory)

    def _guard(self, folder: Path) -> Guard | None:
        if self.allow_writes or (self.coverage is not None and self.coverage.is_complete):
            return None
        own = [self.folder, self._scratch(folder)]
        if self.compile_cache is not None:
            own.append(self._compiles_into(self.compile_cache))
        ours = tuple(map(str, own))
        return Guard(self.coverage or Coverage(()), ours, str(folder / "created"))

    def _scratch(self, folder: Path) -> Path:
        """Takes what the trial writes whose folder this is, or that of one of its ranks."""
        return (self.scratch or self.folder / "written") / folder.relative_to(self.folder).parts[0]

    def _compiles_into(self, cache: Path) -> Path:
        named = os.environ.get(CACHE_VARIABLE) if self.keeps_cache else None
        return Path(named or cache)

    def _environment(self, extra: Mapping[str, str], folder: Path) -> dict[str, str]:
        from advisor.profiles.hooks.surroundings import trackers

        environment = {name: value for name, value in os.environ.items() if name not in PRIVATE}
        scratch = self.folder / "scratch"
        scratch.mkdir(mode=0o700, parents=True, exist_ok=True)
        trackers.silence(environment, scratch)
        if self.coverage is None:  # an overlay lies over the usual folder
            trackers.use_temporary(environment, self._scratch(folder) / "tmp")
        if self.compile_cache is not None:
            environment[CACHE_VARIABLE] = str(self._compiles_into(self.compile_cache))
        environment.update(extra)
        environment.update(self.adoption.environment)
        return environment


def places(spec: TrialSpec, workers: int, servers: int, present: int = 0) -> list[Place]:
    """Where each process of a trial stands: workers on devices, or disjoint cores, of their own.

    Servers share the cores of all.

    Args:
        spec: What all of them are to do.
        workers: How many train.
        servers: How many serve them.
        present: GPUs that there are.
    """
    cpus = sorted(os.sched_getaffinity(0))
    each = max(1, len(cpus) // workers)
    compiles = str(spec.config.get("execution", "")).startswith("compile")
    patience = Limits.compile_s if compiles else Place.timeout_s  # a rank may compile longer than the others
    gpus = [] if spec.device == "cpu" else [f"cuda:{number}" for number in range(present)]
    return [
        Place(
            rank,
            workers,
            servers,
            rendezvous=str(Path(spec.folder) / "rendezvous"),
            device=gpus[rank] if rank < min(workers, len(gpus)) else "cpu",
            cpus=() if gpus or rank >= workers else tuple(cpus[rank * each : (rank + 1) * each]),
            learning=spec.learning_steps > 0,
            on_devices=bool(gpus),
            timeout_s=patience,
        )
        for rank in range(workers + servers)
    ]
