"""A launcher for the target of a request: its files shipped, its writes kept apart."""

import hashlib
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from advisor.base.settings import Progress, Settings, TargetRequest, Value
from advisor.base.signals import StopRequests
from advisor.profiles.facts.machine import read_machine
from advisor.stages.device_lock import Held, holding, measured_names, shown
from advisor.stages.scratch import make_scratch
from advisor.storage.contract import default_study_name, digest_of_target
from advisor.tuners.launching.exec_command import find_wanted
from advisor.tuners.launching.launch import CACHE_VARIABLE, Launcher
from advisor.tuners.launching.session import Interrupted
from advisor.tuners.supervision.isolation import Coverage, probe
from advisor.tuners.trial.rank_environment import wants_own_group
from advisor.tuners.trial.spec import Target

SHOWN = 10  # names in a warning


@dataclass
class Caller:
    """The user of one run.

    Attributes:
        progress: Is told what happens.
        stop: Knows whether a signal came.
        warnings: All that were told, each once.
        meanwhile: Called while a wait goes on.
    """

    progress: Progress
    stop: StopRequests
    warnings: list[str] = field(default_factory=list)
    meanwhile: Callable[[], None] = lambda: None

    def waiting(self, what: str, seconds: float) -> None:
        """Tell that a wait goes on.

        Raises:
            Interrupted: The user asked to stop.
        """
        if self.stop.received is not None:
            raise Interrupted
        self.meanwhile()
        self.progress.waiting(what, seconds)

    def warn(self, text: str) -> None:
        """Tell a warning, if it was not told before."""
        if text not in self.warnings:
            self.warnings.append(text)
            self.progress.warn(text)


@contextmanager
def open_launcher(settings: Settings, folder: Path, caller: Caller) -> Iterator[Launcher]:
    """A launcher that keeps its trials in ``folder``. The device is ours until it is closed.

    Args:
        settings: What to run.
        folder: For logs, shipped objects and compiled code; private to the user.
        caller: Is told who else measures on the device, and when files that the program writes cannot be
            kept apart; may stop while we wait.

    Raises:
        EnvironmentProblem: Another tuner has the device for longer than the budget.
        TrialFailed: A workload cannot be loaded.
        Interrupted: The user asked to stop.
    """
    with ExitStack() as stack:
        yield stack.enter_context(_make_launcher(settings, folder, caller, stack))


def _make_launcher(settings: Settings, folder: Path, caller: Caller, stack: ExitStack) -> Launcher:
    names = _measured(settings)
    held = stack.enter_context(_device(names, settings, caller))
    request = settings.target
    payload = None
    if request.payload is not None:
        file = folder / "payload"
        file.touch(mode=0o600)
        file.write_bytes(request.payload)
        payload = str(file)
    name = (
        request.name if request.kind in ("module", "objects", "exec") else str(Path(request.name).absolute())
    )
    scratch = make_scratch(stack)
    cache = folder / "compile-cache"
    cache.mkdir(mode=0o700)
    named = os.environ.get(CACHE_VARIABLE)
    usable = named is None or _can_write(Path(named))
    if not usable:
        caller.warn(
            f"{CACHE_VARIABLE}={named} cannot be written: trials compile into a folder of the study instead"
        )
    return Launcher(
        Target(request.kind, name, request.args, str(Path.cwd()), payload),
        folder,
        seed=settings.seed,
        device=settings.device,
        coverage=_coverage(scratch, caller),
        allow_writes=settings.allow_writes or request.kind == "objects",
        compile_cache=cache,
        keeps_cache=usable,
        scratch=scratch,
        waiting=caller.waiting,
        held=held.descriptors,
        waited_s=held.waited_s,
        measures_on=shown(names),
        unit=settings.unit,
        between=settings.objective == "requests",
    )


def request_digest(request: TargetRequest) -> str:
    """Digest of the target's own code: ``sha256:...``; empty for an installed module."""
    if request.payload is not None:
        return "sha256:" + hashlib.sha256(request.payload).hexdigest()
    if request.kind == "exec":
        wanted = find_wanted((request.name, *request.args), Path.cwd()).file
        return digest_of_target(Path(wanted)) if wanted else ""
    return digest_of_target(Path(request.name)) if request.kind != "module" else ""


def with_own_group(
    fixed: Mapping[str, Value], request: TargetRequest, ranks: Sequence[int]
) -> dict[str, Value]:
    """What is fixed, with the ranks of a script that makes its own process group, where several are asked."""
    several = max(ranks, default=1)
    if several == 1 or request.kind != "script" or "strategy" in fixed:
        return dict(fixed)
    own: dict[str, Value] = (
        {"strategy": "ddp", "ranks": several} if wants_own_group(Path(request.name)) else {}
    )
    return {**own, **fixed}


def side_effects(launcher: Launcher) -> list[str]:
    """What the program did beside training: it was launched several times."""
    told = []
    if launcher.connections:
        told.append(f"the program connects to {', '.join(sorted(launcher.connections)[:SHOWN])}")
    if launcher.files and launcher.coverage is None and launcher.target.kind in ("script", "module"):
        told.append(f"files that it wrote: {', '.join(sorted(launcher.files)[:SHOWN])}")
    return told


def _can_write(folder: Path) -> bool:
    """Whether a program that makes this folder if need be can put files into it."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def _measured(settings: Settings) -> tuple[str, ...]:
    """What is measured on, by the names of its locks."""
    gpus = () if settings.device == "cpu" else read_machine().gpus
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    return measured_names(settings.device, [gpu.uuid for gpu in gpus], visible)


def _device(names: Sequence[str], settings: Settings, caller: Caller) -> AbstractContextManager[Held]:
    """Hold what is measured on, alone on this host."""
    return holding(
        names,
        study=settings.study or default_study_name(settings.target.name),
        limit_s=settings.budget_s,
        waiting=caller.waiting,
        say=caller.progress.say,
    )


def _coverage(scratch: Path, caller: Caller) -> Coverage | None:
    """What can be kept apart of what the program writes; told where that is not all."""
    found = probe(Path.cwd(), scratch)
    if isinstance(found, str):
        caller.warn(f"files that the program writes are not kept apart from yours: {found}")
        return None
    if found.left:
        folders = ", ".join(f"{folder} ({reason})" for folder, reason in found.left[:SHOWN])
        caller.warn(f"files that the program writes here are not kept apart from yours: {folders}")
    return found
