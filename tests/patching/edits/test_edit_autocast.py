"""Forward and loss under autocast, with the loss in float32 as it was measured."""

import pytest
from edit_tables import Case, check

from advisor.patching.edits.autocast import Autocast

HEAD = """
import torch
import torch.nn.functional as F
from torch import nn

criterion = nn.CrossEntropyLoss()
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
WITH = 'with torch.autocast("cpu", dtype=torch.bfloat16):'


def loop(*lines: str) -> str:
    return HEAD + "for x, y in loader:\n" + "".join(f"    {line}\n" for line in lines)


CASES: dict[str, Case] = {
    "one statement": Case(
        loop("loss = F.cross_entropy(model(x), y)", "loss.backward()"),
        loop(WITH, "    loss = F.cross_entropy(model(x), y)", "loss.backward()"),
    ),
    "forward and loss": Case(
        loop(
            "optimizer.zero_grad()",
            "# forward",
            "output = model(x)",
            "loss = criterion(output, y)",
            "loss.backward()",
        ),
        loop(
            "optimizer.zero_grad()",
            "# forward",
            WITH,
            "    output = model(x)",
            "    loss = criterion(output, y)",
            "loss.backward()",
        ),
    ),
    "gradients are cleared between them": Case(
        loop("output = model(x)", "loss = criterion(output, y)", "optimizer.zero_grad()", "loss.backward()"),
        loop(
            WITH,
            "    output = model(x)",
            "    loss = criterion(output, y)",
            "optimizer.zero_grad()",
            "loss.backward()",
        ),
    ),
    "a comment between them stays there": Case(
        loop("output = model(x)", "# the loss", "loss = criterion(output, y)", "loss.backward()"),
        loop(
            WITH,
            "    output = model(x)",
            "    # the loss",
            "    loss = criterion(output, y)",
            "loss.backward()",
        ),
    ),
    "an output that is used further comes back in float32": Case(
        loop("output = model(x)", "loss = criterion(output, y)", "loss.backward()", "keep(output.numpy())"),
        loop(
            WITH,
            "    output = model(x).float()",
            "    loss = criterion(output, y)",
            "loss.backward()",
            "keep(output.numpy())",
        ),
    ),
    "another shape on its way to the loss": Case(
        loop("loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten()) / 4", "loss.backward()"),
        loop(WITH, "    loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten()) / 4", "loss.backward()"),
    ),
    "arithmetic of its own": Case(
        loop("loss = (model(x) - y).pow(2).mean()", "loss.backward()"),
        loop(WITH, "    loss = (model(x).float() - y).pow(2).mean()", "loss.backward()"),
    ),
    "arithmetic on a named output": Case(
        loop("output = model(x)", "loss = (output - y).abs().mean()", "loss.backward()"),
        loop(
            WITH, "    output = model(x).float()", "    loss = (output - y).abs().mean()", "loss.backward()"
        ),
    ),
    "the model computes its loss": Case(
        loop("logits, loss = model(x, y)", "loss.backward()"),
        loop(WITH, "    logits, loss = model(x, y)", "loss.backward()"),
    ),
    "the loss is a field of the output": Case(
        loop(
            "output = model(**batch)",
            "loss = output.loss / 2",
            "loss.backward()",
            "print(output['loss'].item())",
        ),
        loop(
            WITH,
            "    output = model(**batch)",
            "loss = output.loss / 2",
            "loss.backward()",
            "print(output['loss'].item())",
        ),
    ),
    "the loss of a function": Case(
        HEAD + "def train(net, cost, batches):\n    for x, y in batches:\n        loss = cost(net(x), y)\n"
        "        loss.backward()\n\ntrain(model, criterion, loader)\n",
        HEAD + f"def train(net, cost, batches):\n    for x, y in batches:\n        {WITH}\n"
        "            loss = cost(net(x), y)\n        loss.backward()\n\ntrain(model, criterion, loader)\n",
    ),
    "the parts of a scaled loss": Case(
        loop("loss = F.mse_loss(model(x), y)", "(loss / 4).backward()"),
        loop(WITH, "    loss = F.mse_loss(model(x), y)", "(loss / 4).backward()"),
    ),
    "a device that may be another one": Case(
        HEAD + "model.to(device)\nfor x, y in loader:\n"
        "    loss = F.mse_loss(model(x.to(device)), y)\n    loss.backward()\n",
        HEAD + "model.to(device)\nfor x, y in loader:\n"
        "    with torch.autocast(next(model.parameters()).device.type, dtype=torch.bfloat16):\n"
        "        loss = F.mse_loss(model(x.to(device)), y)\n    loss.backward()\n",
    ),
    "lines of one call": Case(
        loop("loss = F.mse_loss(", "    model(x),", "    y,  # wanted", ")", "loss.backward()"),
        loop(
            WITH,
            "    loss = F.mse_loss(",
            "        model(x),",
            "        y,  # wanted",
            "    )",
            "loss.backward()",
        ),
    ),
    "evaluation is left alone": Case(
        loop("loss = F.mse_loss(model(x), y)", "loss.backward()") + "with torch.no_grad():\n    model(x)\n",
        loop(WITH, "    loss = F.mse_loss(model(x), y)", "loss.backward()")
        + "with torch.no_grad():\n    model(x)\n",
    ),
    "float16": Case(
        loop("loss = F.mse_loss(model(x), y)", "loss.backward()"),
        refusal="needs a scaled loss",
        asked={"amp": ("off", "fp16")},
    ),
    "its own autocast": Case(
        loop("with torch.autocast('cpu'):", "    loss = F.mse_loss(model(x), y)", "loss.backward()"),
        refusal="uses autocast itself",
    ),
    "a loss that is computed at backward": Case(
        loop("output = model(x)", "criterion(output, y).backward()"),
        loop(WITH, "    output = model(x).float()", "criterion(output, y).backward()"),
    ),
    "a sum at backward": Case(
        loop("output = model(x)", "output.sum().backward()"),
        loop(WITH, "    output = model(x).float()", "output.sum().backward()"),
    ),
    "a field at backward": Case(
        loop("output = model(**batch)", "(output.loss / 2).backward()", "print(output.loss.item())"),
        loop(
            WITH,
            "    output = model(**batch)",
            "(output.loss / 2).backward()",
            "print(output.loss.item())",
        ),
    ),
    "a loss of its own at backward": Case(
        loop("output = model(x)", "my_loss(output, y).backward()"),
        refusal="`output` goes into `my_loss(output, y)`, and whether",
    ),
    "an output beside the model's loss": Case(
        loop("logits, loss = model(x, y)", "loss.backward()", "keep(logits.numpy())"),
        refusal="`logits, loss` is used further, in fewer bits than before",
    ),
    "a state beside the model's loss": Case(
        loop("loss, state = model(x, state)", "loss.backward()"),
        refusal="`loss, state` is used further, in fewer bits than before",
    ),
    "a field that is used beside the loss": Case(
        loop("output = model(**batch)", "output.loss.backward()", "keep(output.logits.numpy())"),
        refusal="what becomes of `output`",
    ),
    "an output in another shape": Case(
        loop("output = model(x).squeeze(1)", "loss = criterion(output, y)", "loss.backward()"),
        loop(WITH, "    output = model(x).squeeze(1)", "    loss = criterion(output, y)", "loss.backward()"),
    ),
    "an output in another shape that is used further": Case(
        loop("output = model(x).view(-1)", "loss = criterion(output, y)", "loss.backward()", "keep(output)"),
        loop(
            WITH,
            "    output = model(x).view(-1).float()",
            "    loss = criterion(output, y)",
            "loss.backward()",
            "keep(output)",
        ),
    ),
    "a test behind the loop": Case(
        loop("loss = F.mse_loss(model(x), y)", "loss.backward()") + "print(model(x))\n",
        loop(WITH, "    loss = F.mse_loss(model(x), y)", "loss.backward()") + "print(model(x))\n",
    ),
    "a loss that autocast refuses": Case(
        loop("loss = F.binary_cross_entropy(model(x), y)", "loss.backward()"),
        refusal="`model(x)` goes into `F.binary_cross_entropy(model(x), y)`",
    ),
    "a loss of its own": Case(
        loop("output = model(x)", "loss = my_loss(output, y)", "loss.backward()"),
        refusal="`output` goes into `my_loss(output, y)`, and whether autocast leaves that in float32",
    ),
    "something else that computes": Case(
        loop("loss = F.mse_loss(model(x), teacher(x))", "loss.backward()"),
        refusal="`teacher(x)` would run under autocast, too",
    ),
    "a product of matrices": Case(
        loop("output = model(x)", "w = y @ y", "loss = F.mse_loss(output, y)", "loss.backward()"),
        refusal="multiplies matrices",
    ),
    "a block between them": Case(
        loop("output = model(x)", "if y:", "    print(1)", "loss = F.mse_loss(output, y)", "loss.backward()"),
        refusal="a block stands between",
    ),
    "the loss is never named": Case(
        loop("F.mse_loss(model(x), y).backward()"), refusal="does not assign what the model returns"
    ),
    "a state that goes from step to step": Case(
        loop("output, state = model(x, state)", "loss = criterion(output, y)", "loss.backward()"),
        refusal="is used further, in fewer bits",
    ),
    "a closure": Case(
        HEAD + "def closure():\n    loss = F.mse_loss(model(x), y)\n    loss.backward()\n    return loss\n",
        HEAD + f"def closure():\n    {WITH}\n"
        "        loss = F.mse_loss(model(x), y)\n    loss.backward()\n    return loss\n",
    ),
    "a backward somewhere else": Case(
        HEAD + "def loss_of(x, y):\n    loss = F.mse_loss(model(x), y)\n    return loss\n"
        "loss_of(x, y).backward()\n",
        refusal="called beside a backward nowhere",
    ),
    "two on one line": Case(
        loop("loss = F.mse_loss(model(x), y); loss.backward()"), refusal="several statements"
    ),
    "only parts of torch are imported": Case(
        "from torch import nn, optim\nmodel = Net()\noptimizer = optim.SGD(model.parameters(), lr=0.1)\n"
        "for x, y in loader:\n    loss = nn.functional.mse_loss(model(x), y)\n    loss.backward()\n",
        "import torch\nfrom torch import nn, optim\nmodel = Net()\n"
        f"optimizer = optim.SGD(model.parameters(), lr=0.1)\nfor x, y in loader:\n    {WITH}\n"
        "        loss = nn.functional.mse_loss(model(x), y)\n    loss.backward()\n",
    ),
    "accelerate": Case(
        "import accelerate\n" + loop("loss = F.mse_loss(model(x), y)", "accelerator.backward(loss)"),
        refusal="a framework sets the precision",
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_only_forward_and_a_loss_in_float32_come_under_autocast(case: Case) -> None:
    check(Autocast(), case, amp=("off", "bf16"))


@pytest.mark.filterwarnings("ignore:reduction")
def test_losses_that_are_known_are_computed_in_float32_under_autocast() -> None:
    import torch

    from advisor.patching.source.loss_statements import LOSSES

    two = torch.rand(4, 3).softmax(1).bfloat16()
    three = ("cosine_embedding_loss", "margin_ranking_loss")
    classes = ("cross_entropy", "nll_loss", "multi_margin_loss")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        for name in LOSSES:
            function = getattr(torch.nn.functional, name)
            target = torch.tensor([0, 1, 2, 0]) if name in classes else two
            extra = (
                (torch.ones(4) if name == "cosine_embedding_loss" else torch.ones(4, 3),)
                if name in three
                else ()
            )
            assert function(two, target, *extra).dtype == torch.float32, name
