"""Runs functions in forked processes that have torch loaded, and a workload under a strategy in several."""

import multiprocessing
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from advisor.workloads.workload import Workload

PRELOAD = [
    "pytest", "torch", "torch._dynamo", "advisor.profiles.hooks.watch", "advisor.tuners.trial.loop",
    "advisor.tuners.mechanisms.parameter_server.key_value",
    "advisor.tuners.mechanisms.parameter_server.key_value_server",
    "advisor.tuners.trial.script_ranks", "advisor.tuners.strategies",
    # what a strategy imports when a model is wrapped
    "torch.distributed.algorithms.ddp_comm_hooks.default_hooks", "torch.distributed.optim",
    "torch.distributed.algorithms.model_averaging.averagers", "torch.distributed.pipelining",
    "torch.nn.attention.flex_attention", "advisor.tuners.mechanisms.pipeline.pipelined",
    "advisor.tuners.mechanisms.pipeline.stage_proof", "advisor.tuners.mechanisms.tensor.sharded",
    "advisor.tuners.mechanisms.tensor.tensor_plan", "advisor.tuners.mechanisms.tensor.split_attention",
]  # fmt: skip


def answers_of(
    target: Callable[..., None], each: Sequence[tuple[Any, ...]], *, count: int, limit_s: float = 60.0
) -> list[Any]:
    """What the first ``count`` processes that answer put into the queue, in that order; then all are ended.

    Args:
        target: A function at the top level of a module; takes the queue and its arguments.
        each: The arguments of each process.
        count: Answers to wait for.
        limit_s: After it the test fails.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOAD)  # the server is one for all tests of this process
    answers = context.Queue()
    processes = [context.Process(target=target, args=(answers, *own), daemon=True) for own in each]
    for process in processes:
        process.start()
    try:
        return [answers.get(timeout=limit_s) for _ in range(count)]
    finally:
        for process in processes:
            process.kill()
            process.join()


@dataclass
class Told:
    """What one worker told: its losses per micro-batch, the parameters at the end, the strategy's report."""

    rank: int
    losses: list[float] = field(default_factory=list)
    parameters: dict[str, list[float]] = field(default_factory=dict)
    report: dict[str, Any] = field(default_factory=dict)
    error: str | None = None


def run_ranks(
    strategy: str,
    workload: Callable[[], Workload],
    folder: Path,
    *,
    steps: int = 10,
    workers: int = 2,
    servers: int = 0,
    config: Mapping[str, int | str] | None = None,
    learning: bool = True,
    limit_s: float = 120.0,
) -> list[Told]:
    """Train for ``steps`` micro-batches in ``workers`` processes beside ``servers``; what the workers told.

    Args:
        strategy: Its id.
        workload: A function at the top level of a module, which makes what is trained.
        folder: Where the processes meet; empty.
        steps: Micro-batches.
        workers: Processes that train.
        servers: Processes that serve them.
        config: Values of the strategy's settings.
        learning: All ranks draw whole batches and take their shares, as for comparing numbers.
        limit_s: After it every process is killed and the test fails.
    """
    made = {"strategy": strategy, "ranks": workers, **(config or {})}
    each = [
        (strategy, workload, str(folder), rank, workers, servers, made, steps, learning)
        for rank in range(workers + servers)
    ]
    told = answers_of(_rank, each, count=workers, limit_s=limit_s)
    errors = [each.error for each in told if each.error]
    assert not errors, errors[0]
    return sorted(told, key=lambda each: each.rank)


def _rank(
    answers: Any,
    strategy: str,
    workload: Callable[[], Workload],
    folder: str,
    rank: int,
    workers: int,
    servers: int,
    config: Mapping[str, int | str],
    steps: int,
    learning: bool,
) -> None:
    import torch

    from advisor.tuners.place import HERE, Place
    from advisor.tuners.strategies import STRATEGIES
    from advisor.tuners.trial.loop import train

    torch.set_num_threads(1)
    torch.manual_seed(0)
    told = Told(rank)
    try:
        HERE.place = Place(rank, workers, servers, f"{folder}/rendezvous", learning=learning)
        HERE.config = config
        HERE.join()
        used = STRATEGIES[strategy]
        described = workload()
        if HERE.place.serves:
            used.serve(described)
            return
        models: list[torch.nn.Module] = []
        wrap, forward_backward = used.wrap, used.forward_backward

        def keep(model: torch.nn.Module) -> torch.nn.Module:
            models.append(wrap(model))
            return models[-1]

        def note(loss: Any, model: Any, batch: Any, divisor: float) -> None:
            def noted(*arguments: Any) -> torch.Tensor:
                value: torch.Tensor = loss(*arguments)
                told.losses.append(float(value))
                return value

            forward_backward(noted, model, batch, divisor)

        used.wrap, used.forward_backward = keep, note  # type: ignore[method-assign]
        train(described, "cpu", steps, used)
        told.report = used.report()
        for name, value in models[0].named_parameters():
            whole = value.full_tensor() if hasattr(value, "full_tensor") else value
            told.parameters[name.removeprefix("module.")] = whole.detach().flatten().tolist()
    except BaseException:  # the test shows it
        told.error = traceback.format_exc()
    answers.put(told)
