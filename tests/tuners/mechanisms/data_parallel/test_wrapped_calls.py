import pytest
from torch import nn

from advisor.tuners.knob import Refused
from advisor.tuners.mechanisms.data_parallel.wrapped_calls import only_called


class Wrapper(nn.Module):
    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module


def test_what_only_the_own_model_has_is_named() -> None:
    model = Wrapper(nn.Linear(1, 1))
    with pytest.raises(Refused, match=r"uses model\.in_features, which Wrapper does not"), only_called(model):
        _ = model.in_features


def test_other_missing_names_are_the_programs_own_mistake() -> None:
    model = Wrapper(nn.Linear(1, 1))
    with pytest.raises(AttributeError, match="nothing"), only_called(model):
        _ = model.module.nothing
