import pytest
from builders import a_gpu_profile, a_profile, a_run

from advisor.tuners.knob import Change, Refused
from advisor.tuners.knobs.omp_wait_policy import OWN, OmpWaitPolicy


@pytest.fixture(autouse=True)
def nothing_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in OWN:
        monkeypatch.delenv(name, raising=False)


def test_sleeping_is_tried_on_a_cpu() -> None:
    assert OmpWaitPolicy().choices(a_profile()) == ["unset", "passive"]


def test_a_model_on_the_gpu_is_left_alone() -> None:
    with pytest.raises(Refused, match="on the GPU"):
        OmpWaitPolicy().choices(a_gpu_profile())


@pytest.mark.parametrize("name", OWN)
def test_what_the_user_has_set_stays(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "active")
    with pytest.raises(Refused, match=f"{name} is set already"):
        OmpWaitPolicy().present(a_profile())


def test_the_variable_is_set_before_the_process_starts() -> None:
    assert OmpWaitPolicy().environment("passive") == {"OMP_WAIT_POLICY": "PASSIVE"}
    assert OmpWaitPolicy().environment("unset") == {}


@pytest.mark.parametrize(("set_to", "applied"), [("PASSIVE", True), ("ACTIVE", False), (None, False)])
def test_a_process_looks_whether_it_got_the_variable(
    monkeypatch: pytest.MonkeyPatch, set_to: str | None, applied: bool
) -> None:
    if set_to is not None:
        monkeypatch.setenv("OMP_WAIT_POLICY", set_to)
    run = a_run(omp_wait_policy=OmpWaitPolicy())
    run.configure({"omp_wait_policy": "passive"})
    run.process()
    assert ("omp_wait_policy" in run.applied) is applied
    assert run.unanswered() == []


def test_torch_without_openmp_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.backends.openmp.is_available", lambda: False)
    with pytest.raises(Refused, match="without OpenMP"):
        OmpWaitPolicy().process("passive")


def test_what_the_user_writes_is_a_variable() -> None:
    assert OmpWaitPolicy().change("passive") == Change(
        "# set before the program starts", {"OMP_WAIT_POLICY": "PASSIVE"}
    )
