"""Starting trials of one target.

Scripts get a process of their own; workloads a fork of a warm process that has torch and the workload
imported and has done no work.
"""

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from advisor.tuners import isolation
from advisor.tuners.adoption import Adoption
from advisor.tuners.channel import Channel
from advisor.tuners.session import Limits, Session
from advisor.tuners.spec import Target, TrialSpec
from advisor.tuners.zygote import Zygote

PRIVATE = ("ADVISOR_STORAGE",)  # of our own environment; may hold a password


@dataclass
class Launcher:
    """Starts sessions of one target.

    Attributes:
        folder: Where trial folders are made (0700), one per process started.
        waiting: Called while waiting, with what is waited for and for how long; may raise
            ``Interrupted``.
        launches: Processes started so far.
        files: What programs wrote, as they named it.
        connections: ``host:port`` outside this machine that programs reached out to.
    """

    target: Target
    folder: Path
    seed: int = 0
    device: str = "auto"
    isolate: bool = False
    compile_cache: Path | None = None
    scratch: Path | None = None
    waiting: Callable[[str, float], None] = lambda what, seconds: None
    limits: Limits = field(default_factory=Limits)
    launches: int = 0
    files: set[str] = field(default_factory=set)
    connections: set[str] = field(default_factory=set)
    _zygote: Zygote | None = None
    adoption: Adoption = field(default_factory=Adoption)
    _sessions: list[Session] = field(default_factory=list)

    def __enter__(self) -> "Launcher":
        self.adoption.open()
        try:
            if self.target.kind in ("workload", "objects"):
                self._zygote = Zygote(self.target, self.folder, self._environment({}), self.waiting)
        except BaseException:
            self.adoption.close()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        for session in list(self._sessions):
            session.kill()
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
        environment: Mapping[str, str] | None = None,
    ) -> Session:
        """Start one trial; returns at once, the program is still starting.

        Raises:
            TrialFailed: The workload itself cannot be loaded.
        """
        self.launches += 1
        folder = self.folder / f"{self.launches:05d}"
        folder.mkdir(mode=0o700, parents=True)
        spec = TrialSpec(
            number=number, target=self.target, folder=str(folder), config=dict(config), present=dict(present),
            training_dataset=training_dataset, seed=self.seed, seed_offset=seed_offset, device=self.device,
            learning_steps=learning_steps, isolate=self.isolate,
        )  # fmt: skip
        spec.write(folder / "trial.json")
        ours, theirs = socket.socketpair()
        status_read, status_write = os.pipe()
        control_read, control_write = os.pipe()
        process: subprocess.Popen[bytes] | None = None
        try:
            if self._zygote is not None and self._zygote.can_fork and not environment:
                self._zygote.fork(folder / "trial.json", theirs.fileno(), status_write, control_read)
            else:
                process = self._spawn(folder, environment or {}, theirs.fileno(), status_write, control_read)
        finally:
            theirs.close()
            os.close(status_write)
            os.close(control_read)
        session = Session(self, spec, folder, Channel(ours), status_read, control_write, process)
        self._sessions.append(session)
        return session

    def forget(self, session: Session) -> None:
        """A session has ended; what it wrote and where it connected is remembered."""
        if session in self._sessions:
            self._sessions.remove(session)
        if session.outcome is not None:
            self.files.update(session.outcome["files"])
            self.connections.update(session.outcome["connections"])

    def end_orphans(self) -> None:
        """End what a trial left whose supervisor was killed; other trials live on."""
        supervisors = [session.supervisor for session in self._sessions]
        if self._zygote is not None:
            supervisors.append(self._zygote.supervisor)
            self._zygote.end_orphans()
        self.adoption.end_orphans([pid for pid in supervisors if pid is not None])

    def _spawn(
        self, folder: Path, environment: Mapping[str, str], channel: int, status: int, control: int
    ) -> "subprocess.Popen[bytes]":
        command = [
            sys.executable, "-P", "-m", "advisor.tuners.supervise", "--parent", str(os.getpid()),
            "--stdout", str(folder / "stdout.log"), "--stderr", str(folder / "stderr.log"),
            "--status-fd", str(status), "--control-fd", str(control), "--pass-fd", str(channel),
        ]  # fmt: skip
        if self.isolate:
            scratch = (self.scratch or self.folder) / folder.name
            scratch.mkdir(mode=0o700, parents=True, exist_ok=True)
            command += ["--overlay", self.target.cwd, "--scratch", str(scratch), "--keep", str(folder)]
            if self.compile_cache is not None:
                command += ["--keep", str(self.compile_cache)]
        command += ["--", sys.executable, "-P", "-m", "advisor.tuners.trial"]
        command += ["--spec", str(folder / "trial.json"), "--fd", str(channel)]
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, pass_fds=(channel, status, control), cwd=self.target.cwd,
            env=self._environment(environment), start_new_session=True,
        )  # fmt: skip

    def _environment(self, extra: Mapping[str, str]) -> dict[str, str]:
        from advisor.profiles.hooks import trackers

        environment = {name: value for name, value in os.environ.items() if name not in PRIVATE}
        scratch = self.folder / "scratch"
        scratch.mkdir(mode=0o700, parents=True, exist_ok=True)
        trackers.silence(environment, scratch)
        if self.compile_cache is not None:
            environment.setdefault("TORCHINDUCTOR_CACHE_DIR", str(self.compile_cache))
        environment.update(extra)
        environment.update(self.adoption.environment)
        return environment


def can_isolate(cwd: Path, scratch: Path) -> str | None:
    """Why what a script writes below ``cwd`` cannot go to ``scratch`` instead; ``None`` when it can."""
    return isolation.probe(cwd, scratch)
