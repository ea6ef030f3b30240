"""What every edit has to be."""

import ast

import libcst
import pytest
from edit_tables import asked

from advisor.patching.edits import EDITS
from advisor.patching.source.edit import CannotEdit, Edit
from advisor.patching.source.program_source import Source
from advisor.tuners.knobs import KNOBS

TRAINING = """\
import torch
from torch import nn
from torch.utils.data import DataLoader

model = nn.Conv2d(1, 1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in DataLoader(data, batch_size=32, num_workers=2):
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
"""
WANTED = asked(
    amp=("off", "bf16"), batch_size=(32, 64), channels_last=("off", "on"), cudnn_benchmark=("off", "on"),
    execution=("eager", "compile"), flush_denormal=("off", "on"),
    sharing_strategy=("file_descriptor", "file_system"), lr_scaling=("none", "linear"),
    matmul_precision=("highest", "medium"), num_threads=(1, 2), num_workers=(2, 4),
    optimizer_implementation=("default", "fused"), persistent_workers=("off", "on"),
    strategy=("single", "ddp"),
)  # fmt: skip


def test_every_edit_is_of_knobs_that_there_are_and_of_no_other_edit() -> None:
    knobs = [knob for edit in EDITS.values() for knob in edit.knobs]
    assert set(knobs) <= KNOBS.keys()
    assert len(knobs) == len(set(knobs))


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_an_edit_changes_a_plain_loop_and_leaves_valid_python(edit: Edit) -> None:
    own = {name: change for name, change in WANTED.items() if name in edit.knobs}
    assert own
    changed = edit.edit(Source(libcst.parse_module(TRAINING)), WANTED)
    assert changed.code != TRAINING
    ast.parse(changed.code)


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
@pytest.mark.parametrize(
    "program", ["", "# nothing\n", "x = 1\n", "def main():\n    import torch\n", "from torch import *\n"]
)
def test_an_edit_refuses_programs_that_train_nothing(edit: Edit, program: str) -> None:
    with pytest.raises(CannotEdit):
        edit.edit(Source(libcst.parse_module(program)), WANTED)
