"""A script as several processes would train it."""

import re
from pathlib import Path

import pytest
from edit_tables import Case, asked, check, edited
from warm import Warm

from advisor.patching.edits import EDITS

EDIT = EDITS["ddp"]
NUMBER = re.compile(r"-?\d+\.\d+")
PLAIN = """
import torch
from torch.utils.data import DataLoader

data = torch.utils.data.TensorDataset(torch.randn(64, 4), torch.randn(64, 1))
loader = DataLoader(data, batch_size=16, shuffle=True, drop_last=True)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(2):
    for inputs, targets in loader:
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        optimizer.step()
"""
DIVIDED = """
import torch
from torch.utils.data import DataLoader

data = torch.utils.data.TensorDataset(torch.randn(64, 4), torch.randn(64, 1))
torch.distributed.init_process_group()
loader = DataLoader(data, batch_size=16 // torch.distributed.get_world_size(), drop_last=True, SAMPLER)
model = torch.nn.Linear(4, 1)
model = torch.nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(2):
    loader.sampler.set_epoch(epoch)
    for inputs, targets in loader:
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        optimizer.step()
if torch.distributed.is_initialized():
    torch.distributed.destroy_process_group()
""".replace("SAMPLER", "sampler=torch.utils.data.distributed.DistributedSampler(data)")
SET_EPOCH = "    loader.sampler.set_epoch(epoch)\n"
IN_ORDER = "DistributedSampler(data, shuffle=False)"


@pytest.mark.parametrize(
    "case",
    [
        Case(PLAIN, DIVIDED),
        Case(
            PLAIN.replace(" shuffle=True,", ""),
            DIVIDED.replace("DistributedSampler(data)", IN_ORDER).replace(SET_EPOCH, ""),
        ),
        Case(
            PLAIN.replace("batch_size=16", "batch_size=8 + 8"),
            DIVIDED.replace("batch_size=16 //", "batch_size=(8 + 8) //"),
        ),
        Case(PLAIN.replace("shuffle=True", "sampler=mine"), refusal="a sampler of its own"),
        Case(PLAIN.replace("(data, batch", "(list(data), batch"), refusal="the dataset is made within"),
        Case(PLAIN.replace(" batch_size=16,", ""), refusal="not told how large a batch is"),
        Case(PLAIN.replace("shuffle=True", "shuffle=bool(data)"), refusal="decided elsewhere"),
        Case(PLAIN.replace("for epoch in range(2)", "while True"), refusal="no loop over epochs"),
        Case(PLAIN.replace("drop_last=True", "**more"), refusal="unpacked"),
        Case(PLAIN.replace("batch_size=16, shuffle=True", "16, True"), refusal="given by position"),
        Case(PLAIN.replace("model = torch.nn.Linear", "model = DDP"), refusal="wrapped for several"),
        Case(PLAIN.replace("import torch\n", "import torch as t\n", 1), refusal="does not `import torch`"),
        Case(PLAIN, refusal="only scripts", kind="workload"),
        Case(PLAIN, refusal="for ddp", asked={"strategy": ("single", "fsdp")}),
    ],
)  # fmt: skip
def test_the_program_is_divided_or_the_reason_is_given(case: Case) -> None:
    check(EDIT, case, strategy=("single", "ddp"))


@pytest.mark.long
@pytest.mark.slow
def test_the_edited_program_trains_under_torchrun_as_it_did_alone(tmp_path: Path, warm: Warm) -> None:
    program = PLAIN.replace("import torch\n", "import torch\ntorch.manual_seed(0)\n", 1)
    program = program.replace("model = torch.nn", "torch.manual_seed(1)\nmodel = torch.nn", 1)
    program = (
        program.replace(" shuffle=True,", "") + "import sys\nsys.stdout.write(f'{model.state_dict()}\\n')\n"
    )
    (tmp_path / "alone.py").write_text(program)
    (tmp_path / "both.py").write_text(edited(EDIT, program, asked(strategy=("single", "ddp"))))
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")
    runs = [warm.run(*command, cwd=tmp_path) for command in (("alone.py",), (*launcher, "both.py"))]
    assert [run.returncode for run in runs] == [0, 0], runs[1].stderr
    values = [
        line.replace("module.", "") for run in runs for line in run.stdout.splitlines() if "Ordered" in line
    ]
    assert len(values) == 3 and values[1] == values[2]
    numbers = [[float(each) for each in NUMBER.findall(value)] for value in values]
    assert numbers[0] == pytest.approx(numbers[1], abs=2e-4)
