"""The form of all optimizers, and programs in which that would be a guess."""

import pytest
from edit_tables import Case, check

from advisor.patching.edits.optimizer_arguments import OptimizerArguments

FUSED = {"optimizer_implementation": ("default", "fused")}
PLAIN = {"optimizer_implementation": ("fused", "default")}

CASES: dict[str, Case] = {
    "a keyword is added": Case(
        "import torch\noptimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)\n",
        "import torch\noptimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)\n",
    ),
    "an imported class": Case(
        "from torch.optim import SGD as Descent\noptimizer = Descent(p, 0.1)\n",
        "from torch.optim import SGD as Descent\noptimizer = Descent(p, 0.1, fused=True)\n",
    ),
    "an imported package": Case(
        "import torch.optim as optim\nself.optimizer = optim.Adam(p)\n",
        "import torch.optim as optim\nself.optimizer = optim.Adam(p, fused=True)\n",
    ),
    "the other form goes": Case(
        "import torch\noptimizer = torch.optim.Adam(p, foreach=True, lr=0.1)\n",
        "import torch\noptimizer = torch.optim.Adam(p, lr=0.1, fused=True)\n",
    ),
    "back to torch's choice": Case(
        "import torch\noptimizer = torch.optim.Adam(p, lr=0.1, fused=True)\n",
        "import torch\noptimizer = torch.optim.Adam(p, lr=0.1)\n",
        asked=PLAIN,
    ),
    "one loop over parameters": Case(
        "import torch\noptimizer = torch.optim.Adam(p)\n",
        "import torch\noptimizer = torch.optim.Adam(p, foreach=False)\n",
        asked={"optimizer_implementation": ("default", "for-loop")},
    ),
    "a workload's factory": Case(
        "import torch\nw = Workload(optimizer=lambda p: torch.optim.SGD(p, 0.05), batch=2)\n",
        "import torch\nw = Workload(optimizer=lambda p: torch.optim.SGD(p, 0.05, fused=True), batch=2)\n",
        kind="workload",
    ),
    "two optimizers": Case(
        "import torch\na = torch.optim.Adam(p)\nb = torch.optim.SGD(q, 0.1)\n",
        "import torch\na = torch.optim.Adam(p, fused=True)\nb = torch.optim.SGD(q, 0.1, fused=True)\n",
    ),
    "two optimizers of a program": Case(
        "import torch\nif __name__ == '__main__':\n    a = torch.optim.Adam(p)\n"
        "    b = torch.optim.Adam(q)\n",
        "import torch\nif __name__ == '__main__':\n    a = torch.optim.Adam(p, fused=True)\n"
        "    b = torch.optim.Adam(q, fused=True)\n",
    ),
    "two optimizers, one without the form": Case(
        "import torch\na = torch.optim.Adam(p)\nb = torch.optim.RMSprop(q)\n",
        refusal="RMSprop has no fused form",
    ),
    "one optimizer or another": Case(
        "import torch\nif plain:\n    a = torch.optim.SGD(p)\nelse:\n    a = torch.optim.Adam(p)\n",
        refusal="made at 2 places, perhaps not all in one run",
    ),
    "optimizers of two functions": Case(
        "import torch\ndef one():\n    return torch.optim.SGD(p)\n"
        "def two():\n    return torch.optim.SGD(q)\n",
        refusal="made at 2 places, perhaps not all in one run",
    ),
    "none of torch's": Case("optimizer = Mine(p)\n", refusal="made nowhere in this file"),
    "no such form": Case("import torch\no = torch.optim.RMSprop(p)\n", refusal="RMSprop has no fused form"),
    "unpacked arguments": Case("import torch\no = torch.optim.Adam(p, **how)\n", refusal="are unpacked"),
    "a computed form": Case(
        "import torch\no = torch.optim.Adam(p, fused=torch.cuda.is_available())\n",
        refusal="fused is computed",
    ),
    "a form in a dictionary": Case(
        "import torch\nhow = {'fused': False}\no = torch.optim.Adam(p)\n",
        refusal="set by name somewhere else",
    ),
    "one function that makes several": Case(
        "import torch\ndef make(m):\n    return torch.optim.Adam(m.parameters())\na, b = make(g), make(d)\n",
        refusal="make() makes several optimizers",
    ),
    "a function with the name of a method": Case(
        "import torch\ndef train(m):\n    o = torch.optim.Adam(p)\n    m.train()\ntrain(net)\n",
        "import torch\ndef train(m):\n    o = torch.optim.Adam(p, fused=True)\n    m.train()\ntrain(net)\n",
    ),
    "a method that makes several": Case(
        "import torch\nclass Part:\n    def make(self):\n        return torch.optim.Adam(self.p)\n"
        "a, b = g.make(), d.make()\n",
        refusal="make() makes several optimizers",
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_all_optimizers_are_edited_or_none(case: Case) -> None:
    check(OptimizerArguments(), case, **FUSED)
