"""Ranks under scripts that know nothing of them train one model, or say why they cannot."""

import json
import os
import random
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from ranks import answers_of

from advisor.tuners.knob import Refused
from advisor.tuners.place import Place
from advisor.tuners.trial.rank_environment import RANK_VARIABLES
from advisor.tuners.trial.script_ranks import (
    NOTHING_TO_AVERAGE,
    SAME_DATA,
    UNREAD,
    OwnRanks,
    ScriptRanks,
    digest,
    hide_ranks,
    mute,
    reseed,
)

pytestmark = pytest.mark.slow

HEAD = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
"""
PLAIN = f"""{HEAD}
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
data = TensorDataset(torch.randn(64, 4), torch.randn(64, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in DataLoader(data, batch_size=8):
    optimizer.zero_grad()
    nn.functional.mse_loss(model(x), y).backward()
    optimizer.step()
trained = model
"""
TWO_OPTIMIZERS = f"""{HEAD}
generator, discriminator = nn.Linear(2, 4), nn.Sequential(nn.Linear(4, 1), nn.Sigmoid())
g_optimizer = torch.optim.Adam(generator.parameters(), lr=0.01)
d_optimizer = torch.optim.Adam(discriminator.parameters(), lr=0.01)
adversarial = nn.BCELoss()
for images in DataLoader(torch.randn(64, 4), batch_size=8):
    valid, fake = torch.ones(len(images), 1), torch.zeros(len(images), 1)
    g_optimizer.zero_grad()
    made = generator(torch.randn(len(images), 2))
    adversarial(discriminator(made), valid).backward()
    g_optimizer.step()
    d_optimizer.zero_grad()
    loss = adversarial(discriminator(images), valid) + adversarial(discriminator(made.detach()), fake)
    loss.backward()
    d_optimizer.step()
trained = nn.ModuleList([generator, discriminator])
"""
DRAWN = f"""{HEAD}
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(8, 4)
for _ in range(6):
    loss = model(x).square().mean()
    x = torch.randn(8, 4)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
trained = model
"""
OWN_GENERATOR = DRAWN.replace("torch.randn(8, 4)", "torch.randn(8, 4, generator=source)").replace(
    "x =", "source = torch.Generator().manual_seed(5)\nx =", 1
)
UNUSED = PLAIN.replace(
    "data =",
    "model.unused = nn.Linear(4, 4)\nmodel.forward = lambda x: model[2](model[1](model[0](x)))\ndata =",
)
MANUAL = f"""{HEAD}
model = nn.Linear(4, 2)
for x in DataLoader(torch.randn(64, 4), batch_size=8):
    model(x).square().mean().backward()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter -= 0.1 * parameter.grad
            parameter.grad = None
trained = model
"""
NO_MODEL = f"""{HEAD}
weight = torch.zeros(4, requires_grad=True)
for x in DataLoader(torch.randn(64, 4), batch_size=8):
    (x @ weight - 1).square().mean().backward()
    weight.grad = None
trained = nn.Identity()
"""
NO_FORWARD = f"""{HEAD}
weight = nn.Parameter(torch.zeros(4))
optimizer = torch.optim.SGD([weight], lr=0.1)
for x in DataLoader(torch.randn(64, 4), batch_size=8):
    optimizer.zero_grad()
    (x @ weight - 1).square().mean().backward()
    optimizer.step()
trained = nn.ParameterList([weight])
"""
CLOSURE = PLAIN.replace(
    "torch.optim.SGD(model.parameters(), lr=0.1)", "torch.optim.LBFGS(model.parameters())"
).replace("    optimizer.step()", "    optimizer.step(lambda: nn.functional.mse_loss(model(x), y))")
OWN_GROUP = f"""{HEAD}
import os
import torch.distributed as dist
rank = int(os.environ["RANK"])
dist.init_process_group("gloo", init_method="file://" + os.environ["FILE"], rank=rank, world_size=2)
model = nn.parallel.DistributedDataParallel(nn.Linear(4, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(4):
    optimizer.zero_grad()
    model(torch.randn(8, 4) + rank).square().mean().backward()
    optimizer.step()
trained = model
"""


@dataclass
class Told:
    """What one rank told."""

    rank: int
    parameters: list[float] = field(default_factory=list)
    applied: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    ranks_seen: list[str] = field(default_factory=list)
    printed: bool = True
    error: str | None = None


def _rank(answers: Any, source: str, folder: str, rank: int, ranks: int, own: bool, strategy: str) -> None:
    import sys

    from advisor.profiles.events import Run
    from advisor.profiles.hooks.step.clock import Clock
    from advisor.profiles.hooks.watch import Watch
    from advisor.tuners.knob import Refused
    from advisor.tuners.place import HERE

    torch.set_num_threads(1)
    told = Told(rank)
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(ranks), FILE=f"{folder}/own", GLOO_SOCKET_IFNAME="lo")
    if ranks > 1:
        HERE.place = Place(rank, ranks, rendezvous=f"{folder}/rendezvous", timeout_s=20)
    subscriber = OwnRanks() if own else ScriptRanks()
    run = Run({"strategy": subscriber}, {"strategy": "single"}, Refused)
    run.configure({"strategy": strategy if ranks > 1 else "single"})
    try:
        Watch(run, Clock(lambda step: None), seed=0).install()
        space: dict[str, Any] = {"__name__": "__main__"}
        exec(compile(source, "train.py", "exec"), space)
        told.parameters = [
            value for each in space["trained"].parameters() for value in each.flatten().tolist()
        ]
        told.ranks_seen = sorted(set(RANK_VARIABLES) & os.environ.keys())
        told.printed = sys.stdout.name != os.devnull
    except BaseException:  # the test shows it
        told.error = traceback.format_exc()
    told.applied, told.refused = sorted(run.applied), dict(run.refused)
    answers.put(told)


def run_script(
    source: str, folder: Path, *, ranks: int = 2, own: bool = False, strategy: str = "ddp"
) -> list[Told]:
    """Run a script in so many processes; what each told, in order."""
    each = [(source, str(folder), rank, ranks, own, strategy) for rank in range(ranks)]
    told = answers_of(_rank, each, count=ranks)
    errors = [each.error for each in told if each.error]
    assert not errors, errors[0]
    return sorted(told, key=lambda each: each.rank)


def the_same(told: list[Told]) -> bool:
    """Whether all ranks ended with the same parameters."""
    return all(each.parameters == pytest.approx(told[0].parameters, rel=1e-5, abs=1e-7) for each in told)


def test_two_ranks_learn_from_the_batches_that_one_process_would_see(tmp_path: Path) -> None:
    told = run_script(PLAIN, tmp_path)
    (alone,) = run_script(PLAIN, tmp_path, ranks=1)
    assert [(each.applied, each.refused) for each in told] == [(["strategy"], {})] * 2
    assert the_same([alone, *told])


def test_a_script_that_draws_its_batches_reads_other_data_on_each_rank(tmp_path: Path) -> None:
    told = run_script(DRAWN, tmp_path)
    (alone,) = run_script(DRAWN, tmp_path, ranks=1)
    assert [each.refused for each in told] == [{}, {}]
    assert the_same(told)
    assert not the_same([alone, told[0]])


@pytest.mark.parametrize("source", [TWO_OPTIMIZERS, UNUSED, MANUAL, NO_FORWARD])
def test_whatever_owns_the_parameters_all_ranks_end_with_the_same(source: str, tmp_path: Path) -> None:
    told = run_script(source, tmp_path)
    assert [(each.applied, each.refused) for each in told] == [(["strategy"], {})] * 2
    assert the_same(told) and told[0].parameters


def test_a_script_whose_ranks_all_read_the_same_is_refused(tmp_path: Path) -> None:
    told = run_script(OWN_GENERATOR, tmp_path)
    assert [(each.applied, each.refused) for each in told] == [([], {"strategy": SAME_DATA})] * 2


def test_a_script_without_anything_to_average_is_refused(tmp_path: Path) -> None:
    told = run_script(NO_MODEL, tmp_path)
    assert [each.refused for each in told] == [{"strategy": NOTHING_TO_AVERAGE}] * 2


def test_an_optimizer_that_evaluates_the_loss_itself_is_refused(tmp_path: Path) -> None:
    told = run_script(CLOSURE, tmp_path)
    assert all(each.refused["strategy"].startswith("LBFGS evaluates the loss") for each in told)


def test_another_strategy_than_ddp_is_refused(tmp_path: Path) -> None:
    told = run_script(PLAIN, tmp_path, strategy="fsdp")
    assert all(each.refused["strategy"].startswith("fsdp cannot be laid under a script") for each in told)


def test_a_script_does_not_notice_that_it_is_one_of_several(tmp_path: Path) -> None:
    told = run_script(PLAIN, tmp_path)
    assert [each.ranks_seen for each in told] == [[], []]
    assert [each.printed for each in told] == [True, False]


def test_a_script_with_its_own_group_is_let_alone(tmp_path: Path) -> None:
    told = run_script(OWN_GROUP, tmp_path, own=True)
    assert [(each.applied, each.refused) for each in told] == [(["strategy"], {})] * 2
    assert the_same(told)
    assert all("RANK" in each.ranks_seen for each in told)


def test_a_script_that_makes_no_group_of_its_own_is_refused(tmp_path: Path) -> None:
    told = run_script(PLAIN, tmp_path, own=True)
    assert all(
        each.refused["strategy"] == "the script makes a process group of 1 under 2 ranks" for each in told
    )


def test_settings_of_a_wrapper_that_is_the_scripts_own_are_refused() -> None:
    assert {"gradient_as_bucket_view", "bucket_cap_mb"} <= UNREAD.keys() and "ranks" not in UNREAD
    with pytest.raises(Refused, match="a script sets it where it wraps its own"):
        UNREAD["gradient_as_bucket_view"].process("on")


def test_batches_are_told_apart_by_values_shapes_and_types() -> None:
    batch = {"x": torch.arange(6.0), "y": [torch.ones(3, dtype=torch.bfloat16)]}
    assert digest(batch) == digest({"x": torch.arange(6.0), "y": [torch.ones(3, dtype=torch.bfloat16)]})
    others = [
        torch.arange(6.0).reshape(2, 3),
        torch.arange(6.0).double(),
        torch.arange(6.0) + 1,
        torch.tensor(0.0),
    ]
    marks = {digest(each) for each in [batch, torch.arange(6.0), *others]}
    assert len(marks) == 6
    assert digest(("no tensor", 3)) is None


def test_the_first_rank_goes_on_as_if_alone_and_the_others_draw_their_own() -> None:
    drawn = []
    for rank in (0, 0, 1, 2):
        torch.manual_seed(3)
        random.seed(3)
        reseed(rank)
        drawn.append((torch.rand(1).item(), random.random()))
    assert drawn[0] == drawn[1]
    assert len(set(drawn)) == 3


def test_the_variables_of_ranks_are_taken_away_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    environment = {
        "RANK": "1",
        "MASTER_PORT": "1",
        "TORCHELASTIC_RUN_ID": "x",
        "HOME": "/home",
        "OMP_NUM_THREADS": "1",
    }
    hide_ranks(environment)
    assert json.dumps(environment) == '{"HOME": "/home", "OMP_NUM_THREADS": "1"}'
    mute(Place(0, 2))
    print("heard")
    assert capsys.readouterr().out == "heard\n"
