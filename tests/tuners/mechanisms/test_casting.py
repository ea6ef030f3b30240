from collections import namedtuple
from dataclasses import dataclass

import torch
from transformers.modeling_outputs import CausalLMOutput

from advisor.tuners.mechanisms.casting import to_float32

HALF = torch.ones(2, dtype=torch.float16)
BRAIN = torch.ones(2, dtype=torch.bfloat16)
FULL = torch.ones(2)
WHOLE = torch.ones(2, dtype=torch.long)

Pair = namedtuple("Pair", ["first", "second"])


@dataclass(frozen=True)
class Output:
    logits: torch.Tensor
    count: int


def test_half_types_become_float32_and_others_stay_the_same_objects() -> None:
    assert to_float32(HALF).dtype == to_float32(BRAIN).dtype == torch.float32
    assert to_float32(FULL) is FULL
    assert to_float32(WHOLE) is WHOLE
    assert to_float32(None) is None


def test_containers_keep_their_type_at_any_depth() -> None:
    result = to_float32((HALF, [WHOLE, {"deep": BRAIN}], Pair(HALF, 1)))
    assert result[0].dtype == result[1][1]["deep"].dtype == result[2].first.dtype == torch.float32
    assert (result[1][0] is WHOLE, type(result[2])) == (True, Pair)


def test_what_holds_nothing_to_cast_is_the_same_object() -> None:
    for output in ((FULL, 1), [FULL], {"a": FULL}, Output(FULL, 1)):
        assert to_float32(output) is output


def test_a_dataclass_is_copied_even_when_it_is_frozen() -> None:
    output = Output(HALF, 3)
    result = to_float32(output)
    assert (result.logits.dtype, result.count, output.logits.dtype) == (torch.float32, 3, torch.float16)


def test_outputs_of_hugging_face_models_change_as_items_and_as_attributes() -> None:
    output = CausalLMOutput(loss=torch.ones(()), logits=BRAIN)
    result = to_float32(output)
    assert type(result) is CausalLMOutput
    kinds = {
        tensor.dtype
        for tensor in (result.logits, result["logits"], result.to_tuple()[1])
        if tensor is not None
    }
    assert kinds == {torch.float32}
    assert output["logits"].dtype == torch.bfloat16


def test_gradients_flow_through_the_cast() -> None:
    source = torch.ones(2, requires_grad=True)
    to_float32([source.half()])[0].sum().backward()
    assert source.grad is not None
    assert source.grad.tolist() == [1.0, 1.0]
