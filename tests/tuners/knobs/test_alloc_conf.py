import os
import subprocess
import sys

import pytest
import torch
from builders import a_gpu_profile, a_profile, a_run

from advisor.tuners.knob import Refused
from advisor.tuners.knobs.alloc_conf import OLDER, SETTINGS, VARIABLE, AllocConf


@pytest.fixture(autouse=True)
def nothing_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.delenv(OLDER, raising=False)


def test_a_gpu_is_offered_all_settings() -> None:
    assert AllocConf().choices(a_gpu_profile()) == [
        "unset", "expandable_segments", "max_split_size", "garbage_collection_threshold",
    ]  # fmt: skip


def test_a_cpu_has_another_allocator() -> None:
    with pytest.raises(Refused, match="see malloc"):
        AllocConf().choices(a_profile())


@pytest.mark.parametrize("name", [VARIABLE, OLDER])
def test_what_the_user_has_set_stays(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "max_split_size_mb:64")
    with pytest.raises(Refused, match=f"{name} is set already"):
        AllocConf().choices(a_gpu_profile())


def test_a_setting_is_a_variable_of_the_process() -> None:
    assert AllocConf().environment("max_split_size") == {"PYTORCH_ALLOC_CONF": "max_split_size_mb:128"}
    assert AllocConf().environment("unset") == {}
    change = AllocConf().change("expandable_segments")
    assert change.environment == {"PYTORCH_ALLOC_CONF": "expandable_segments:True"}


@pytest.mark.parametrize(
    ("set_to", "applied"), [("expandable_segments:True", True), ("backend:native", False), (None, False)]
)
def test_a_process_looks_whether_it_got_the_variable(
    monkeypatch: pytest.MonkeyPatch, set_to: str | None, applied: bool
) -> None:
    if set_to is not None:
        monkeypatch.setenv(VARIABLE, set_to)
    run = a_run(alloc_conf=AllocConf())
    run.configure({"alloc_conf": "expandable_segments"})
    run.process()
    assert ("alloc_conf" in run.applied) is applied
    assert run.unanswered() == []


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize(
    ("value", "read"),
    [("expandable_segments", "expandable_segments"), ("max_split_size", "max_split_size"),
     ("garbage_collection_threshold", "garbage_collection_threshold")],
)  # fmt: skip
def test_the_allocator_reads_the_setting(value: str, read: str) -> None:
    code = (
        "import torch\n"
        "torch.zeros(1, device='cuda')\n"
        f"print(torch.cuda.memory._snapshot()['allocator_settings'][{read!r}])\n"
    )

    def told(variables: dict[str, str]) -> str:
        environment = {**os.environ, **variables}
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
        )
        return done.stdout

    assert told(AllocConf().environment(value)) != told({})


def test_every_setting_has_a_name() -> None:
    assert AllocConf().values() == ["unset", *SETTINGS]
