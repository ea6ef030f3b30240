from edit_tables import Case, check

from advisor.patching.edits.flush_denormal import FlushDenormal


def test_the_switch_is_set_right_behind_the_imports() -> None:
    case = Case("import torch\nx = 1\n", "import torch\n\ntorch.set_flush_denormal(True)\nx = 1\n")
    check(FlushDenormal(), case, flush_denormal=("off", "on"))


def test_a_switch_that_the_program_sets_is_changed() -> None:
    case = Case(
        "import torch\ntorch.set_flush_denormal(False)\n", "import torch\ntorch.set_flush_denormal(True)\n"
    )
    check(FlushDenormal(), case, flush_denormal=("off", "on"))
