"""All rows of the table of bad inputs have a test, and what reads foreign bytes runs none of them."""

import ast
import importlib
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
ROOT = TESTS.parent
TABLES = ("target", "options", "storage", "configuration")
ROWS = [row for row in range(1, 89) if row != 66]  # which is about a command that is gone

# Rows whose tests stand with what they are about.
ELSEWHERE: dict[int, tuple[tuple[str, str], ...]] = {
    12: (("test_cli_target.py", "test_any_name_of_a_file_is_taken_and_shown_without_control_characters"),),
    78: (("test_notebook.py", "test_what_is_missing_is_told_with_an_example"),),
    79: (("test_notebook.py", "test_what_cannot_be_copied_to_another_process_is_named"),),
    80: (("test_notebook_bad_inputs.py", "test_what_a_step_does_wrong_is_told_as_the_user_s_own_exception"),),
    81: (
        ("test_profile_call.py", "test_numbers_out_of_range_are_refused"),
        ("test_profile_call.py", "test_a_loop_without_marks_is_refused_at_its_end"),
        ("test_profile_call.py", "test_a_step_outside_the_block_is_refused"),
    ),
    82: (
        ("test_profile_call.py", "test_a_profile_within_another_is_refused_and_the_outer_one_goes_on"),
        ("test_profile_call.py", "test_an_active_torch_profiler_is_refused"),
    ),
    83: (("test_in_process.py", "test_a_loop_shorter_than_its_warm_up_is_refused"),),
    84: (("test_notebook_bad_inputs.py", "test_a_wrong_call_is_refused_before_anything_starts"),),
    85: (
        ("test_notebook_bad_inputs.py", "test_a_running_event_loop_is_named"),
        ("test_notebook_bad_inputs.py", "test_a_forked_loader_worker_is_named"),
        ("test_notebook_bad_inputs.py", "test_a_script_without_the_guard_is_told_to_write_it"),
    ),
    86: (("test_notebook_kernel.py", "test_an_interrupt_returns_the_partial_result_and_the_kernel_lives"),),
    88: (
        ("test_cli_profile.py", "test_what_cannot_be_meant_is_refused_and_nothing_is_written"),
        ("test_trace_broken.py", "test_what_is_no_trace_is_refused_with_the_reason"),
        ("test_trace_broken.py", "test_a_gzip_bomb_is_refused_at_the_limit"),
        ("test_trace_broken.py", "test_a_file_beyond_the_limit_is_refused_before_it_is_read"),
        ("test_trace_broken.py", "test_negative_times_and_missing_ones_are_skipped_and_noted"),
    ),
}
UNPICKLES = {
    "tuners/trial/workload_transfer.py",
    "profiles/hooks/loading/loader_probe.py",
}  # what the same run has pickled itself


def functions(file: Path) -> set[str]:
    return {node.name for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.FunctionDef)}


def numbers_of(table: str) -> set[int]:
    """Rows in the tables of a module: by the keys of its dictionaries, its ids, and names of its tests."""
    name = f"test_bad_inputs_{table}"
    module = importlib.import_module(name)
    keys = [
        key
        for found in vars(module).values()
        if isinstance(found, dict)
        for key in found
        if isinstance(key, str)
    ]
    source = Path(str(module.__file__)).read_text()
    keys += re.findall(r"ids=\[([^\]]*)\]", source)
    keys += [key[len("test_") :].replace("_", " ") for key in functions(Path(str(module.__file__)))]
    return {int(number) for key in keys for number in re.findall(r'(?:^|")(\d+)(?= |"|$)', key)}


def test_every_row_of_the_table_has_a_test() -> None:
    found = set(ELSEWHERE).union(*(numbers_of(table) for table in TABLES))
    assert [row for row in ROWS if row not in found] == []


@pytest.mark.parametrize("row", ELSEWHERE)
def test_what_a_row_refers_to_is_there(row: int) -> None:
    for file, name in ELSEWHERE[row]:
        assert name in functions(next(TESTS.rglob(file))), (file, name)


def test_87_no_file_of_others_is_unpickled() -> None:
    found = []
    for folder in ("advisor", "tuners", "profiles"):
        for file in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(node, ast.Call) and (wrong := _unpickles(node)):
                    found.append((file.relative_to(ROOT).as_posix(), node.lineno, wrong))
    assert {file for file, _, _ in found} - UNPICKLES == set(), found


def _unpickles(call: ast.Call) -> str:
    """The name of a call that may run code of what it reads."""
    name = ast.unparse(call.func)
    if name == "torch.load":
        safe = [
            key for key in call.keywords if key.arg == "weights_only" and ast.unparse(key.value) == "True"
        ]
        return "" if safe else name
    return name if name.endswith(("pickle.load", "pickle.loads", "Unpickler")) else ""
