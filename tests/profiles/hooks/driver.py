"""Runs programs bare and watched, each in a process forked from this one, which has imported torch.

Usage: ``driver.py FOLDER JOBS`` with jobs as JSON: ``[{"name", "script", "args", "mode", "change"}]``.
For each job FOLDER gets ``NAME.out`` (what the program printed) and, if watched, ``NAME.json``.
"""

import dataclasses
import gc
import json
import os
import sys
import traceback
from contextlib import AbstractContextManager
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
import torch._dynamo  # at the first update torch would import it in each child

from advisor.profiles.events import Run
from advisor.profiles.facts.machine import Machine
from advisor.profiles.hooks.patches import Patch
from advisor.profiles.hooks.step.clock import Clock, Step
from advisor.profiles.hooks.watch import Watch

MACHINE = Machine(cpus_allowed=1, physical_cores=1, memory_bytes=0, shm_bytes=0, torch_default_threads=1)


def overwritten() -> list[str]:
    """Attributes of which a patch that is in place is no longer the value."""
    patches = [each for each in gc.get_objects() if type(each) is Patch and each.installed]
    assert patches
    return [patch._name for patch in patches if vars(patch._owner).get(patch._name) is not patch.replacement]


class Change:
    """A subscriber; ``config`` names it ``change`` and sets it to ``on``."""

    layer = 0

    def __init__(self) -> None:
        self.calls: list[str] = []

    def prepare(self, config: Any, present: Any) -> None:
        """Nothing depends on other settings."""


class Autocast(Change):
    def forward(self, root: Any, value: Any) -> AbstractContextManager[Any]:
        self.calls.append(type(root).__name__)
        return torch.autocast("cpu", dtype=torch.bfloat16)

    def output(self, root: Any, output: Any, value: Any) -> Any:
        return tuple(part.float() for part in output) if isinstance(output, tuple) else output.float()


class ScaledRate(Change):
    def step(self, optimizer: Any, value: Any) -> AbstractContextManager[Any]:
        return _Scaled(optimizer)


class _Scaled(AbstractContextManager[None]):
    def __init__(self, optimizer: Any) -> None:
        self.groups = optimizer.param_groups

    def __enter__(self) -> None:
        self.kept = [group["lr"] for group in self.groups]
        for group in self.groups:
            group["lr"] *= 0.5

    def __exit__(self, *_: Any) -> None:
        for group, rate in zip(self.groups, self.kept, strict=True):
            group["lr"] = rate


class Workers(Change):
    def loader(self, arguments: dict[str, Any], value: Any) -> None:
        arguments["num_workers"] = 1
        self.calls.append("loader")


class NoWorkers(Change):
    def loader(self, arguments: dict[str, Any], value: Any) -> None:
        arguments["num_workers"] = 0


class Doubled(Change):
    def loader(self, arguments: dict[str, Any], value: Any) -> None:
        if arguments.get("batch_sampler") is not None:
            raise LookupError("batches come from the program's own sampler")
        arguments["batch_size"] = 2 * arguments.get("batch_size", 1)


class Skipping(Change):
    def gradients(self, optimizer: Any, value: Any) -> bool:
        return False


class Compiled(Change):
    def call(self, function: Any, root: Any, value: Any) -> Any:
        self.calls.append(type(root).__name__)
        return torch.compile(function, backend="eager")


class Scaling(Change):
    """Doubles every loss and halves every gradient: nothing may change."""

    def model(self, root: Any, value: Any) -> Any:
        self.calls.append(type(root).__name__)
        for parameter in root.parameters():
            parameter.register_hook(lambda gradient: gradient / 2)
        return root

    def backward(self, loss: Any, value: Any) -> Any:
        return loss * 2


class Wrapped(Change):
    def batches(self, iterator: Any, value: Any) -> Any:
        for batch in iterator:
            self.calls.append("batch")
            yield batch


class Events(Change):
    """Changes nothing, and notes the events in their order."""

    def process(self, value: Any) -> None:
        self.calls.append("process")

    def loader(self, arguments: Any, value: Any) -> None:
        self.calls.append("loader")

    def model(self, root: Any, value: Any) -> Any:
        self.calls.append(f"model {type(root).__name__}")
        return root

    def optimizer(self, optimizer: Any, value: Any) -> None:
        self.calls.append(f"optimizer {type(optimizer).__name__}")

    def clear(self, optimizer: Any, value: Any) -> None:
        self.calls.append("clear")


CHANGES = {
    kind.__name__: kind
    for kind in (
        Autocast, ScaledRate, Workers, NoWorkers, Doubled, Skipping, Compiled, Scaling, Wrapped, Events,
    )
}  # fmt: skip


def run_script(path: str, args: list[str]) -> None:
    main = ModuleType("__main__")
    main.__file__ = path
    main.__spec__ = None
    sys.modules["__main__"] = main
    sys.argv = [path, *args]
    sys.path[0] = str(Path(path).parent)
    exec(compile(Path(path).read_text(), path, "exec", dont_inherit=True), main.__dict__)


def watched(job: dict[str, Any], report: Path) -> None:
    change = CHANGES[job["change"]]() if job.get("change") else None
    run = Run({"change": change} if change else {}, {"change": "off"} if change else {}, LookupError)
    run.configure({"change": "on"} if change else {})
    steps: list[Step] = []
    clock = Clock(steps.append)
    watch = Watch(run, clock, seed=job.get("seed"), seed_offset=job.get("seed_offset", 0))
    watch.num_norms = 64
    watch.install()
    run_script(job["script"], job.get("args", []))
    seen = {
        "missing": overwritten(),
        "profile": dataclasses.asdict(watch.profile(MACHINE, "script")),
        "steps": [
            step._asdict() | {"flags": sorted(step.flags), "phases_ns": step.phases_ns} for step in steps
        ],
        "losses": watch.losses(),
        "grad_norms": watch.grad_norms(),
        "asked": [record.facts().num_workers for record in watch.loaders()],
        "effective": [record.effective for record in watch.loaders()],
        "applied": sorted(run.applied),
        "refused": run.refused,
        "unanswered": run.unanswered(),
        "calls": change.calls if change else [],
        "recompiled": _recompiled(),
    }
    watch.remove()
    report.write_text(json.dumps(seen))


def _recompiled() -> int:
    utils: Any = sys.modules.get("torch._dynamo.utils")
    return utils.counters["stats"]["unique_graphs"] if utils else 0


def run_job(folder: Path, job: dict[str, Any]) -> int:
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    code = 1
    try:
        place = folder / job["name"]
        place.mkdir()
        os.chdir(place)
        output = os.open(folder / f"{job['name']}.out", os.O_WRONLY | os.O_CREAT)
        os.dup2(output, 1)
        if job["mode"] == "bare":
            run_script(job["script"], job.get("args", []))
        else:
            watched(job, folder / f"{job['name']}.json")
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(code)


if __name__ == "__main__":
    torch.set_num_threads(1)
    gc.freeze()  # the hooks look at every object that the collector knows
    for each in json.loads(sys.argv[2]):
        if run_job(Path(sys.argv[1]), each):
            sys.exit(f"{each['name']} failed")
