import warnings
from typing import Any

import pytest
import torch
from builders import a_gpu_profile, a_profile, a_root, a_run, a_window, an_op
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from advisor.profiles.events import Run
from advisor.profiles.facts.profile import Profile, RunFacts
from advisor.tuners.knob import Refused
from advisor.tuners.knobs.sdpa_backend import SdpaBackend

ATTENDING = a_window(an_op("aten::_scaled_dot_product_flash_attention_for_cpu"))
KERNELS = ("aten::_scaled_dot_product_attention_math", "aten::_scaled_dot_product_flash_attention_for_cpu")


class Attending(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(8, 8)
        self.mask: torch.Tensor | None = None
        self.own: SDPBackend | None = None

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        heads = self.layer(inputs).view(2, 4, 2, 4).transpose(1, 2)
        attend = nn.functional.scaled_dot_product_attention
        if self.own is not None:
            with sdpa_kernel(self.own):
                return attend(heads, heads, heads)
        return attend(heads, heads, heads, attn_mask=self.mask)


INPUTS = torch.linspace(-1, 1, 64).reshape(2, 4, 8)


def a_run_with(value: str, **others: Any) -> Run:
    run = a_run(sdpa_backend=SdpaBackend())
    run.configure({"sdpa_backend": value, **others})
    return run


def forward(run: Run, root: nn.Module, inputs: torch.Tensor = INPUTS) -> torch.Tensor:
    with run.forward(root):
        output = root(inputs)
    result: torch.Tensor = run.output(root, output)
    return result


def kernels(run: Run, root: nn.Module) -> set[str]:
    with torch.profiler.profile() as profile:
        forward(run, root)
    return {event.name for event in profile.events()} & set(KERNELS)


@pytest.mark.parametrize(("value", "kernel"), [("math", KERNELS[0]), ("flash", KERNELS[1])])
def test_the_named_kernel_really_runs_in_every_forward(value: str, kernel: str) -> None:
    root, run = Attending(), a_run_with(value)
    assert [kernels(run, root) for _ in range(2)] == [{kernel}, {kernel}]
    assert (run.unanswered(), run.refused) == ([], {})


@pytest.mark.parametrize("value", ["math", "flash"])
def test_every_kernel_computes_the_same_numbers(value: str) -> None:
    root, run = Attending(), a_run_with(value)
    for _ in range(2):
        torch.testing.assert_close(forward(run, root), root(INPUTS), rtol=1e-4, atol=1e-6)


def test_a_live_switch_returns_to_torchs_own_choice() -> None:
    root, run = Attending(), a_run_with("math")
    seen = [kernels(run, root)]
    run.configure({})
    seen.append(kernels(run, root))
    assert seen == [{KERNELS[0]}, {KERNELS[1]}]


def test_the_flags_of_torch_are_as_before_after_each_forward() -> None:
    root, run = Attending(), a_run_with("math")
    for _ in range(2):
        forward(run, root)
        assert torch.backends.cuda.flash_sdp_enabled()


def test_a_kernel_that_does_not_fit_is_refused_without_a_word_to_the_program() -> None:
    root, run = Attending(), a_run_with("flash")
    root.mask = torch.zeros(4, 4, requires_grad=True)  # has a gradient, which the CPU's kernel cannot give
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        output = forward(run, root)
    torch.testing.assert_close(output, root(INPUTS))
    assert run.refused["sdpa_backend"].startswith("flash attention does not fit the model's inputs: ")
    assert run.applied == set()


def test_an_error_of_the_program_stays_its_own() -> None:
    root, run = Attending(), a_run_with("math")
    root.mask = torch.zeros(3, 3)
    with pytest.raises(RuntimeError, match="size"):
        forward(run, root)
    assert run.refused == {}


def test_a_program_that_chooses_its_kernel_keeps_it() -> None:
    root, run = Attending(), a_run_with("math")
    root.own = SDPBackend.FLASH_ATTENTION
    assert kernels(run, root) == {KERNELS[1]}
    assert run.refused == {"sdpa_backend": "the program chooses its attention kernel itself"}


def test_a_model_that_calls_no_attention_is_refused_at_its_second_forward() -> None:
    root, run = nn.Linear(8, 8), a_run_with("math")
    forward(run, root)
    assert run.refused == {}
    forward(run, root)
    assert "not seen to call" in run.refused["sdpa_backend"]


def test_one_root_of_several_may_go_without_attention() -> None:
    plain, attending, run = nn.Linear(8, 8), Attending(), a_run_with("math")
    for _ in range(2):
        for root in (plain, attending):
            forward(run, root)
    assert (run.unanswered(), run.refused) == ([], {})


@pytest.mark.parametrize(
    ("other", "reason"),
    [({"execution": "compile"}, "compiled code"), ({"activation_checkpointing": "blocks"}, "recomputed")],
)
def test_what_would_keep_or_mix_kernels_excludes_it(other: dict[str, str], reason: str) -> None:
    run = a_run_with("math", **other)
    assert reason in run.refused["sdpa_backend"]
    assert "forward" not in run.events


def test_a_cpu_is_offered_the_kernels_that_it_has() -> None:
    assert SdpaBackend().choices(a_profile(window=ATTENDING)) == ["default", "flash", "math"]


def test_a_gpu_is_offered_all_also_where_only_the_inner_operator_was_kept() -> None:
    window = a_window(an_op("aten::_efficient_attention_forward"))
    choices = SdpaBackend().choices(a_gpu_profile(window=window))
    assert choices == ["default", "flash", "efficient", "cudnn", "math"]


@pytest.mark.parametrize(
    ("profile", "reason"),
    [
        (a_profile(), "no operators were recorded"),
        (a_profile(window=a_window()), "no operators were recorded"),
        (a_profile(window=a_window(an_op("aten::mm"), an_op("aten::softmax"))), "not seen to call"),
        (a_profile(window=ATTENDING, run=RunFacts(own_compile=True)), "compiled code"),
        (a_profile(window=ATTENDING, roots=(a_root(checkpointed=True),)), "recomputed"),
    ],
)
def test_where_no_kernel_can_be_chosen_the_reason_is_said(profile: Profile, reason: str) -> None:
    with pytest.raises(Refused, match=reason):
        SdpaBackend().choices(profile)


def test_a_named_value_needs_no_record_but_has_to_exist_on_the_device() -> None:
    SdpaBackend().check("math", a_profile())
    with pytest.raises(Refused, match="cudnn attention exists on GPUs only"):
        SdpaBackend().check("cudnn", a_profile())


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_fused_kernel_of_the_gpu_runs_in_16_bits_and_refuses_float32() -> None:
    for kind, refused in ((torch.bfloat16, []), (torch.float32, ["sdpa_backend"])):
        root, run = Attending().to("cuda", kind), a_run_with("flash")
        forward(run, root, INPUTS.to("cuda", kind))
        assert list(run.refused) == refused
