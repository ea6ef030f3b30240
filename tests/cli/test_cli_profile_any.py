"""``advisor profile`` answers whatever stands behind an option or in a trace."""

from pathlib import Path

import pytest
from command_line import go_to
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from advisor.cli import main

TRAINING = "import torch\nmodel = torch.nn.Linear(1, 1)\nfor _ in range(9):\n    model(1).backward()\n"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    go_to(tmp_path, monkeypatch, tmp_path_factory.mktemp("logs"))
    (tmp_path / "train.py").write_text(TRAINING)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    option=st.sampled_from(
        ["--budget", "--device", "--seed", "--steps", "--warmup", "--steps-planned", "--fix", "--ranks",
         "--format", "--out", "-m"]
    ),
    value=st.text(max_size=30),
)  # fmt: skip
def test_any_text_after_any_option_is_answered(option: str, value: str) -> None:
    assert main(["profile", "train.py", "--dry-run", option, value]) in (0, 2, 3, 5)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    content=st.one_of(st.binary(max_size=60), st.binary(max_size=60).map(lambda b: b'{"traceEvents": [' + b))
)
def test_any_bytes_in_a_trace_are_answered(content: bytes) -> None:
    Path("any.json").write_bytes(content)
    assert main(["profile", "any.json", "--format", "json"]) in (0, 2)
