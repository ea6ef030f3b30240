"""A learning rate that follows its batch size, wherever the rate itself comes from."""

import pytest
from edit_tables import Case, check

from advisor.patching.edits.learning_rate import LearningRate
from advisor.result.document import Value

HEAD = "import torch\nfrom torch.optim import lr_scheduler\n"
SQRT: dict[str, tuple[Value, Value]] = {"batch_size": (32, 128), "lr_scaling": ("none", "sqrt")}

CASES: dict[str, Case] = {
    "a number": Case(
        f"{HEAD}o = torch.optim.SGD(p, lr=0.1)\n", f"{HEAD}o = torch.optim.SGD(p, lr=0.1 * 4)\n"
    ),
    "by position": Case(f"{HEAD}o = torch.optim.SGD(p, 0.1)\n", f"{HEAD}o = torch.optim.SGD(p, 0.1 * 4)\n"),
    "an option keeps its meaning": Case(
        f"{HEAD}o = torch.optim.AdamW(p, lr=options.lr)\n",
        f"{HEAD}o = torch.optim.AdamW(p, lr=options.lr * 4**0.5)\n",
        asked=SQRT,
    ),
    "a sum is put in brackets": Case(
        f"{HEAD}o = torch.optim.SGD(p, lr=a + b)\n", f"{HEAD}o = torch.optim.SGD(p, lr=(a + b) * 4)\n"
    ),
    "a part of a whole": Case(
        f"{HEAD}o = torch.optim.SGD(p, lr=0.1)\n",
        f"{HEAD}o = torch.optim.SGD(p, lr=0.1 * (48 / 32))\n",
        asked={"batch_size": (32, 48), "lr_scaling": ("none", "linear")},
    ),
    "a scheduler that multiplies": Case(
        f"{HEAD}o = torch.optim.SGD(p, lr=0.1)\ns = lr_scheduler.StepLR(o, 30)\n",
        f"{HEAD}o = torch.optim.SGD(p, lr=0.1 * 4)\ns = lr_scheduler.StepLR(o, 30)\n",
    ),
    "a scheduler with rates of its own": Case(
        f"{HEAD}o = torch.optim.SGD(p, lr=0.1)\ns = lr_scheduler.OneCycleLR(o, 0.1)\n",
        refusal="OneCycleLR sets learning rates of its own",
    ),
    "a floor": Case(
        f"{HEAD}o = torch.optim.SGD(p, lr=0.1)\ns = lr_scheduler.CosineAnnealingLR(o, 9, eta_min=1e-5)\n",
        refusal="CosineAnnealingLR sets learning rates of its own",
    ),
    "an unknown scheduler": Case(
        f"{HEAD}o = torch.optim.SGD(p, lr=0.1)\ns = get_scheduler(o)\n", refusal="`get_scheduler` may set"
    ),
    "rates of groups": Case(
        f"{HEAD}o = torch.optim.SGD(p, lr=0.1)\nfor g in o.param_groups:\n    g['lr'] = 0.2\n",
        refusal="also set or read",
    ),
    "no rate": Case(f"{HEAD}o = torch.optim.Adam(p)\n", refusal="without an argument lr"),
    "no batch": Case(
        f"{HEAD}o = torch.optim.SGD(p, lr=0.1)\n",
        refusal="does not change",
        asked={"lr_scaling": ("none", "sqrt")},
    ),
    "the rule of the noise scale": Case(
        f"{HEAD}o = torch.optim.SGD(p, lr=0.1)\n",
        refusal="advisor does not edit",
        asked={"batch_size": (32, 128), "lr_scaling": ("none", "noise_scale:400")},
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_rate_is_scaled_where_nothing_else_sets_rates(case: Case) -> None:
    check(LearningRate(), case, batch_size=(32, 128), lr_scaling=("none", "linear"))
