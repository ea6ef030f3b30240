"""A model compiled in place, before its optimizer is made."""

import pytest
from edit_tables import Case, check

from advisor.patching.edits.compile import Compile

HEAD = "import torch\n\nmodel = Net()\n"
LOOP = "for x, y in loader:\n    loss = criterion(model(x), y)\n    loss.backward()\n"
MADE = "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"

CASES: dict[str, Case] = {
    "before the optimizer": Case(HEAD + MADE + LOOP, HEAD + "model.compile()\n" + MADE + LOOP),
    "a mode": Case(
        HEAD + MADE + LOOP,
        HEAD + 'model.compile(mode="max-autotune")\n' + MADE + LOOP,
        asked={"execution": ("eager", "compile-max-autotune")},
    ),
    "shapes": Case(
        HEAD + MADE + LOOP,
        HEAD + "model.compile(dynamic=True)\n" + MADE + LOOP,
        asked={"execution": ("eager", "compile"), "dynamic": ("auto", "on")},
    ),
    "a class that trains": Case(
        """
        import torch

        class Trainer:
            def __init__(self, model):
                self.model = model
                # plain descent
                self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

            def run(self, batches):
                for x, y in batches:
                    loss = criterion(self.model(x), y)
                    loss.backward()
        """,
        """
        import torch

        class Trainer:
            def __init__(self, model):
                self.model = model
                model.compile()
                # plain descent
                self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

            def run(self, batches):
                for x, y in batches:
                    loss = criterion(self.model(x), y)
                    loss.backward()
        """,
    ),
    "a function that is handed the model": Case(
        """
        import torch

        def train(net, batches):
            for x, y in batches:
                loss = criterion(net(x), y)
                loss.backward()

        def main():
            model = Net().to(device)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            train(model, batches)
        """,
        """
        import torch

        def train(net, batches):
            for x, y in batches:
                loss = criterion(net(x), y)
                loss.backward()

        def main():
            model = Net().to(device)
            model.compile()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            train(model, batches)
        """,
    ),
    "only some parameters are trained": Case(
        HEAD + "chosen = [p for p in model.parameters() if p.requires_grad]\n"
        "optimizer = torch.optim.SGD(chosen)\n" + LOOP,
        HEAD + "chosen = [p for p in model.parameters() if p.requires_grad]\nmodel.compile()\n"
        "optimizer = torch.optim.SGD(chosen)\n" + LOOP,
    ),
    "a pattern that is compiled is no model": Case(
        "import re\n" + HEAD + "word = re.compile('a')\n" + MADE + LOOP,
        "import re\n" + HEAD + "word = re.compile('a')\nmodel.compile()\n" + MADE + LOOP,
    ),
    "compiled already": Case(
        HEAD + "model = torch.compile(model)\n" + MADE + LOOP, refusal="compiles something itself"
    ),
    "a compiled method": Case(HEAD + "model.compile()\n" + MADE + LOOP, refusal="compiles something itself"),
    "wrapped for several devices": Case(
        HEAD + "model = torch.nn.DataParallel(model)\n" + MADE + LOOP, refusal="wrapped for several devices"
    ),
    "assigned again": Case(
        HEAD + MADE + "model = Wrapped(model)\n" + LOOP, refusal="`model` is assigned again"
    ),
    "the same name outside of the function that trains": Case(
        "import torch\ndef train(model):\n    " + MADE + "    for x in loader:\n        model(x).backward()\n"
        "model = Net()\ntrain(model)\n",
        "import torch\ndef train(model):\n    model.compile()\n    " + MADE + "    for x in loader:\n"
        "        model(x).backward()\nmodel = Net()\ntrain(model)\n",
    ),
    "wrapped between the optimizer and the training": Case(
        "import torch\ndef make(model):\n    " + MADE + "    keep(optimizer)\n"
        "def train(model):\n    for x in loader:\n        model(x).backward()\n"
        "model = Net()\nmake(model)\nmodel = Wrapped(model)\ntrain(model)\n",
        refusal="`model` is assigned again",
    ),
    "two models": Case(
        HEAD
        + "other = Net()\noptimizer = torch.optim.SGD([*model.parameters(), *other.parameters()])\n"
        + LOOP,
        refusal="which model the optimizer updates",
    ),
    "two optimizers": Case(HEAD + MADE + MADE + LOOP, refusal="made at 2 places"),
    "called nowhere": Case(
        HEAD + MADE + "fit(model, optimizer)\n", refusal="called beside a backward nowhere"
    ),
    "called twice": Case(
        HEAD + MADE + LOOP.replace("model(x)", "model(x) + model(-x)"),
        HEAD + "model.compile()\n" + MADE + LOOP.replace("model(x)", "model(x) + model(-x)"),
    ),
    "its forward is called": Case(
        HEAD + MADE + LOOP.replace("model(x)", "model.forward(x)"), refusal="forward is called directly"
    ),
    "a framework": Case("import lightning\n" + HEAD + MADE + LOOP, refusal="a framework sets up the model"),
    "TorchScript": Case(
        HEAD + MADE + LOOP,
        refusal="only compiling the whole model",
        asked={"execution": ("eager", "jit_script")},
    ),
    "blocks": Case(
        HEAD + MADE + LOOP,
        refusal="which blocks to compile",
        asked={"execution": ("eager", "compile"), "compile_region": ("model", "blocks")},
    ),
    "an optimizer that a function returns": Case(
        "import torch\ndef make(model):\n    return torch.optim.SGD(model.parameters())\n" + LOOP,
        refusal="returned by a function",
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_one_model_is_compiled_in_place(case: Case) -> None:
    check(Compile(), case, execution=("eager", "compile"))
