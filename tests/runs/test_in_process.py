"""``advisor.profile`` around a loop in this very process."""

import gc
import random
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from loops import Program, a_torch_profiler, state
from torch.utils.data import DataLoader, Dataset
from warm import Warm

import advisor
from advisor.base.errors import SituationError, UsageError
from advisor.report.profile_result import ProfileResult
from advisor.runs import in_process
from advisor.runs.in_process import LoopProfile

pytestmark = pytest.mark.slow


def profiled(program: Program, trained: int = 23, **options: int) -> ProfileResult:
    with advisor.profile(**options) as p:
        program.train(p, trained)
    return p.result


@pytest.fixture(scope="module")
def result() -> ProfileResult:
    return profiled(Program(shuffle=True), 40)


def test_a_loop_is_watched_looked_at_and_recorded(result: ProfileResult) -> None:
    summary = result.data.profile
    assert summary.steps == 10 and summary.notes == []
    assert {"input_wait", "forward", "backward", "optimizer"} <= summary.phases_ms.keys()
    assert all(summary.phases_ms[part] > 0 for part in ("input_wait", "forward", "backward", "optimizer"))
    assert summary.recording is not None and summary.recording.steps >= 2 and summary.rates
    assert any(row.location and "loops.py" in row.location for row in summary.operators)
    assert summary.replays == {} and "all" in summary.replays_refused


def test_what_was_made_before_the_block_is_known(result: ProfileResult) -> None:
    states = {finding.rule: finding for finding in result.findings}
    assert states["single_tensor_optimizer"].state != "not_applicable"
    assert states["input_bound"].state in ("opportunity", "diagnostic", "passed")
    assert not [finding for finding in result.findings if finding.state == "error"]
    assert result.data.baseline is not None and result.data.baseline.throughput.unit == "samples/s"
    assert result.data.target.path == __file__


def test_a_result_shows_itself_and_is_saved(result: ProfileResult, tmp_path: Path) -> None:
    assert "Time of a step" in repr(result)
    html = result._repr_mimebundle_()["text/html"]
    assert html.count("<svg") == 1 and "<script" not in html and len(html) < 200_000
    assert "### Measured" in result._repr_mimebundle_()["text/markdown"]
    files = {path.name for path in result.save(tmp_path / "report")}
    assert files == {"report.html", "result.json", "report.md"}


def test_text_of_the_program_cannot_become_html() -> None:
    found = profiled(Program(), 5, steps=2)
    found.data.profile.summary = "<script>alert(1)</script>"
    assert "<script" not in found._repr_mimebundle_()["text/html"]


@pytest.mark.parametrize("failing", [0, 5, 14, 16, 18, 21, 22, 30])
def test_what_the_block_raises_passes_and_everything_is_as_it_was(failing: int) -> None:
    program, before = Program(), state()
    iterator = iter(program.loader)
    fetcher: Any = vars(iterator)["_dataset_fetcher"]
    collate = fetcher.collate_fn

    def fail(step: int) -> None:
        if step == failing:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as caught, advisor.profile(steps=20) as p:
        program.loader = iterator  # type: ignore[assignment]  # in use already
        program.train(p, 40, fail)
    assert caught.value.__cause__ is None and caught.value.__context__ is None
    assert state() == before and fetcher.collate_fn is collate
    with pytest.raises(SituationError, match="outside the block"):
        p.step()


def test_an_exception_inside_an_update_leaves_nothing_behind() -> None:
    program, before = Program(), state()

    def fail(*arguments: Any) -> None:
        raise KeyError("hook")

    with pytest.raises(KeyError), advisor.profile(steps=10) as p:
        program.train(p, 4)
        program.sgd.register_step_post_hook(fail)
        program.train(p, 4)
    assert state() == before


def test_later_steps_run_untouched_and_the_result_is_there_at_once() -> None:
    program, before = Program(), state()
    seen: list[bool] = []
    with advisor.profile(steps=6, warmup=1) as p:
        with pytest.raises(SituationError, match="not full yet"):
            _ = p.result
        program.train(p, 12, lambda step: seen.append(state() == before))
        early = p.result
    assert seen == [False] * 6 + [True] * 6
    assert p.result is early and state() == before


def test_numbers_and_random_states_are_those_of_the_bare_loop() -> None:
    def states() -> list[Any]:
        return [torch.get_rng_state().tolist(), random.getstate(), torch.get_num_threads()]

    bare = Program(shuffle=True)
    for step, (batch,) in enumerate(bare.loader):
        if step == 30:
            break
        bare.step(batch)
    expected = states()
    watched = Program(shuffle=True)
    with advisor.profile() as p:
        for step, (batch,) in enumerate(watched.loader):
            if step == 30:
                break
            watched.step(batch)
            p.step()
    assert watched.losses == bare.losses and states() == expected


def test_two_windows_never_follow_each_other_at_once() -> None:
    program = Program()
    recording: list[bool] = []
    with advisor.profile(steps=40) as p:
        program.train(p, 50, lambda step: recording.append(torch._C._autograd._profiler_enabled()))
    windows = [window for window in "".join("x" if on else "." for on in recording).split(".") if window]
    assert len(windows) == 3 and windows[0] == "x"


def test_nothing_is_printed(warm: Warm) -> None:
    """In a process of its own: what has recorded before decides whether torch tells of it."""
    found = [str(folder) for folder in Path(__file__).parents[:2]]
    program = (
        f"import sys; sys.path[:0] = {found}\n"
        "import test_in_process as tests; tests.in_process.RATES_S = 0.0\n"
        "tests.profiled(tests.Program(), 10, steps=6)"
    )
    done = warm.run("-c", program)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_machine_is_measured_once_in_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[float] = []
    rates = profiled(Program(), 5, steps=2).data.profile.rates
    monkeypatch.setattr(in_process, "measure_rates", lambda limit_s: measured.append(limit_s))
    assert profiled(Program(), 5, steps=2).data.profile.rates == rates and measured == []


def test_nothing_of_the_loop_is_kept_alive() -> None:
    program = Program()
    alive: list[Any] = [weakref.ref(each) for each in (program.model, program.loader, program.sgd)]
    with advisor.profile(steps=6, warmup=0) as p:
        program.train(p, 8)
    del program
    gc.collect()
    assert [reference() for reference in alive] == [None, None, None]
    assert p.result.data.profile.steps > 0


def test_a_loop_that_ends_early_tells_what_there_is() -> None:
    found = profiled(Program(), 12).data.profile
    assert (found.steps, found.recording) == (9, None)
    assert found.notes == ["the loop ended after 12 of 23 steps"]


def test_a_loop_shorter_than_its_warm_up_is_refused() -> None:
    with pytest.raises(UsageError, match=r"4 steps, 30 needed \(warm-up 10 \+ 20\)"):
        profiled(Program(), 4, wait=3, warmup=7)


@pytest.mark.parametrize("steps", range(1, 8))
def test_few_steps_are_watched_and_never_more_than_asked_for(steps: int) -> None:
    program, before = Program(), state()
    seen: list[bool] = []
    with advisor.profile(steps=steps, warmup=0) as p:
        program.train(p, 8, lambda step: seen.append(state() == before))
    assert seen.index(True) == steps - 1
    assert p.result.data.profile.steps >= 1


def test_evaluations_and_epochs_do_not_count_as_clean_steps() -> None:
    program = Program(samples=24)  # six steps
    with advisor.profile() as p:
        for _ in range(5):
            program.train(p, 6)
    summary = p.result.data.profile
    assert summary.steps == 10 and summary.recording is not None and summary.notes == []


def a_loop_without_an_optimizer(program: Program, p: LoopProfile) -> None:
    for (batch,) in program.loader:
        program.model(batch).pow(2).mean().backward()
        with torch.no_grad():
            for parameter in program.model.parameters():
                assert parameter.grad is not None
                parameter.sub_(0.1 * parameter.grad)
                parameter.grad = None
        p.step()


def an_inference_loop(program: Program, p: LoopProfile) -> None:
    for (batch,) in program.loader:
        with torch.no_grad():
            program.model(batch)
        p.step()


@pytest.mark.parametrize(
    ("loop", "parts"),
    [
        (a_loop_without_an_optimizer, {"input_wait", "forward", "backward"}),
        (an_inference_loop, {"input_wait"}),
    ],
)
def test_loops_without_an_optimizer_have_steps_too(
    loop: Callable[[Program, LoopProfile], None], parts: set[str]
) -> None:
    program = Program()
    program.sgd = None  # type: ignore[assignment]  # or it would be waited for
    with advisor.profile() as p:
        loop(program, p)
    summary = p.result.data.profile
    assert summary.steps >= 10 and summary.recording is not None
    assert {part for part, spent in summary.phases_ms.items() if spent > 0} >= parts


def test_micro_batches_of_an_optimizer_made_before_are_parts_of_a_step() -> None:
    program = Program()
    with advisor.profile(steps=4, warmup=1) as p:
        for step, (batch,) in enumerate(program.loader):
            program.model(batch).pow(2).mean().backward()
            if step % 8 == 7:
                program.sgd.step()
                program.sgd.zero_grad()
            p.step()
    baseline = p.result.data.baseline
    assert baseline is not None and baseline.throughput.estimate * baseline.step_ms.estimate / 1000 == (
        pytest.approx(32)
    )


def test_an_iterator_in_use_is_waited_for_in_the_loader_s_name() -> None:
    program = Program()
    batches = iter(program.loader)
    next(batches)
    with advisor.profile(steps=6, warmup=1) as p:
        for _ in range(8):
            program.step(next(batches)[0])
            p.step()
    assert p.result.data.profile.phases_ms["input_wait"] > 0


class Slow(Dataset[torch.Tensor]):
    def __len__(self) -> int:
        return 400

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.randn(200, 400).sort(1).values.mean(0)[:4]


def test_a_loader_that_keeps_the_loop_waiting_is_found() -> None:
    program = Program()
    loader: Any = DataLoader(Slow(), batch_size=4)
    program.loader = loader
    with advisor.profile() as p:
        for _, batch in zip(range(25), program.loader, strict=False):
            program.step(batch)
            p.step()
    found = {finding.rule: finding for finding in p.result.findings}["input_bound"]
    assert found.state in ("opportunity", "diagnostic") and found.ceiling is not None
    assert found.ceiling.share > 0.6


def test_a_compiled_model_is_not_compiled_again() -> None:
    from torch._dynamo.utils import counters

    program = Program()
    program.model = torch.compile(program.model, backend="eager")  # type: ignore[assignment]  # a callable
    bare = advisor.profile(steps=1)
    program.step(torch.randn(4, 4))
    before = dict(counters["stats"]), state()
    with bare as p:
        program.train(p, 5)
    with advisor.profile() as p:
        program.train(p, 30)
    assert (dict(counters["stats"]), state()) == before


@pytest.mark.parametrize(("before", "recorded"), [(8, 0), (17, 1)])
def test_a_torch_profiler_that_starts_in_the_block_costs_the_recording_alone(
    before: int, recorded: int
) -> None:
    program = Program()
    with advisor.profile() as p:
        program.train(p, before)
        with a_torch_profiler():
            program.train(p, 20)
    summary = p.result.data.profile
    assert (0 if summary.recording is None else summary.recording.steps) == recorded
    assert summary.steps == 10
    assert summary.notes == ["the program runs a profiler of its own: less was recorded"]


def test_modes_of_the_program_s_own_leave_when_it_says_so() -> None:
    program = Program()
    modes: list[int] = []
    with advisor.profile() as p:
        for _, (batch,) in zip(range(30), program.loader, strict=False):
            with torch.device("cpu"):
                program.step(batch)
            modes.append(torch._C._len_torch_function_stack())
            p.step()
    assert modes == [0] * 30 and p.result.data.profile.recording is not None


def test_a_recording_that_cannot_be_written_costs_the_recording_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = Program()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    before = state()
    with advisor.profile() as p:
        program.train(p, 6)
        (folder,) = tmp_path.glob("advisor-profile-*")
        folder.rmdir()
        program.train(p, 24)
    assert len(program.losses) == 30 and state() == before
    assert p.result.data.profile.recording is None
    assert "profiling ended early" in p.result.data.profile.notes[0]


def test_no_file_stays_behind(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    profiled(Program(), 23)
    with pytest.raises(ZeroDivisionError), advisor.profile() as p:
        Program().train(p, 23)
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []
