"""Programs that make their optimizer anew: steps are still counted, and none is kept alive."""

import gc
import weakref

import torch
from taps import Program, watching


def made(program: Program, lr: float = 0.1) -> torch.optim.Optimizer:
    return torch.optim.SGD(program.model.parameters(), lr, momentum=0.9)


def test_an_optimizer_for_each_step_takes_the_place_of_the_one_before() -> None:
    with watching() as taps:
        program, seen = Program(), []
        for _ in range(6):
            program.optimizer = made(program)
            seen.append(weakref.ref(program.optimizer))
            program.step()
        (facts,) = taps.optimizers.facts
    gc.collect()
    assert (facts.renewed, facts.updates) == (5, 6)
    assert len(taps.steps) == 6
    assert [each() is None for each in seen] == [True] * 5 + [False]


def test_two_optimizers_of_the_same_parameters_are_two() -> None:
    with watching() as taps:
        program = Program()
        both = [made(program, lr) for lr in (0.1, 0.2)]
        for _ in range(3):
            for program.optimizer in both:
                program.step()
        facts = taps.optimizers.facts
    assert [(each.renewed, each.updates) for each in facts] == [(0, 3), (0, 3)]


def test_an_optimizer_of_other_parameters_is_another_one() -> None:
    with watching() as taps:
        for _ in range(3):
            program = Program()
            program.optimizer = made(program)
            program.step()
        facts = taps.optimizers.facts
    assert [each.renewed for each in facts] == [0, 0, 0]
