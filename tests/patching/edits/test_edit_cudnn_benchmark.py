from edit_tables import Case, check

from advisor.patching.edits.cudnn_benchmark import CudnnBenchmark

ON = ("off", "on")


def test_the_flag_is_assigned_behind_the_imports() -> None:
    case = Case("import torch\nx = 1\n", "import torch\n\ntorch.backends.cudnn.benchmark = True\nx = 1\n")
    check(CudnnBenchmark(), case, cudnn_benchmark=ON)


def test_a_flag_that_the_program_sets_is_changed() -> None:
    before = "import torch.backends.cudnn as cudnn\nimport torch\ncudnn.benchmark = False\n"
    check(CudnnBenchmark(), Case(before, before.replace("False", "True")), cudnn_benchmark=ON)


def test_a_program_that_wants_determinism_is_left_alone() -> None:
    case = Case("import torch\ntorch.backends.cudnn.deterministic = True\n", refusal="excludes it")
    check(CudnnBenchmark(), case, cudnn_benchmark=ON)
