"""The parent's side of one trial: start it, talk to it, watch its deadlines, end its whole tree.

A ``Session`` is one live trial that runs slots on command. Scripts get a process of their own;
workloads a fork of a warm process that has torch and the workload imported and has done no work.
"""

import json
import os
import select
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from advisor.tuners import isolation, supervise
from advisor.tuners.channel import Channel, ChannelClosed
from advisor.tuners.failures import Failure, TrialFailed, from_exit
from advisor.tuners.measure import Slot
from advisor.tuners.spec import Target, TrialSpec, read_outcome
from advisor.tuners.zygote import Zygote

TICK_S = 0.5  # how often a wait looks up; rarer than a core would notice
STOP_GRACE_S = 10.0  # after the outcome is written
PRIVATE = ("ADVISOR_STORAGE",)  # of our own environment; may hold a password


class Interrupted(Exception):
    """The user asked to stop; what was measured is kept."""


class SessionEnded(Exception):
    """The program came to its own end before it was told to stop."""

    def __init__(self, outcome: dict[str, Any]) -> None:
        super().__init__("the program ended")
        self.outcome = outcome


@dataclass
class Limits:
    """Deadlines in seconds, per phase; see reliability.md, section 3.5."""

    start_s: float = 300.0
    compile_s: float = 300.0
    step_s: float | None = None

    def for_steps(self, steps: int) -> float:
        """For that many steps: generous until the baseline's step is known."""
        if self.step_s is None:
            return self.start_s + 60.0 * steps
        return max(60.0, 20 * self.step_s) + 3 * self.step_s * steps


@dataclass
class Launcher:
    """Starts sessions of one target.

    Attributes:
        folder: Where trial folders are made (0700), one per process started.
        waiting: Called while waiting, with what is waited for and for how long; may raise
            ``Interrupted``.
        launches: Processes started so far.
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
    _zygote: Zygote | None = None
    _sessions: list["Session"] = field(default_factory=list)

    def __enter__(self) -> "Launcher":
        supervise.become_subreaper()
        if self.target.kind in ("workload", "objects"):
            self._zygote = Zygote(self.target, self.folder, self._environment({}), self.waiting)
        return self

    def __exit__(self, *exception: object) -> None:
        for session in list(self._sessions):
            session.kill()
        if self._zygote is not None:
            self._zygote.close()

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
    ) -> "Session":
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

    def forget(self, session: "Session") -> None:
        """A session has ended."""
        if session in self._sessions:
            self._sessions.remove(session)

    def _spawn(
        self, folder: Path, environment: Mapping[str, str], channel: int, status: int, control: int
    ) -> "subprocess.Popen[bytes]":
        command = [
            sys.executable, "-I", "-S", supervise.__file__, "--parent", str(os.getpid()),
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
        return environment


class Session:
    """One live trial. Every method raises ``TrialFailed`` or ``SessionEnded`` when it is over."""

    def __init__(
        self,
        launcher: Launcher,
        spec: TrialSpec,
        folder: Path,
        channel: Channel,
        status: int,
        control: int,
        process: "subprocess.Popen[bytes] | None",
    ) -> None:
        self._launcher = launcher
        self.spec = spec
        self.folder = folder
        self._channel = channel
        self._status = status
        self._control: int | None = control
        self._process = process
        self._phase = "start"
        self._phase_began = time.monotonic()
        self._outcome: dict[str, Any] | None = None
        self._asked = False
        self.startup_s: float | None = None
        self.last: dict[str, Any] = {}

    @property
    def outcome(self) -> dict[str, Any] | None:
        """What the program left, once it has ended."""
        return self._outcome

    @property
    def alive(self) -> bool:
        """Whether it can still run slots."""
        return self._control is not None

    def first_step(self) -> float:
        """Wait until the program has closed its first step; seconds since its start."""
        message = self._await("first_step", self._launcher.limits.start_s)
        self.startup_s = float(message["startup_s"])
        return self.startup_s

    def slot(
        self, steps: int, *, drop: int = 1, config: Mapping[str, int | str] | None = None, limit_s: float = 60.0
    ) -> Slot:
        """Run ``drop`` steps unmeasured, then measure ``steps``; ``config`` switches live knobs before.

        After ``limit_s`` seconds the slot ends with the steps it has, at least one.

        The full message is kept in ``last``.

        Raises:
            TrialFailed: Also when a knob asked for is neither applied nor refused (``not_applied``).
        """
        changed = None if config is None else dict(config)
        self._channel_send(do="slot", steps=steps, drop=drop, keep=[], config=changed, limit_s=limit_s)
        return self._measured(steps + drop)

    def window(self, steps: int, *, drop: int, limit_s: float = 600.0) -> Slot:
        """Measure ``steps`` after the first ``drop`` steps of the program, without a pause before.

        Must be the first call: a program that pauses gives its loader workers time to run ahead.
        Steps in which an epoch starts are measured like others.
        """
        self._channel_send(do="slot", steps=steps, drop=drop, keep=["epoch"], config=None, limit_s=limit_s)
        self.first_step()
        return self._measured(steps + drop)

    def _measured(self, steps: int) -> Slot:
        message = self._await("slot", self._launcher.limits.for_steps(steps))
        self.last = message
        if message["unanswered"]:
            raise TrialFailed(
                Failure("not_applied", f"neither applied nor refused: {', '.join(message['unanswered'])}")
            )
        return as_slot(message)

    def facts(self) -> dict[str, Any]:
        """Everything the hooks have seen so far."""
        self._channel_send(do="facts")
        return self._await("facts", 60.0)

    def settle(self, present: Mapping[str, int | str]) -> None:
        """Tell the child the program's own settings, observed in its first run."""
        self._channel_send(do="present", values=dict(present))

    def stop(self) -> dict[str, Any]:
        """End the program now and return its outcome."""
        if self._outcome is None:
            self._channel_send(do="stop")
            try:
                self._await("outcome", STOP_GRACE_S)
            except SessionEnded as ended:
                self._outcome = ended.outcome
        self._close()
        assert self._outcome is not None  # _await keeps it or raises
        return self._outcome

    def kill(self) -> None:
        """End the whole tree without an outcome."""
        self._asked = True
        self._close()

    def ended(self) -> dict[str, Any] | None:
        """How the process ended, as the supervisor saw it; ``None`` before that is known."""
        return self._ended

    def _channel_send(self, **message: Any) -> None:
        try:
            self._channel.send(**message)
        except ChannelClosed:
            self._fail_without_outcome()

    def _await(self, event: str, limit_s: float) -> dict[str, Any]:
        began = time.monotonic()
        self._phase_began = began
        while True:
            try:
                message = self._channel.receive(TICK_S)
            except ChannelClosed:
                self._fail_without_outcome()
            waited = time.monotonic() - self._phase_began
            if message is None:
                try:
                    self._launcher.waiting(self._phase, waited)
                except Interrupted:
                    self.kill()
                    raise
                limit = self._launcher.limits.compile_s if self._phase == "compile" else limit_s
                if waited > limit:
                    self._time_out(waited)
                continue
            kind = message.pop("event")
            if kind == "phase":
                self._phase, self._phase_began = message["name"], time.monotonic()
            elif kind == "outcome":
                self._outcome = message
                if event == "outcome" and message["failure"] is None:
                    return message
                self._over(message)
            elif kind == event:
                self._phase = "steps"
                return message

    def _over(self, outcome: dict[str, Any]) -> None:
        self._close()
        if outcome["failure"] is not None:
            raise TrialFailed(Failure(**outcome["failure"]))
        raise SessionEnded(outcome)

    def _time_out(self, waited: float) -> None:
        self._close(with_stacks=True)
        raise TrialFailed(Failure("timeout", f"no answer for {waited:.0f} s in phase {self._phase}"))

    def _fail_without_outcome(self) -> None:
        self._close()
        left = read_outcome(self.folder / "outcome.json")
        if left is not None and left.get("failure"):
            raise TrialFailed(Failure(**left["failure"]))
        ended = self._ended or {}
        raise TrialFailed(
            from_exit(
                ended.get("exit_code"), ended.get("signal"), oom_kill=bool(ended.get("oom_kill")),
                peak_rss_bytes=int(ended.get("peak_rss_bytes") or 0), asked=self._asked,
            )
        )  # fmt: skip

    def _close(self, *, with_stacks: bool = False) -> None:
        """Have the supervisor end what is left, and wait until it says so."""
        if self._control is None:
            return
        if with_stacks:
            os.write(self._control, b"kill\n")
        elif self._outcome is None:
            os.close(self._control)
        self._ended = self._read_ended()
        if with_stacks or self._outcome is not None:
            os.close(self._control)
        self._control = None
        os.close(self._status)
        self._channel.close()
        if self._process is not None:
            self._process.wait()
        self._launcher.forget(self)

    _ended: dict[str, Any] | None = None

    def _read_ended(self) -> dict[str, Any] | None:
        """The supervisor's last line. It ends what is left within its own grace, so this is bounded."""
        data = b""
        deadline = time.monotonic() + supervise.LONGEST_END_S
        while time.monotonic() < deadline:
            if not select.select([self._status], [], [], 1.0)[0]:
                continue
            part = os.read(self._status, 65536)
            if not part:
                break
            data += part
        try:
            ended = json.loads(data.splitlines()[-1])
        except (ValueError, IndexError):
            return None
        return ended if isinstance(ended, dict) else None


def as_slot(message: Mapping[str, Any]) -> Slot:
    """The numbers of a slot message that comparisons use."""
    steps = len(message["wall_ns"]) or 1
    samples = message["loader_samples"] or message["root_samples"]
    return Slot(
        step_s=tuple(value / 1e9 for value in message["wall_ns"]),
        work=samples / steps if samples else 1.0,
        cpu_s=sum(message["cpu_ns"]) / 1e9,
        other_cpu_s=message["other_cpu_s"],
        flags=tuple(sorted(message["flags"].items())),
    )


def can_isolate() -> str | None:
    """Why writes of a script cannot be kept away from its folder; ``None`` when they can."""
    return isolation.probe()
