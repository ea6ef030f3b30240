"""Answers of a recommended form judged anew on another machine: what is found and said, and the exit code."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from builders import a_machine, a_rich_profile
from check_builder import a_check
from remembered_progress import Told
from replayed_program import Effect, Program, where
from replayed_sessions import ReplayingLauncher
from result_builder import a_recommendation, a_result

from advisor.base.errors import UsageError
from advisor.base.settings import Settings, TargetRequest
from advisor.base.signals import StopRequests
from advisor.cli.commands.check import show
from advisor.report.pages.check_page import render_markdown, render_text
from advisor.result.artefact import Artefact
from advisor.result.check import Answers, Checked
from advisor.result.document import Adopted, ResultData
from advisor.runs.answers import form_differences, judged_answers
from advisor.runs.check import refuse_reference
from advisor.stages.bench import MeasuredBench, open_bench, run_unchanged
from advisor.stages.launching import Caller
from advisor.tuners.mechanisms.forms.artefact import cpu_flags
from advisor.tuners.trial.spec import Target

BF16 = where(amp="bf16")


@contextmanager
def a_bench(folder: Path, *effects: Effect, samples: int = 2000) -> Iterator[MeasuredBench]:
    profile = a_rich_profile()
    assert profile.run is not None
    serving = replace(profile, run=replace(profile.run, clock="request"), optimizers=())
    program = Program(effects, profile=serving, step_s=0.01, samples=samples)
    launcher = ReplayingLauncher(Target("module", "train"), folder, program=program)
    settings = Settings(
        target=TargetRequest(kind="module", name="train"), objective="latency", budget_s=120.0
    )  # fmt: skip
    with (
        StopRequests() as stop,
        open_bench(
            settings, folder, Caller(Told(), stop), began=0.0, launching=lambda *_: launcher,
            clock=lambda: launcher.now,
        ) as bench,
    ):  # fmt: skip
        yield run_unchanged(bench)


def recommending(knob: str, now: str, to: str) -> ResultData:
    change = Adopted(knob=knob, to=to, semantics="precision", **{"from": now})  # type: ignore[arg-type]
    return a_result(objective="latency", recommendation=a_recommendation(changes=[change]))


@pytest.mark.parametrize(
    ("effect", "samples", "verdict", "why"),
    [
        (Effect(BF16, wrong=0.0001), 1000, "accepted", ""),
        (Effect(BF16, wrong=0.3), 600, "refused", "decisions change"),
        (Effect(BF16, wrong=0.2, saturates=True), 600, "refused", "sums of 16 bits saturate"),
        (Effect(BF16, wrong=0.0001), 50, "not_decidable", "takes about 459 samples"),
        (Effect(BF16, refuses=("amp", "no units for it")), 600, "refused", "no units for it"),
    ],
)
def test_a_form_is_judged_beside_the_program_as_it_is(
    effect: Effect, samples: int, verdict: str, why: str, tmp_path: Path
) -> None:
    with a_bench(tmp_path, effect, samples=samples) as bench:
        found = judged_answers(bench, recommending("amp", "off", "bf16"))
    assert found.verdict == verdict and found.changes == {"amp": "bf16"}
    assert verdict == "accepted" or list(found.rejected) == ["amp"]
    assert why in found.rejected.get("amp", "")


def test_what_cannot_be_made_here_is_no_agreement(tmp_path: Path) -> None:
    with a_bench(tmp_path) as bench:
        unknown = judged_answers(bench, recommending("warp_drive", "off", "on"))
        present = judged_answers(bench, recommending("amp", "bf16", "off"))
    assert unknown.verdict == "refused" and "no such knob" in unknown.rejected["warp_drive"]
    assert present.verdict == "accepted" and "that way now" in present.why


def test_without_time_for_its_processes_nothing_is_decided(tmp_path: Path) -> None:
    with a_bench(tmp_path) as bench:
        assert isinstance(bench.launcher, ReplayingLauncher)
        bench.launcher.now += 1000.0
        found = judged_answers(bench, recommending("amp", "off", "bf16"))
    assert found.verdict == "not_decidable" and "longer --budget" in found.why


def test_versions_and_flags_other_than_those_of_a_file_are_told() -> None:
    same = Artefact(
        file="model.onnx", kind="onnx", sha256="ab", bytes=1, load=[], versions={}, cpu_flags=cpu_flags()
    )
    other = same.model_copy(update={"versions": {"nosuch": "1.0"}, "cpu_flags": ["avx512_vnni"]})
    assert form_differences([same]) == []
    (version, flags) = form_differences([same, other, other])
    assert version == "nosuch 1.0 and none" and flags.startswith("a CPU with avx512_vnni and one with ")


def test_another_machine_is_refused_only_where_there_are_no_answers_to_judge() -> None:
    machine, request = a_machine(), TargetRequest(kind="script", name="train.py")
    with pytest.raises(UsageError, match="not comparable"):
        refuse_reference(a_result(), request, machine)
    refuse_reference(recommending("amp", "off", "bf16"), request, machine)


@pytest.mark.parametrize("verdict", ["refused", "not_decidable"])
def test_what_no_longer_agrees_is_named_and_fails(verdict: str, capsys: pytest.CaptureFixture[str]) -> None:
    answers = Answers(
        verdict=verdict, changes={"quantization": "int8_dynamic"},  # type: ignore[arg-type]  # one of them
        rejected={"quantization": "3.2 % of decisions change"},
    )  # fmt: skip
    elsewhere = Checked(why="AMD EPYC and Intel Xeon")
    result = a_check(verdict="regressed", answers=answers, step_ms=elsewhere, peak_bytes=elsewhere)
    for face in (render_text(result, 200), render_markdown(result).replace("&#95;", "_")):
        assert "quantization=int8_dynamic" in face and "3.2 % of decisions change" in face
        assert "say the same" in face or "says the same" in face
    assert "not compared: AMD EPYC and Intel Xeon" in render_text(result, 200)
    assert show(result, None, "text") == 1
    capsys.readouterr()


def test_what_still_agrees_passes(capsys: pytest.CaptureFixture[str]) -> None:
    elsewhere = Checked(why="AMD EPYC and Intel Xeon")
    answers = Answers(verdict="accepted", changes={"quantization": "int8_dynamic"})
    assert show(a_check(answers=answers, step_ms=elsewhere, peak_bytes=elsewhere), None, "text") == 0
    assert capsys.readouterr().out.startswith("Passed: the recommended form still says the same.\n")
