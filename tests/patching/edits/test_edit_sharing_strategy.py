from edit_tables import Case, check

from advisor.patching.edits.sharing_strategy import SharingStrategy

FILES = 'torch.multiprocessing.set_sharing_strategy("file_descriptor")'
NAMES = 'torch.multiprocessing.set_sharing_strategy("file_system")'


def test_the_way_of_sharing_is_set_right_behind_the_imports() -> None:
    case = Case("import torch\nx = 1\n", f"import torch\n\n{NAMES}\nx = 1\n")
    check(SharingStrategy(), case, sharing_strategy=("file_descriptor", "file_system"))


def test_one_that_the_program_sets_is_changed() -> None:
    case = Case(f"import torch\n{FILES}\n", f"import torch\n{NAMES}\n")
    check(SharingStrategy(), case, sharing_strategy=("file_descriptor", "file_system"))
