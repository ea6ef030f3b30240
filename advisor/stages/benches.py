"""The benches of a tuning run: opened while the program runs unchanged here, taught what holds for all."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from advisor.base.settings import Clock, Settings
from advisor.result.benches import BenchUse
from advisor.stages.bench import MeasuredBench
from advisor.stages.launching import Caller, request_digest
from advisor.storage.contract import describe_machine
from advisor.tuners.benches.crew import Crew
from advisor.tuners.benches.engine import BenchLost, Engine
from advisor.tuners.benches.messages import Open, Opened, Teach
from advisor.tuners.benches.remote import RemoteBench

COMMAND = ("-m", "advisor.runs.bench_process")  # of Python, on each node
LEAST_WAIT_S = 60.0  # for the others to have run the program, after it was measured here
STARTS = 5.0  # of the program, that they may take longer


@contextmanager
def open_crew(engine: Engine | None, settings: Settings, caller: Caller, clock: Clock) -> Iterator[Crew]:
    """Have an engine open a bench on every other node; each begins to run the program at once.

    Args:
        engine: Places benches; ``None`` for the one in this process alone.
        settings: Of the run.
        caller: Is told of benches that are lost; listens to them while it waits.
        clock: Seconds, monotonic.

    Raises:
        EnvironmentProblem: The engine has no cluster.
    """
    crew = Crew(clock, caller.waiting, caller.warn)
    if engine is None:
        yield crew
        return
    try:
        sent = Open(replace(settings, out=None, storage=None, resume=False, on="here"), os.getcwd())
        for node in engine.nodes():
            if node.here:
                crew.node = node.name
                continue
            try:
                bench = RemoteBench(engine.open(node, [sys.executable, *COMMAND]), clock)
                bench.say(sent)
                crew.others.append(bench)
            except BenchLost as lost:
                crew.absent[node.name] = str(lost)
                caller.warn(f"no bench could be opened on {node.name}: {lost}")
        caller.meanwhile = crew.listen
        yield crew
    finally:
        caller.meanwhile = lambda: None
        crew.close()
        engine.close()


def opened_by(bench: MeasuredBench) -> Opened:
    """What a bench says of itself once the program has run on it."""
    machine = bench.profile.machine
    return Opened(
        machine.fingerprint,
        describe_machine(machine),
        machine.python,
        request_digest(bench.settings.target),
        bench.baseline.step_s,
        bench.baseline.aa_sigma,
        bench.baseline.startup_s,
        tuple(bench.caller.warnings),
    )


def bench_uses(bench: MeasuredBench) -> list[BenchUse]:
    """What each node did, this one first; empty where there was no other."""
    crew = bench.crew
    if not crew.others and not crew.absent:
        return []
    own = opened_by(bench)
    here = BenchUse(
        node=crew.node,
        here=True,
        group=own.described,
        fingerprint=own.fingerprint,
        step_ms=1e3 * own.step_s,
        measured=crew.ran,
        busy_seconds=crew.busy_s,
        waited_seconds=crew.waited_s,
    )
    absent = [BenchUse(node=node, left_out=why) for node, why in crew.absent.items()]
    return [here, *(_use(each) for each in crew.others), *absent]


def _use(bench: RemoteBench) -> BenchUse:
    opened = bench.opened
    return BenchUse(
        node=bench.node,
        group="" if opened is None else opened.described,
        fingerprint="" if opened is None else opened.fingerprint,
        left_out=bench.left_out,
        step_ms=None if opened is None else 1e3 * opened.step_s,
        measured=bench.ran,
        busy_seconds=bench.busy_s,
        waited_seconds=bench.idle_s,
    )


def join_crew(bench: MeasuredBench, *, limit_bytes: int | None, least: float) -> None:
    """Wait for the other benches, leave out those that are unlike this one, and teach the rest.

    Args:
        bench: The one in this process, which knows the program's own settings.
        limit_bytes: As of ``Race``.
        least: As of ``Race``.
    """
    if not bench.crew.others:
        return
    bench.progress.part("waiting for the benches on other nodes")
    teach = Teach(dict(bench.arena.present), tuple(bench.arena.switches), limit_bytes, least)
    limit_s = max(LEAST_WAIT_S, STARTS * bench.baseline.startup_s)
    bench.crew.join(opened_by(bench), teach, limit_s=limit_s)
    count = bench.crew.size
    bench.progress.say(f"measuring on {count} bench{'es' * (count > 1)}: {', '.join(bench.crew.nodes)}")
