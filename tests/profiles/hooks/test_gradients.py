"""What is seen of gradients: nodes gone through again, and gradients that nobody uses."""

from collections.abc import Callable

import torch
from taps import watching
from torch import nn

from advisor.profiles.facts.observed import GradientFacts

Step = Callable[[], None]


class Generator(nn.Linear):
    """So that it has a name."""


def seen(step: Step, *modules: nn.Module, steps: int = 4) -> GradientFacts:
    with watching() as taps:
        step()
        taps.inspect(True)
        for _ in range(steps):
            step()
        taps.inspect(False)
        found = taps.losses.gradients.facts(modules)
    assert found is not None
    return found


def heads(*, together: bool = False, apart: bool = False, zeroed: bool = False) -> Step:
    """Three losses on one trunk of eight layers; ``apart`` each has a forward of its own."""
    trunk = nn.Sequential(*(nn.Linear(32, 32) for _ in range(8)))
    optimizer = torch.optim.SGD(trunk.parameters(), 0.01)
    inputs = torch.randn(4, 32)

    def step() -> None:
        optimizer.zero_grad()
        hidden = trunk(inputs)
        if together:
            (hidden.sum() + hidden.mean() + hidden.square().sum()).backward()
        else:
            for place in range(3):
                if zeroed and place:
                    optimizer.zero_grad()
                loss = (trunk(inputs) if apart else hidden)[:, place].sum()
                loss.backward(retain_graph=True)
        optimizer.step()

    return step


def test_backwards_through_one_graph_are_counted_from_the_second_on() -> None:
    found = seen(heads())
    assert (found.per_update, found.again) == (3.0, 2.0)
    assert 0.4 < found.again_share < 0.7 and found.again_location is not None
    assert found.vain_share == 0.0


def test_one_backward_of_the_sum_goes_through_nothing_again() -> None:
    found = seen(heads(together=True))
    assert (found.per_update, found.again, found.again_share) == (1.0, 0.0, 0.0)


def test_accumulation_goes_through_graphs_of_its_own() -> None:
    found = seen(heads(apart=True))
    assert (found.per_update, found.again_share, found.vain_share) == (3.0, 0.0, 0.0)


def test_gradients_taken_for_each_loss_alone_are_left_alone() -> None:
    found = seen(heads(zeroed=True))
    assert (found.again_share, found.vain_share) == (0.0, 0.0)


def a_gan(
    *, detached: bool, to_none: bool = True, together: bool = False
) -> tuple[Step, nn.Module, nn.Module]:
    generator, critic = Generator(512, 512), nn.Linear(512, 1)
    makes = torch.optim.SGD(generator.parameters(), 0.01)
    judges = torch.optim.SGD(critic.parameters(), 0.01)
    noise = torch.randn(512, 512)  # so that what the critic costs is next to nothing

    def step() -> None:
        for _ in range(2):
            judges.zero_grad(set_to_none=to_none)
            fake = generator(noise)
            critic(fake.detach() if detached else fake).sum().backward()
            judges.step()
            if together:
                makes.step()
                makes.zero_grad(set_to_none=to_none)
        makes.zero_grad(set_to_none=to_none)
        (-critic(generator(noise)).sum()).backward()
        makes.step()

    return step, generator, critic


def test_gradients_of_a_generator_that_its_own_step_drops_are_in_vain() -> None:
    for to_none in (True, False):
        step, *modules = a_gan(detached=False, to_none=to_none)
        found = seen(step, *modules, steps=8)
        assert 0.05 < found.vain_share < 1.0
        assert found.vain_module == "Generator" and found.vain_location is not None


def test_a_generator_that_is_detached_or_learns_from_it_gets_none_in_vain() -> None:
    for detached, together in ((True, False), (False, True)):
        step, *modules = a_gan(detached=detached, together=together)
        assert seen(step, *modules, steps=8).vain_share < 0.02  # the critic's, on the way to the generator


def test_clipped_and_accumulated_gradients_are_used() -> None:
    model = nn.Linear(32, 32)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)

    def step() -> None:
        optimizer.zero_grad()
        for _ in range(3):
            model(torch.randn(4, 32)).sum().backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    found = seen(step)
    assert (found.per_update, found.again_share, found.vain_share) == (3.0, 0.0, 0.0)


def test_second_derivatives_are_left_alone() -> None:
    model = nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)

    def step() -> None:
        inputs = torch.randn(4, 8, requires_grad=True)
        optimizer.zero_grad()
        (slope,) = torch.autograd.grad(model(inputs).sum(), inputs, create_graph=True)
        (slope.square().sum() + model(inputs).sum()).backward()
        optimizer.step()

    found = seen(step)
    assert (found.again_share, found.vain_share) == (0.0, 0.0)


def test_nothing_stays_on_graphs_when_nobody_inspects() -> None:
    step = heads()
    with watching() as taps:
        step()
        step()
        assert taps.losses.gradients.facts(()) is None
