"""What torch.compile does in a process is told with reasons and places."""

from _thread import get_ident
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch._dynamo
from torch._dynamo.callback import callback_handler
from torch._dynamo.utils import counters

from advisor.profiles.hooks.model.compilation import Compiling
from advisor.profiles.hooks.patches import untraced


@pytest.fixture
def compiling() -> Iterator[tuple[Compiling, list[int]]]:
    """A fresh dynamo, watched; the number in the list is the steps so far."""
    torch.compile(lambda x: x + 1, backend="eager")(
        torch.ones(1)
    )  # the first of a process may count a frame more
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    torch._dynamo.utils.clear_compilation_metrics()
    before = list(callback_handler.start_callbacks), list(callback_handler.end_callbacks)
    steps = [0]
    watched = Compiling(lambda running: None, lambda: steps[0])
    watched.arm()
    yield watched, steps
    callback_handler.start_callbacks[:], callback_handler.end_callbacks[:] = before
    torch._dynamo.reset()


def test_a_function_without_a_break_is_one_graph(compiling: Any) -> None:
    watched, _ = compiling
    torch.compile(lambda x: (x * 2).sum(), backend="eager")(torch.ones(3))
    facts = watched.facts()
    assert (facts.frames, facts.compiled, facts.graphs) == (1, 1, 1)
    assert facts.seconds > 0 and facts.breaks == () and facts.breaks_per_step == 0
    assert (facts.failures, facts.limit_reached, facts.cudagraphs_skipped) == ((), False, None)


def test_a_break_is_told_with_its_line_and_reason(compiling: Any) -> None:
    watched, _ = compiling

    def broken(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        print(end="")
        return y.sum()

    compiled = torch.compile(broken, backend="eager")
    compiled(torch.ones(3))
    compiled(torch.ones(3))
    (place,) = watched.facts().breaks
    assert "print" in place.reason and "\n" not in place.reason and "Hint" not in place.reason
    assert Path(place.location.file).name == Path(__file__).name
    assert (place.location.line, place.location.function) == (broken.__code__.co_firstlineno + 2, "broken")
    assert watched.facts().breaks_per_step == 1
    assert (watched.summary()["breaks"], watched.summary()["graphs"]) == (1, 2)


def test_compilations_after_the_first_steps_are_recompilations(compiling: Any) -> None:
    watched, steps = compiling
    function = torch.compile(lambda x: x * 2, backend="eager", dynamic=False)
    function(torch.ones(3))
    function(torch.ones(4))
    assert watched.facts().recompiles_after_warmup == 0
    steps[0] = 10
    function(torch.ones(5))
    torch.compile(lambda x: x * 3, backend="eager")(torch.ones(3))  # new, not again
    facts = watched.facts()
    assert facts.recompiles_after_warmup == 1 and 0 < facts.recompile_seconds < facts.seconds


def test_at_the_limit_the_function_runs_uncompiled_and_that_is_no_other_failure(compiling: Any) -> None:
    watched, _ = compiling
    with torch._dynamo.config.patch(recompile_limit=2):
        function = torch.compile(lambda x: x * 2, backend="aot_eager", dynamic=False)
        for size in range(2, 6):
            function(torch.ones(size))
    facts = watched.facts()
    assert facts.limit_reached and facts.failures == ()
    assert any("size mismatch" in reason for reason in facts.recompile_reasons)
    assert watched.summary()["failures"]  # a trial must know that it fell back


def test_a_backend_that_fails_under_suppression_is_a_failure(compiling: Any) -> None:
    watched, _ = compiling

    def failing(graph: Any, inputs: Any) -> Any:
        raise RuntimeError("no such instruction")

    with torch._dynamo.config.patch(suppress_errors=True):
        torch.compile(lambda x: x * 2, backend=failing)(torch.ones(3))
    facts = watched.facts()
    assert facts.compiled < facts.frames and "no such instruction" in facts.failures[0]


def test_skipped_cuda_graphs_are_told(compiling: Any) -> None:
    watched, _ = compiling
    torch.compile(lambda x: x * 2, backend="eager")(torch.ones(3))
    counters["inductor"]["cudagraph_skips"] += 2
    assert watched.facts().cudagraphs_skipped == "2 graphs were skipped"


def test_without_dynamo_there_is_nothing_to_tell() -> None:
    assert Compiling(lambda running: None).facts() is None


def test_what_a_hook_of_an_update_calls_is_not_compiled(compiling: Any) -> None:
    from torch.optim import SGD
    from torch.optim.optimizer import register_optimizer_step_pre_hook

    watched, _ = compiling
    weights = [torch.ones(3, requires_grad=True)]
    optimizer = SGD(weights, 0.1)
    met: dict[int, Any] = {}

    def held(parameters: list[torch.Tensor]) -> frozenset[int]:
        return frozenset(id(each) for each in parameters)

    def before(optimizer: Any, *_: Any) -> None:
        get_ident()  # which dynamo cannot trace
        met[len(met)] = held(optimizer.param_groups[0]["params"])

    def frames(hooked: Callable[[Any], Any] | None) -> int:
        counters.clear()
        torch._dynamo.reset()  # which forgets what is not to be traced
        handle = register_optimizer_step_pre_hook(hooked(before)) if hooked is not None else None
        update = torch.compile(lambda: optimizer.step(), backend="eager")
        for _ in range(4):
            weights[0].grad = torch.ones(3)
            update()
        if handle is not None:
            handle.remove()
        found: int = watched.facts().frames
        return found

    alone = frames(None)
    assert frames(lambda hook: lambda *args: hook(*args)) > alone
    met.clear()
    assert frames(lambda hook: untraced(hook, below=True)) <= alone and len(met) == 4
