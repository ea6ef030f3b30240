"""A worker as a process, real but for its measurements: those are made up from the configuration.

Started as ``python scripted_worker.py --url URL --study NAME --target FILE ...``; tells its report as JSON.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from result_builder import a_ratio, a_result

from advisor.bench import Bench
from advisor.errors import AdvisorError
from advisor.lease_times import LeaseTimes
from advisor.profiles.machine import Machine
from advisor.profiles.profile import Profile
from advisor.progress import PlainProgress
from advisor.result import ResultData, Trial
from advisor.settings import Settings, TargetRequest
from advisor.signals import StopRequests
from advisor.storage_url import parse_storage
from advisor.tuners.failures import Failure, TrialFailed
from advisor.tuners.knob import Value
from advisor.tuners.record import TrialRecord
from advisor.tuners.search import StoppedBy
from advisor.tuners.space import Space
from advisor.worker import Report, Worker

LOOK_S = 0.1
CHOICES: dict[str, list[Value]] = {"alpha": list(range(20)), "beta": list(range(10))}


def a_machine(model: str = "scripted") -> Machine:
    return Machine(
        cpus_allowed=1, physical_cores=1, memory_bytes=2**30, shm_bytes=2**20, cpu_model=model,
        platform="Linux x86_64", torch="2.13.0",
    )  # fmt: skip


def a_space(machine: Machine, choices: dict[str, list[Value]] = CHOICES) -> Space:
    present = {name: values[0] for name, values in choices.items()}
    return Space(present, present, choices, [], Profile(machine))


@dataclass
class ScriptedBench:
    """Alpha gains a percent a step; a beta of ``failing`` fails; a trial takes ``seconds``.

    ``waiting`` is called meanwhile, as real measurements do.
    """

    machine: Machine = field(default_factory=a_machine)
    seconds: float = 0.0
    failing: int | None = None
    choices: dict[str, list[Value]] = field(default_factory=lambda: CHOICES)
    run: list[dict[str, Value]] = field(default_factory=list)
    closed: bool = False
    waiting: Callable[[str, float], None] | None = None

    def open(self) -> tuple[Machine, Space]:
        return self.machine, a_space(self.machine, self.choices)

    def measure(self, record: TrialRecord, deadline: float) -> Trial:
        self.run.append(record.config)
        until = time.monotonic() + self.seconds
        while (left := until - time.monotonic()) > 0:
            if self.waiting is not None:
                self.waiting("steps", self.seconds - left)
            time.sleep(min(left, LOOK_S))
        if self.failing is not None and record.config.get("beta") == self.failing:
            raise TrialFailed(Failure("oom_device", "scripted"))
        gain = 1 + int(record.config["alpha"]) / 100
        ratio = a_ratio(gain, gain * 0.99, gain * 1.01)
        return Trial(number=record.number, config=record.config, stage="search", against_baseline=ratio)

    def result(self, trials: list[Trial], stopped_by: StoppedBy) -> ResultData:
        found = a_result()
        return found.model_copy(update={"trials": trials, "command": ["worker"], "study": ""})

    def close(self) -> None:
        self.closed = True


def a_worker(
    url: str,
    study: str,
    target: Path,
    bench: Bench,
    *,
    trials: int | None = None,
    budget_s: float = 3600.0,
    create: bool = True,
    times: LeaseTimes | None = None,
    spool: Path | None = None,
    stop: StopRequests | None = None,
    args: tuple[str, ...] = (),
    knobs: dict[str, list[Value] | None] | None = None,
) -> Worker:
    settings = Settings(
        target=TargetRequest(kind="script", name=str(target), args=args),
        trials=trials,
        budget_s=budget_s,
        knobs=knobs or {},
    )
    return Worker(
        parse_storage(url, from_environment=True), study, settings, bench, PlainProgress(sys.stderr),
        stop or StopRequests(), spool or target.parent / "spool", create,
        times or LeaseTimes.from_environment(),
    )  # fmt: skip


def as_json(report: Report) -> str:
    return json.dumps({"trials": report.trials, "lost": report.lost, "stopped_by": report.stopped_by})


def main() -> int:
    parser = argparse.ArgumentParser()
    for name in ("--url", "--study", "--target"):
        parser.add_argument(name, required=True)
    parser.add_argument("--trials", type=int)
    parser.add_argument("--seconds", type=float, default=0.0)
    parser.add_argument("--model", default="scripted")
    parser.add_argument("--looks", action="store_true", help="look meanwhile whether to stop")
    given = parser.parse_args()
    bench = ScriptedBench(a_machine(given.model), given.seconds)
    try:
        with StopRequests() as stop:
            worker = a_worker(
                given.url, given.study, Path(given.target), bench, trials=given.trials, stop=stop
            )
            bench.waiting = worker.waiting if given.looks else None
            print(as_json(worker.run()), flush=True)
    except AdvisorError as error:
        print(error, file=sys.stderr, flush=True)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
