"""The examples run by themselves, learn something, and know of advisor only where they must."""

import importlib.util
import json
import math
import re
from pathlib import Path

import pytest
from IPython.core.inputtransformer2 import TransformerManager
from warm import Warm

from advisor.workloads.workload import Workload

EXAMPLES = Path(__file__).parents[1] / "examples"
SCRIPTS = {
    "slow_storage.py": ["--epochs", "3", "--images", "320"],
    "photo_classifier.py": ["--epochs", "3", "--photos", "160"],
    "tiny_gpt.py": ["--steps", "21", "--batch-size", "4"],
    "gan.py": ["--epochs", "2", "--images", "512"],
    "mlp_nothing_to_gain.py": ["--steps", "21"],
}


def losses(warm: Warm, script: str, folder: Path, *args: str) -> list[float]:
    """What the script printed as its (first) loss, line by line."""
    done = warm.run(EXAMPLES / script, *args, cwd=folder, timeout=120)
    assert done.returncode == 0, done.stderr
    return [float(number) for number in re.findall(r"^.*?loss (\S+)", done.stdout, re.MULTILINE)]


@pytest.mark.slow
@pytest.mark.parametrize(
    "script",
    [
        pytest.param("slow_storage.py", marks=pytest.mark.long),
        "photo_classifier.py",
        "tiny_gpt.py",
        "mlp_nothing_to_gain.py",
    ],
)
def test_the_loss_of_a_script_falls(warm: Warm, script: str, tmp_path: Path) -> None:
    seen = losses(warm, script, tmp_path, *SCRIPTS[script])
    assert len(seen) == 3
    assert seen[-1] < 0.9 * seen[0]


@pytest.mark.slow
def test_the_networks_of_the_gan_keep_each_other_finite(warm: Warm, tmp_path: Path) -> None:
    seen = losses(warm, "gan.py", tmp_path, *SCRIPTS["gan.py"])
    assert len(seen) == 2
    assert all(math.isfinite(loss) for loss in seen)


@pytest.mark.slow
def test_accumulating_gradients_is_the_same_update_of_a_larger_batch(warm: Warm, tmp_path: Path) -> None:
    seen = losses(warm, "tiny_gpt.py", tmp_path, "--steps", "2", "--batch-size", "2", "--accumulation", "2")
    assert seen[-1] < seen[0]


@pytest.mark.slow
def test_a_script_with_fixed_seeds_prints_the_same_losses_again_and_leaves_no_files(
    warm: Warm, tmp_path: Path
) -> None:
    first, second = (losses(warm, "gan.py", tmp_path, *SCRIPTS["gan.py"]) for _ in range(2))
    assert first == second
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_knows_nothing_of_advisor(script: str) -> None:
    assert "import advisor" not in (EXAMPLES / script).read_text()


def test_a_step_of_the_workload_file_runs() -> None:
    import torch

    spec = importlib.util.spec_from_file_location("resnet18_fashion", EXAMPLES / "resnet18_fashion.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    workload = module.workload
    assert isinstance(workload, Workload)
    assert workload.loss is not None and workload.optimizer is not None

    model, data = workload.model(), workload.dataset()
    optimizer = workload.optimizer(model.parameters())
    items = [data[index] for index in range(4)]
    images, labels = torch.stack([image for image, _ in items]), torch.stack([label for _, label in items])
    assert images.shape == (4, 1, 28, 28)
    output = model(images)
    assert output.shape == (4, 10)
    loss = workload.loss(output, labels)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    torch.autograd.backward(loss)
    optimizer.step()

    assert math.isfinite(loss.item())
    assert all(not torch.equal(old, new) for old, new in zip(before, model.parameters(), strict=True))


def test_the_notebook_holds_code_that_compiles_and_no_outputs() -> None:
    notebook = json.loads((EXAMPLES / "notebook.ipynb").read_text())
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert code
    plain = TransformerManager()  # magics are calls of IPython
    for cell in code:
        compile(plain.transform_cell("".join(cell["source"])), cell["id"], "exec")
        assert (cell["outputs"], cell["execution_count"]) == ([], None)
    assert "advisor.tune(" in "".join("".join(cell["source"]) for cell in code)


def test_every_example_is_introduced_in_the_readme() -> None:
    introduced = set(re.findall(r"^\*\*`(\S+)`\*\*", (EXAMPLES / "README.md").read_text(), re.MULTILINE))
    assert introduced == {path.name for path in EXAMPLES.iterdir() if path.suffix in {".py", ".ipynb"}}
