"""The precision of matrix products: set behind the imports, or changed where it is set."""

import pytest
from edit_tables import Case, check

from advisor.patching.edits.matmul_precision import MatmulPrecision

CALL = 'torch.set_float32_matmul_precision("medium")'
CASES: dict[str, Case] = {
    "behind the imports": Case(
        '"""A program."""\n\nimport os\n\nimport torch\nfrom torch import nn\n\nx = 1\n',
        f'"""A program."""\n\nimport os\n\nimport torch\nfrom torch import nn\n\n{CALL}\n\nx = 1\n',
    ),
    "beside another setting": Case(
        "import torch\n\ntorch.set_num_threads(2)\nx = 1\n",
        f"import torch\n\ntorch.set_num_threads(2)\n{CALL}\nx = 1\n",
    ),
    "after what has to come before torch": Case(
        "import os\nos.environ['A'] = '1'\nimport torch\nx = 1\n",
        f"import os\nos.environ['A'] = '1'\nimport torch\n\n{CALL}\nx = 1\n",
    ),
    "where it is set": Case(
        "import torch\nif True:\n    torch.set_float32_matmul_precision('high')\n",
        'import torch\nif True:\n    torch.set_float32_matmul_precision("medium")\n',
    ),
    "a computed value": Case(
        "import torch\ntorch.set_float32_matmul_precision(p)\n", refusal="is set to `p`"
    ),
    "set twice": Case(
        "import torch\n" + 2 * "torch.set_float32_matmul_precision('high')\n",
        refusal="at 2 places",
    ),
    "the newer way": Case(
        "import torch\ntorch.backends.fp32_precision = 'tf32'\n",
        refusal="uses `fp32_precision`, a setting that excludes it",
    ),
    "torch under another name": Case(
        "import torch as t\nx = t.ones(1)\n", f"import torch\nimport torch as t\n\n{CALL}\nx = t.ones(1)\n"
    ),
    "only parts of torch": Case(
        "import os\n# layers\nfrom torch import nn, optim\nfrom mine import Net\n\nx = 1\n",
        "import os\n# layers\nimport torch\nfrom torch import nn, optim\nfrom mine import Net\n\n"
        f"{CALL}\n\nx = 1\n",
    ),
    "parts of torch by a path": Case(
        "import torch.nn as nn\nfrom torch.utils import data\nx = 1\n",
        f"import torch\nimport torch.nn as nn\nfrom torch.utils import data\n\n{CALL}\nx = 1\n",
    ),
    "torch is something else": Case(
        "from torch import nn\ntorch = nn.Linear(1, 1)\n",
        refusal="`torch` is not only the name of the package",
    ),
    "no torch": Case("import mine\n", refusal="not imported at the top of the file"),
    "torch imported in a function": Case(
        "def main():\n    import torch\n", refusal="not imported at the top of the file"
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_precision_is_set_once(case: Case) -> None:
    check(MatmulPrecision(), case, matmul_precision=("highest", "medium"))
