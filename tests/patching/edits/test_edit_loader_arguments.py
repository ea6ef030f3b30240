"""Arguments of the training loader: where they are edited, and where a guess would be needed."""

import pytest
from edit_tables import Case, asked, check, edited

from advisor.patching.edits.loader_arguments import LoaderArguments

HEAD = """
from torch.utils.data import DataLoader
"""
LOOP = """
for x, y in loader:
    loss = criterion(model(x), y)
    loss.backward()
"""

CHANGED: dict[str, Case] = {
    "a new keyword goes behind the others": Case(
        f"{HEAD}loader = DataLoader(data, batch_size=8, shuffle=True){LOOP}",
        f"{HEAD}loader = DataLoader(data, batch_size=8, shuffle=True, num_workers=2){LOOP}",
    ),
    "a literal is replaced": Case(
        f"{HEAD}loader = DataLoader(data, num_workers=0, batch_size=8){LOOP}",
        f"{HEAD}loader = DataLoader(data, num_workers=2, batch_size=8){LOOP}",
    ),
    "an argument by position is replaced where it stands": Case(
        f"{HEAD}loader = DataLoader(data, 8, True){LOOP}",
        f"{HEAD}loader = DataLoader(data, 64, True){LOOP}",
        asked={"batch_size": (8, 64)},
    ),
    "several at once": Case(
        f"{HEAD}loader = DataLoader(d, 8){LOOP}",
        f"{HEAD}loader = DataLoader(d, 8, num_workers=4, persistent_workers=True, prefetch_factor=4){LOOP}",
        asked={"num_workers": (0, 4), "persistent_workers": ("off", "on"), "prefetch_factor": (2, 4)},
    ),
    "lines of a call stay in their style": Case(
        f"{HEAD}loader = DataLoader(\n    data,\n    batch_size=8,  # small\n){LOOP}",
        f"{HEAD}loader = DataLoader(\n    data,\n    batch_size=8,  # small\n    num_workers=2,\n){LOOP}",
    ),
    "a hanging call without a last comma": Case(
        f"{HEAD}loader = DataLoader(data,\n             batch_size=8){LOOP}",
        f"{HEAD}loader = DataLoader(data,\n             batch_size=8,\n             num_workers=2){LOOP}",
    ),
    "arguments on one inner line": Case(
        f"{HEAD}loader = DataLoader(\n    data, batch_size=8\n){LOOP}",
        f"{HEAD}loader = DataLoader(\n    data, batch_size=8, num_workers=2\n){LOOP}",
    ),
    "no workers any more": Case(
        f"{HEAD}loader = DataLoader(data, num_workers=2, persistent_workers=True, prefetch_factor=4){LOOP}",
        f"{HEAD}loader = DataLoader(data, num_workers=0){LOOP}",
        asked={"num_workers": (2, 0)},
    ),
    "another name of the same class": Case(
        f"import torch.utils.data as tud\nloader = tud.DataLoader(data){LOOP}",
        f"import torch.utils.data as tud\nloader = tud.DataLoader(data, num_workers=2){LOOP}",
    ),
    "the loader that is trained on, of two": Case(
        f"{HEAD}loader = DataLoader(data)\ntests = DataLoader(held_out){LOOP}for x in tests:\n    model(x)\n",
        f"{HEAD}loader = DataLoader(data, num_workers=2)\ntests = DataLoader(held_out){LOOP}"
        "for x in tests:\n    model(x)\n",
    ),
    "the loader that a function is handed": Case(
        f"""{HEAD}
def run(model, batches):
    for i, (x, y) in enumerate(batches):
        criterion(model(x), y).backward()

def evaluate(model, batches):
    for x, y in batches:
        model(x)

def main():
    train, test = 1, 2
    train_loader = DataLoader(data, 8)
    test_loader = DataLoader(held_out, 8)
    run(model, train_loader)
    evaluate(model, test_loader)
""",
        f"""{HEAD}
def run(model, batches):
    for i, (x, y) in enumerate(batches):
        criterion(model(x), y).backward()

def evaluate(model, batches):
    for x, y in batches:
        model(x)

def main():
    train, test = 1, 2
    train_loader = DataLoader(data, 8, num_workers=2)
    test_loader = DataLoader(held_out, 8)
    run(model, train_loader)
    evaluate(model, test_loader)
""",
    ),
    "a loader made in the head of its loop": Case(
        f"{HEAD}for x in DataLoader(data, batch_size=8):\n    step(model(x)).backward()\n",
        f"{HEAD}for x in DataLoader(data, batch_size=8, num_workers=2):\n    step(model(x)).backward()\n",
    ),
    "a constant that is read nowhere else": Case(
        f"{HEAD}WORKERS = 0  # none\nloader = DataLoader(data, num_workers=WORKERS){LOOP}",
        f"{HEAD}WORKERS = 2  # none\nloader = DataLoader(data, num_workers=WORKERS){LOOP}",
    ),
    "a constant with the name of the argument": Case(
        f"{HEAD}num_workers: int = 0\nloader = DataLoader(data, num_workers=num_workers){LOOP}",
        f"{HEAD}num_workers: int = 2\nloader = DataLoader(data, num_workers=num_workers){LOOP}",
    ),
    "the default of an option": Case(
        "import argparse"
        + HEAD
        + """
parser = argparse.ArgumentParser()
parser.add_argument("-w", "--num-workers", type=int, default=0, help="processes")
options = parser.parse_args()
loader = DataLoader(data, num_workers=options.num_workers)
"""
        + LOOP,
        "import argparse"
        + HEAD
        + """
parser = argparse.ArgumentParser()
parser.add_argument("-w", "--num-workers", type=int, default=2, help="processes")
options = parser.parse_args()
loader = DataLoader(data, num_workers=options.num_workers)
"""
        + LOOP,
        args=("--epochs", "1"),
    ),
    "training that is tried again after an error": Case(
        f"{HEAD}def train():\n    loader = DataLoader(data)\n    for x in loader:\n"
        "        model(x).backward()\ntry:\n    train()\nexcept MemoryError:\n    train()\n",
        f"{HEAD}def train():\n    loader = DataLoader(data, num_workers=2)\n    for x in loader:\n"
        "        model(x).backward()\ntry:\n    train()\nexcept MemoryError:\n    train()\n",
    ),
    "arguments of a workload": Case(
        "import advisor\nworkload = advisor.Workload(\n    model=Net,\n    batch_size=16,\n)\n",
        "import advisor\nworkload = advisor.Workload(\n    model=Net,\n    batch_size=64,\n"
        "    num_workers=2,\n)\n",
        asked={"batch_size": (16, 64), "num_workers": (0, 2)},
        kind="workload",
    ),
    "switches and names": Case(
        f"{HEAD}loader = DataLoader(data, num_workers=2){LOOP}",
        f'{HEAD}loader = DataLoader(data, num_workers=2, in_order=False, multiprocessing_context="spawn", '
        f"pin_memory=True){LOOP}",
        asked={
            "in_order": ("on", "off"),
            "multiprocessing_context": ("fork", "spawn"),
            "pin_memory": ("off", "on"),
        },
    ),
}

REFUSED: dict[str, Case] = {
    "no loader here": Case(f"loader = make(){LOOP}", refusal="makes no DataLoader"),
    "two loaders that are trained on": Case(
        f"{HEAD}loader = DataLoader(a)\nother = DataLoader(b){LOOP}{LOOP.replace('loader', 'other')}",
        refusal="2 DataLoaders are made here",
    ),
    "a loader for evaluation alone": Case(
        f"{HEAD}tests = DataLoader(a)\nfor x in tests:\n    model(x)\n",
        refusal="no training loop of this file reads the DataLoader that is made here",
    ),
    "unpacked arguments": Case(f"{HEAD}loader = DataLoader(data, **options){LOOP}", refusal="are unpacked"),
    "one function that makes several": Case(
        f"{HEAD}def make(data):\n    return DataLoader(data)\n\nloader = make(a)\ntests = make(b){LOOP}",
        refusal="make() makes several DataLoaders",
    ),
    "a computed value": Case(
        f"{HEAD}loader = DataLoader(data, num_workers=os.cpu_count()){LOOP}",
        refusal="computed as `os.cpu_count()`",
    ),
    "a constant that is read elsewhere": Case(
        f"{HEAD}WORKERS = 0\nprint(WORKERS)\nloader = DataLoader(data, num_workers=WORKERS){LOOP}",
        refusal="used elsewhere too: set it to 2 there",
    ),
    "an option that was given": Case(
        "import argparse"
        + HEAD
        + """
parser = argparse.ArgumentParser()
parser.add_argument("--workers", type=int, default=0)
options = parser.parse_args()
loader = DataLoader(data, num_workers=options.workers)
"""
        + LOOP,
        refusal="write `--workers 2` there",
        args=("--workers=1",),
    ),
    "an option that is read twice": Case(
        "import argparse"
        + HEAD
        + """
parser = argparse.ArgumentParser()
parser.add_argument("--workers", type=int, default=0)
options = parser.parse_args()
print(options.workers)
loader = DataLoader(data, num_workers=options.workers)
"""
        + LOOP,
        refusal="start the program with `--workers 2`",
    ),
    "a field of something unknown": Case(
        f"{HEAD}loader = DataLoader(data, num_workers=config.workers){LOOP}",
        refusal="taken from `config.workers`",
    ),
    "another value than was measured": Case(
        f"{HEAD}loader = DataLoader(data, num_workers=4){LOOP}", refusal="num_workers is 4 there"
    ),
    "a batch sampler": Case(
        f"{HEAD}loader = DataLoader(data, batch_sampler=mine){LOOP}",
        refusal="batch sampler of its own",
        asked={"batch_size": (1, 8)},
    ),
    "an option of workers where there are none": Case(
        f"{HEAD}loader = DataLoader(data){LOOP}",
        refusal="prefetch_factor needs num_workers above 0",
        asked={"prefetch_factor": (2, 4)},
    ),
    "what a workload does not take": Case(
        "import advisor\nworkload = advisor.Workload(model=Net)\n",
        refusal="has no argument in_order",
        asked={"in_order": ("on", "off")},
        kind="workload",
    ),
    "a class of the same name": Case(
        f"from mine import DataLoader\nloader = DataLoader(data){LOOP}", refusal="makes no DataLoader"
    ),
}


@pytest.mark.parametrize("case", [*CHANGED.values(), *REFUSED.values()], ids=[*CHANGED, *REFUSED])
def test_a_loader_is_edited_only_where_it_is_clear_which_and_how(case: Case) -> None:
    check(LoaderArguments(), case, num_workers=(0, 2))


def test_carriage_returns_and_tabs_are_kept() -> None:
    before = f"{HEAD}if True:\n\tloader = DataLoader(\n\t\tdata,\n\t\tbatch_size=8,\n\t)\n{LOOP}".replace(
        "\n", "\r\n"
    )
    found = edited(LoaderArguments(), before, asked(num_workers=(0, 2)))
    assert found == before.replace("batch_size=8,\r\n", "batch_size=8,\r\n\t\tnum_workers=2,\r\n")
