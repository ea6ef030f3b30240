"""A batch size that throughput alone chose says so on every face."""

from types import SimpleNamespace
from typing import Any, Literal, cast

import pytest
from result_builder import a_result

from advisor.base.settings import Objective, Settings, TargetRequest
from advisor.report.files import render_html, render_markdown, render_text
from advisor.result.document import Recommendation
from advisor.stages.assemble import _recommendation
from advisor.stages.batch_size import Batches
from advisor.stages.confirming.outcome import Outcome
from advisor.tuners.comparing.measure import Estimate
from advisor.tuners.knob import Value
from advisor.tuners.space.configuration import Configuration

PRESENT: dict[str, Value] = {"batch_size": 16, "lr_scaling": "none"}
LABEL = "batch size 16 -> 256 by throughput only: that it learns as much is not verified"


def recommended(
    batch: int = 256,
    objective: Objective = "throughput",
    verdict: Literal["change", "keep"] = "change",
    reason: str = "",
) -> Recommendation:
    settings = Settings(target=TargetRequest(kind="script", name="train.py"), objective=objective)
    space = cast(Any, SimpleNamespace(present=PRESENT))
    baseline = cast(Any, SimpleNamespace(aa=Estimate(0.0, -0.01, 0.01, 0.99, 8, 1), step_s=0.1))
    outcome = Outcome(Configuration({**PRESENT, "batch_size": batch}), verdict, reason=reason)
    return _recommendation(settings, baseline, space, outcome, Batches(settings, cast(Any, None)))


def test_a_batch_by_throughput_is_labelled() -> None:
    assert recommended().reason == LABEL
    assert recommended(reason="it was not run longer").reason == f"it was not run longer; {LABEL}"


@pytest.mark.parametrize(
    "given", [{"batch": 16}, {"objective": "goodput"}, {"verdict": "keep"}], ids=lambda given: str(*given)
)
def test_nothing_else_is(given: dict[str, Any]) -> None:
    assert recommended(**given).reason == ""


def test_every_face_shows_the_label() -> None:
    result = a_result(objective="throughput", recommendation=recommended())
    assert LABEL in " ".join(render_text(result, 100).split())
    assert LABEL.replace("->", "-&gt;") in render_html(result)
    assert "by throughput only: that it learns as much is not verified" in render_markdown(result)
