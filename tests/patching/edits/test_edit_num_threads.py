from edit_tables import Case, check

from advisor.patching.edits.num_threads import NumThreads


def test_threads_are_set_behind_the_imports() -> None:
    check(
        NumThreads(),
        Case("import torch\nx = 1\n", "import torch\n\ntorch.set_num_threads(2)\nx = 1\n"),
        num_threads=(1, 2),
    )


def test_a_number_that_the_program_sets_is_replaced() -> None:
    case = Case("import torch\ntorch.set_num_threads(1)\n", "import torch\ntorch.set_num_threads(2)\n")
    check(NumThreads(), case, num_threads=(1, 2))


def test_a_number_from_an_option_is_left_alone() -> None:
    case = Case(
        "import torch\ntorch.set_num_threads(options.threads)\n", refusal="is set to `options.threads`"
    )
    check(NumThreads(), case, num_threads=(1, 2))


def test_no_variable_is_needed_beside_it() -> None:
    assert NumThreads().replaces_environment
