"""An image model and its one input, in the layout that convolutions read without reordering."""

import pytest
from edit_tables import Case, check

from advisor.patching.edits.channels_last import ChannelsLast

HEAD = "import torch\n\nmodel = Net()\n"
MADE = "optimizer = torch.optim.SGD(model.parameters())\n"
SET = "model.to(memory_format=torch.channels_last)\n"
LOOP = "for x, y in loader:\n    loss = criterion(model(x), y)\n    loss.backward()\n"
AFTER = LOOP.replace("model(x)", "model(x.to(memory_format=torch.channels_last))")

CASES: dict[str, Case] = {
    "a part of the batch": Case(HEAD + MADE + LOOP, HEAD + SET + MADE + AFTER),
    "with its number": Case(
        HEAD + MADE + LOOP.replace("x, y in loader", "i, (x, y) in enumerate(loader)"),
        HEAD + SET + MADE + AFTER.replace("x, y in loader", "i, (x, y) in enumerate(loader)"),
    ),
    "moved to a device": Case(
        HEAD + MADE + LOOP.replace("model(x)", "model(x.to(device))"),
        HEAD
        + SET
        + MADE
        + LOOP.replace("model(x)", "model(x.to(device).to(memory_format=torch.channels_last))"),
    ),
    "moved before": Case(
        HEAD + MADE + LOOP.replace("    loss =", "    x, y = x.to(device), y.to(device)\n    loss ="),
        HEAD + SET + MADE + AFTER.replace("    loss =", "    x, y = x.to(device), y.to(device)\n    loss ="),
    ),
    "a part by its key": Case(
        HEAD + MADE + "for batch in loader:\n    loss = criterion(model(batch['image']), batch['label'])\n"
        "    loss.backward()\n",
        HEAD + SET + MADE + "for batch in loader:\n    loss = criterion("
        "model(batch['image'].to(memory_format=torch.channels_last)), batch['label'])\n    loss.backward()\n",
    ),
    "evaluation is left alone": Case(
        HEAD + MADE + LOOP + "with torch.no_grad():\n    model(x)\n",
        HEAD + SET + MADE + AFTER + "with torch.no_grad():\n    model(x)\n",
    ),
    "images in another size": Case(
        HEAD + MADE + LOOP.replace("    loss =", "    x = x.view(-1, 1, 8, 8).to(device)\n    loss ="),
        HEAD + SET + MADE + AFTER.replace("    loss =", "    x = x.view(-1, 1, 8, 8).to(device)\n    loss ="),
    ),
    "images as rows, of which the model makes images": Case(
        HEAD + MADE + LOOP.replace("    loss =", "    x = x.reshape(-1, 28 * 28).to(device)\n    loss ="),
        refusal="whether `x` is one tensor of images is not clear",
    ),
    "flat images": Case(
        HEAD + MADE + LOOP.replace("    loss =", "    x = x.flatten(1)\n    loss ="), refusal="is not clear"
    ),
    "called again behind the loop": Case(
        HEAD + MADE + LOOP + "print(model(x).argmax())\n",
        HEAD + SET + MADE + AFTER + "print(model(x).argmax())\n",
    ),
    "a function with the name of a method": Case(
        "import torch\n\ndef train():\n    model = Net()\n    " + MADE + "    model.train()\n"
        "    for x, y in loader:\n        criterion(model(x), y).backward()\n\ntrain()\n",
        "import torch\n\ndef train():\n    model = Net()\n    " + SET + "    " + MADE + "    model.train()\n"
        "    for x, y in loader:\n        criterion(model(x.to(memory_format=torch.channels_last)), y)"
        ".backward()\n\ntrain()\n",
    ),
    "called twice in the loop": Case(
        HEAD + MADE + LOOP.replace("model(x)", "model(x) + model(-x)"), refusal="at 2 places"
    ),
    "two loops that train": Case(HEAD + MADE + LOOP + LOOP, refusal="at 2 places"),
    "a whole batch": Case(
        HEAD + MADE + "for batch in loader:\n    loss = model(batch)\n    loss.backward()\n",
        refusal="is not clear",
    ),
    "a numbered batch": Case(
        HEAD + MADE + "for i, batch in enumerate(loader):\n    loss = model(batch)\n    loss.backward()\n",
        refusal="is not clear",
    ),
    "several inputs": Case(
        HEAD + MADE + LOOP.replace("model(x)", "model(x, mask)"), refusal="more than one input"
    ),
    "an unpacked batch": Case(
        HEAD + MADE + LOOP.replace("model(x)", "model(*x)"), refusal="more than one input"
    ),
    "its own layout": Case(HEAD + SET + MADE + LOOP, refusal="sets a memory format itself"),
    "volumes": Case("from torch.nn import Conv3d\n" + HEAD + MADE + LOOP, refusal="convolutions of volumes"),
    "taking it back": Case(
        HEAD + MADE + LOOP, refusal="would have to be taken out", asked={"channels_last": ("on", "off")}
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_model_and_input_change_their_layout_together(case: Case) -> None:
    check(ChannelsLast(), case, channels_last=("off", "on"))
