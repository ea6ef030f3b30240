from functools import partial
from pathlib import Path
from typing import Any

import pytest
from trace_builder import Event, a_recording, a_step, a_trace, an_annotation, an_operator, near

from advisor.profiles.facts.recorded import Attention, PointwiseChains, Repetition, Window
from advisor.profiles.traces.ops import window_of

recorded = partial(window_of, clean_step_ms=None)


def _forward(*names: str, **facts: Any) -> list[Event]:
    """Operators one after another, 10 us each, with 2 us between."""
    return [an_operator(name, 12 * at, 10, *facts.get("shapes", ())) for at, name in enumerate(names)]


def _window(*names: str, shapes: tuple[list[int], ...] = ()) -> Window:
    return recorded(a_trace(a_step(0, 0, 12 * len(names)), *_forward(*names, shapes=shapes)))


def test_a_loop_over_rows_is_found_with_its_place(tmp_path: Path) -> None:
    import torch

    rows = torch.randn(40, 8, requires_grad=True)

    def loop() -> None:
        torch.stack([torch.tanh(rows[at] * 2) for at in range(40)]).sum().backward()

    window = recorded(a_recording(tmp_path, loop, stacks=True))
    found = next(each for each in window.repetitions if each.phase == "forward")
    assert (found.ops, found.count, found.times) == (("aten::select", "aten::mul", "aten::tanh"), 40, 1.0)
    assert 0 < found.ms < window.step_ms
    assert found.location is not None and Path(found.location.file).name == "test_patterns.py"
    assert {each.phase for each in window.repetitions} == {"forward", "backward"}


def test_the_time_of_a_loop_has_the_python_between_its_operators() -> None:
    names = ["aten::mm", *(["aten::select", "aten::add_"] * 12), "aten::sum"]
    (found,) = _window(*names).repetitions
    assert found == Repetition(("aten::select", "aten::add_"), 12, 1.0, near(0.286), None, "forward")


def test_a_loop_reads_from_its_indexing_on_wherever_it_was_entered() -> None:
    names = ["aten::add_", *(["aten::select", "aten::add_"] * 12)]
    (found,) = _window(*names).repetitions
    assert found.ops == ("aten::select", "aten::add_")


def test_nine_turns_are_no_loop() -> None:
    assert _window(*(["aten::select", "aten::add_"] * 9)).repetitions == ()


def test_a_loop_ends_with_its_step() -> None:
    turns = [an_operator("aten::select", 10 * at, 5) for at in range(18)]
    assert recorded(a_trace(a_step(0, 0, 90), a_step(1, 90, 90), *turns)).repetitions == ()


def test_the_shortest_part_that_repeats_is_told() -> None:
    (found,) = _window(*(["aten::add_"] * 40)).repetitions
    assert (found.ops, found.count) == (("aten::add_",), 40)


def test_loops_of_the_loader_are_told_apart() -> None:
    window = recorded(
        a_trace(
            a_step(0, 0, 500),
            an_annotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 0, 400),
            *(an_operator("aten::select", 5 + 12 * at, 10) for at in range(16)),
        )
    )
    assert [each.phase for each in window.repetitions] == ["loader"]


def _gpt(implementation: str) -> Any:
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(  # type: ignore[call-arg]  # the stub lacks an argument of every configuration
        n_layer=2, n_head=4, n_embd=32, vocab_size=50, n_positions=32, bos_token_id=0, eos_token_id=0,
        attn_implementation=implementation,
    )  # fmt: skip
    model, tokens = GPT2LMHeadModel(config), torch.randint(0, 50, (3, 16))
    return lambda: model(input_ids=tokens, labels=tokens).loss.backward()


def test_attention_written_out_is_found_once_a_layer_with_its_shape(tmp_path: Path) -> None:
    window = recorded(a_recording(tmp_path, _gpt("eager")))
    (found,) = window.attentions
    assert (found.shape, found.count, found.dtype) == ((3, 4, 16, 16, 8), 2.0, "float32")
    assert 0 < found.ms < window.compute_ms


def test_fused_attention_is_not_reported(tmp_path: Path) -> None:
    assert recorded(a_recording(tmp_path, _gpt("sdpa"))).attentions == ()


def test_attention_over_a_batch_of_matrices_has_one_head(tmp_path: Path) -> None:
    import torch

    query, key = torch.randn(6, 10, 4), torch.randn(6, 14, 4)

    def attend() -> None:
        weights = torch.softmax(torch.baddbmm(torch.zeros(1), query, key.transpose(1, 2)), -1)
        torch.bmm(torch.dropout(weights, 0.1, True), key)

    (found,) = recorded(a_recording(tmp_path, attend)).attentions
    assert found.shape == (6, 1, 10, 14, 4)


@pytest.mark.parametrize(
    "names",
    [
        ["aten::linear", "aten::softmax", "aten::linear"],
        ["aten::matmul", "aten::softmax", "aten::linear", "aten::matmul"],
        ["aten::matmul", "aten::softmax"],
        ["aten::matmul", "aten::log_softmax", "aten::matmul"],
    ],
)
def test_a_softmax_that_is_not_between_two_products_is_no_attention(names: list[str]) -> None:
    assert _window(*names).attentions == ()


def test_without_shapes_attention_is_told_by_its_order() -> None:
    names = ["aten::matmul", "aten::div", "aten::add", "aten::softmax", "aten::dropout", "aten::matmul"]
    assert _window(*names).attentions == (Attention((), 1.0, near(0.06)),)


def test_chains_count_what_is_moved_and_what_one_kernel_would_move() -> None:
    size = 4 * 64
    window = _window("aten::mm", "aten::gelu", "aten::view", "aten::tanh", "aten::mm", shapes=([8, 8],))
    assert window.pointwise == PointwiseChains(
        ms=near(0.02), chains=1.0, longest=("aten::gelu", "aten::tanh"), bytes_moved=4 * size,
        bytes_fused=2 * size,
    )  # fmt: skip


def test_a_second_operand_is_still_read_when_fused() -> None:
    window = _window("aten::add", "aten::mul", shapes=([8, 8], [8, 8]))
    assert window.pointwise is not None
    assert (window.pointwise.bytes_moved, window.pointwise.bytes_fused) == (6 * 256, 4 * 256)


@pytest.mark.parametrize(
    "names",
    [["aten::gelu"], ["aten::gelu", "aten::mm", "aten::tanh"], ["aten::gelu", "aten::select", "aten::tanh"]],
)
def test_operators_that_do_not_follow_each_other_are_no_chain(names: list[str]) -> None:
    assert _window(*names, shapes=([8, 8],)).pointwise is None


@pytest.mark.parametrize(("name", "chained"), [("aten::clamp", False), ("aten::mul", True)])
def test_one_operator_again_and_again_works_on_many_tensors_unless_it_is_arithmetic(
    name: str, chained: bool
) -> None:
    assert (_window(name, name, name, shapes=([8, 8],)).pointwise is not None) is chained


def test_a_change_of_size_ends_a_chain() -> None:
    trace = a_trace(
        a_step(0, 0, 50), an_operator("aten::gelu", 0, 10, [8, 8]), an_operator("aten::tanh", 20, 10, [8, 4])
    )
    assert recorded(trace).pointwise is None


def test_a_conversion_that_does_nothing_neither_counts_nor_interrupts() -> None:
    window = _window("aten::gelu", "aten::to", "aten::tanh", shapes=([8, 8],))
    assert window.pointwise is not None
    assert window.pointwise.longest == ("aten::gelu", "aten::tanh")


def test_an_activation_written_out_is_a_chain(tmp_path: Path) -> None:
    import torch

    tensor = torch.randn(64, 64)
    window = recorded(a_recording(tmp_path, lambda: tensor * torch.sigmoid(tensor * 1.7) + 1))
    assert window.pointwise is not None
    assert window.pointwise.longest == ("aten::mul", "aten::sigmoid", "aten::mul", "aten::add")
    assert window.pointwise.bytes_fused < window.pointwise.bytes_moved
