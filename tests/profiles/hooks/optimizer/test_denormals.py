import torch
from torch import nn

from advisor.profiles.hooks.optimizer.denormals import denormals


def trained(small: float) -> tuple[nn.Sequential, torch.optim.Optimizer]:
    model = nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 4))
    with torch.no_grad():
        next(model.parameters())[:32] *= small
    optimizer = torch.optim.SGD(model.parameters(), 1e-9, momentum=0.9)
    model(torch.zeros(2, 64)).sum().backward()
    optimizer.step()
    return model, optimizer


def test_the_parameter_with_denormal_numbers_is_found_with_their_share() -> None:
    model, optimizer = trained(1e-38)
    found = denormals([model], [optimizer])
    assert found is not None
    assert (found.name, found.kind) == ("0.weight", "parameter")
    assert 0.4 < found.share < 0.6
    assert 0.9 < found.tensors_share < 1
    assert found.slowdown >= 1 and found.update_slowdown >= 1


def test_small_but_normal_numbers_and_zeros_are_none() -> None:
    for small in (1.0, 1e-30, 0.0):
        model, optimizer = trained(small)
        assert denormals([model], [optimizer]) is None


def test_momenta_are_looked_at() -> None:
    model, optimizer = trained(1.0)
    optimizer.state[model[1].weight]["momentum_buffer"].fill_(1e-40)  # type: ignore[index]
    found = denormals([model], [optimizer])
    assert found is not None and (found.name, found.kind, found.share) == ("1.weight", "state", 1.0)


def test_where_they_are_flushed_they_cost_nothing() -> None:
    model, optimizer = trained(1e-38)
    try:
        assert torch.set_flush_denormal(True)
        assert denormals([model], [optimizer]) is None
    finally:
        torch.set_flush_denormal(False)
