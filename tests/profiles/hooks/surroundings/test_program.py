"""A program under observation cannot tell the difference to a bare ``python``."""

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

import pytest

BOOT_FILE = """
import sys
from advisor.profiles.hooks.surroundings.program import run_file
run_file(sys.argv[1], sys.argv[2:])
"""
BOOT_MODULE = """
import sys
from advisor.profiles.hooks.surroundings.program import run_module
run_module(sys.argv[1], sys.argv[2:])
"""
TELLING = """
import sys
from advisor.profiles.hooks.surroundings.program import run_file, user_frame, user_traceback
try:
    run_file(sys.argv[1], sys.argv[2:])
except BaseException as error:
    print(user_traceback(error), file=sys.stderr, end="")
    print(user_frame(error))
"""

SELF_PORTRAIT = '''
"""What the program is called."""
import json, re, sys
main = sys.modules["__main__"]
names = {k: re.sub("0x[0-9a-f]+", "", repr(v)) for k, v in vars(main).items() if k.startswith("__")}
names.pop("__loader__")
loader = type(main.__loader__).__name__, main.__loader__.name
path = [entry for entry in sys.path if "site-packages" not in entry]
seen = [names, loader, sys.argv, path, sys.orig_argv[1:], main.__dict__ is globals()]
print(json.dumps(seen, sort_keys=True))
'''


@dataclass(frozen=True)
class Ended:
    """How a program ended."""

    code: int
    out: str
    err: str


def in_folder(folder: Path, *command: str, **environment: str) -> Ended:
    done = subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        capture_output=True,
        timeout=120,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1", **environment},
    )
    return Ended(
        done.returncode, done.stdout.decode(errors="backslashreplace"), done.stderr.decode(errors="replace")
    )


def observed(folder: Path, script: str, *args: str, **environment: str) -> Ended:
    return in_folder(folder, "-P", "-c", BOOT_FILE, script, *args, **environment)


def observed_module(folder: Path, name: str, *args: str) -> Ended:
    return in_folder(folder, "-P", "-c", BOOT_MODULE, name, *args)


def told(folder: Path, script: str) -> Ended:
    return in_folder(folder, "-P", "-c", TELLING, script)


def a_file(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(dedent(text))
    return path


@pytest.mark.parametrize("script", ["look.py", "./look.py", "deep/look.py", "deep/../look.py", "link.py"])
def test_a_script_sees_the_same_main_arguments_and_path_as_under_python(tmp_path: Path, script: str) -> None:
    a_file(tmp_path, "look.py", SELF_PORTRAIT)
    a_file(tmp_path, "deep/look.py", SELF_PORTRAIT)
    (tmp_path / "link.py").symlink_to("deep/look.py")

    bare = in_folder(tmp_path, script, "--epochs", "1", "")

    assert bare.code == 0, bare.err
    assert observed(tmp_path, script, "--epochs", "1", "") == bare


def test_an_absolute_script_sees_the_same_as_under_python(tmp_path: Path) -> None:
    script = str(a_file(tmp_path, "look.py", SELF_PORTRAIT))
    assert observed(tmp_path, script) == in_folder(tmp_path, script)


def test_the_folder_in_which_we_were_started_is_not_on_the_path(tmp_path: Path) -> None:
    a_file(tmp_path, "deep/look.py", SELF_PORTRAIT)
    started_with_its_folder = in_folder(tmp_path, "-c", BOOT_FILE, "deep/look.py")
    assert started_with_its_folder == in_folder(tmp_path, "deep/look.py")


def test_entries_of_pythonpath_stay_where_they_were(tmp_path: Path) -> None:
    a_file(tmp_path, "deep/look.py", SELF_PORTRAIT)
    places = {"PYTHONPATH": f"{tmp_path}:{tmp_path}/other"}
    bare = in_folder(tmp_path, "deep/look.py", **places)
    assert observed(tmp_path, "deep/look.py", **places) == bare


def test_a_safe_path_asked_for_by_the_user_is_respected(tmp_path: Path) -> None:
    a_file(tmp_path, "look.py", SELF_PORTRAIT)
    bare = in_folder(tmp_path, "look.py", PYTHONSAFEPATH="1")
    assert observed(tmp_path, "look.py", PYTHONSAFEPATH="1") == bare


@pytest.mark.parametrize("name", ["pkg", "pkg.sub.look", "single"])
def test_a_module_sees_the_same_as_under_python_m(tmp_path: Path, name: str) -> None:
    a_file(tmp_path, "pkg/__init__.py", "")
    a_file(tmp_path, "pkg/__main__.py", SELF_PORTRAIT)
    a_file(tmp_path, "pkg/sub/__init__.py", "")
    a_file(tmp_path, "pkg/sub/look.py", SELF_PORTRAIT)
    a_file(tmp_path, "single.py", SELF_PORTRAIT)

    bare = in_folder(tmp_path, "-m", name, "-x", "y")

    assert bare.code == 0, bare.err
    assert observed_module(tmp_path, name, "-x", "y") == bare


def test_relative_imports_work_in_a_package_run_as_a_module(tmp_path: Path) -> None:
    a_file(tmp_path, "pkg/__init__.py", "import sys; seen = sys.argv[0]")
    a_file(tmp_path, "pkg/other.py", "value = 7")
    a_file(tmp_path, "pkg/__main__.py", "from . import seen\nfrom .other import value\nprint(value, seen)")
    assert observed_module(tmp_path, "pkg") == in_folder(tmp_path, "-m", "pkg") == Ended(0, "7 -m\n", "")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("absent", "No module named absent"),
        ("pkg.absent", "No module named pkg.absent"),
        ("pkg", "'pkg' is a package and cannot be directly executed"),
    ],
)
def test_a_module_that_cannot_be_run_is_an_import_error_in_pythons_words(
    tmp_path: Path, name: str, words: str
) -> None:
    a_file(tmp_path, "pkg/__init__.py", "")
    ended = observed_module(tmp_path, name)
    assert ended.code == 1
    assert words in ended.err


@pytest.mark.parametrize(
    ("line", "code"),
    [("", 0), ("sys.exit(7)", 7), ("sys.exit('no data')", 1), ("raise ValueError('x')", 1), ("exit(3)", 3)],
)
def test_the_exit_code_is_the_programs(tmp_path: Path, line: str, code: int) -> None:
    a_file(tmp_path, "end.py", f"import sys\n{line}\n")
    assert in_folder(tmp_path, "end.py").code == code
    assert observed(tmp_path, "end.py").code == code


def test_exit_functions_and_threads_still_find_the_programs_main(tmp_path: Path) -> None:
    text = """
        import atexit, sys, threading
        value = 5
        def look(who):
            print(who, sys.modules["__main__"].value)
        atexit.register(look, "exit")
        def later():
            threading.main_thread().join()
            look("thread")
        threading.Thread(target=later).start()
        """
    a_file(tmp_path, "main.py", text)
    assert observed(tmp_path, "main.py") == Ended(0, "thread 5\nexit 5\n", "")
    assert observed_module(tmp_path, "main") == Ended(0, "thread 5\nexit 5\n", "")


def test_torch_is_imported_by_the_program_so_that_its_thread_count_is_honoured(tmp_path: Path) -> None:
    text = """
        import os, sys
        assert "torch" not in sys.modules
        os.environ["OMP_NUM_THREADS"] = "2"
        import torch
        print(torch.get_num_threads())
        """
    a_file(tmp_path, "train.py", text)
    assert observed(tmp_path, "train.py") == Ended(0, "2\n", "")


WITH_WORKERS = """
    import multiprocessing

    class Numbers:
        def __getitem__(self, i):
            return float(i)

    if __name__ == "__main__":
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            print(pool.map(Numbers().__getitem__, range(4)))
    """


@pytest.mark.parametrize("as_module", [False, True])
def test_spawned_workers_find_a_dataset_class_of_main(tmp_path: Path, as_module: bool) -> None:
    a_file(tmp_path, "train.py", WITH_WORKERS)
    ended = observed_module(tmp_path, "train") if as_module else observed(tmp_path, "train.py")
    assert ended == Ended(0, "[0.0, 1.0, 2.0, 3.0]\n", "")


def test_an_object_of_a_class_in_main_can_be_pickled(tmp_path: Path) -> None:
    text = """
        import pickle
        class Point:
            x = 3
        print(pickle.loads(pickle.dumps(Point())).x, Point.__module__)
        """
    a_file(tmp_path, "main.py", text)
    assert observed(tmp_path, "main.py") == Ended(0, "3 __main__\n", "")


def test_future_imports_of_ours_do_not_reach_the_program(tmp_path: Path) -> None:
    a_file(tmp_path, "main.py", "def f(x: int): ...\nprint(f.__annotations__)")
    boot = "from __future__ import annotations\n" + BOOT_FILE
    assert in_folder(tmp_path, "-c", boot, "main.py").out == "{'x': <class 'int'>}\n"


def test_a_source_in_another_coding_is_read_as_it_declares(tmp_path: Path) -> None:
    (tmp_path / "main.py").write_bytes(b"# -*- coding: latin-1 -*-\nprint(ascii('\xe9'))\n")
    assert observed(tmp_path, "main.py") == Ended(0, "'\\xe9'\n", "")


def test_a_source_with_a_byte_order_mark_runs(tmp_path: Path) -> None:
    (tmp_path / "main.py").write_bytes(b"\xef\xbb\xbfprint(1)\n")
    assert observed(tmp_path, "main.py") == Ended(0, "1\n", "")


HOSTILE = [
    "<script>alert(1)</script>.py",
    "a'b\"c.py",
    "two\nlines.py",
    "[red]x\x1b[31m.py",
    "\u202eyp.py",
    "sp ace",
    os.fsdecode(b"mod\xff.py"),  # no text at all
]


@pytest.mark.parametrize("name", [name.replace("/", "_") for name in HOSTILE], ids=ascii)
def test_a_script_may_have_any_name(tmp_path: Path, name: str) -> None:
    a_file(tmp_path, name, "import sys; print(ascii(sys.argv[0]))")
    assert observed(tmp_path, name) == Ended(0, ascii(name) + "\n", "")


def test_the_users_own_modules_are_not_hidden_by_ours(tmp_path: Path) -> None:
    ours = [
        "profile", "store", "knob", "machine", "run", "hooks", "profiles", "tuners", "templates", "program",
        "statistics",
    ]  # fmt: skip
    for name in ours:
        a_file(tmp_path, f"{name}.py", "mine = True")
    a_file(
        tmp_path,
        "main.py",
        f"import {', '.join(ours)}\nprint([{', '.join(f'{name}.mine' for name in ours)}])",
    )
    everyone = Ended(0, f"{[True] * len(ours)}\n", "")
    assert observed(tmp_path, "main.py") == observed_module(tmp_path, "main") == everyone


def test_a_module_of_the_standard_library_that_we_loaded_gives_way_to_the_users(tmp_path: Path) -> None:
    a_file(tmp_path, "dataclasses.py", "mine = True")
    a_file(tmp_path, "main.py", "import dataclasses; print(hasattr(dataclasses, 'mine'))")
    assert observed(tmp_path, "main.py") == in_folder(tmp_path, "main.py") == Ended(0, "True\n", "")


def test_what_every_python_has_loaded_does_not_give_way(tmp_path: Path) -> None:
    a_file(tmp_path, "os.py", "mine = True")
    a_file(tmp_path, "main.py", "import os; print(hasattr(os, 'mine'))")
    assert observed(tmp_path, "main.py") == in_folder(tmp_path, "main.py") == Ended(0, "False\n", "")


def test_a_started_folder_of_ours_is_taken_off_the_path(tmp_path: Path) -> None:
    boot = """
import json, sys
import advisor.profiles.hooks.surroundings.program as program
own = program.__file__.rpartition("/")[0]
sys.path[:0] = ["started from", own]
program.forget_our_folder()
print(json.dumps(["started from" in sys.path, own in sys.path]))
before = list(sys.path)
program.forget_our_folder()
print(sys.path == before)
"""
    ended = in_folder(tmp_path, "-c", boot)
    assert ended == Ended(0, "[false, false]\nTrue\n", "")


def test_the_root_of_a_clone_on_the_path_stands_behind_the_users_libraries(tmp_path: Path) -> None:
    root = Path(__file__).parents[4]
    a_file(tmp_path, "lib/profiles.py", "mine = True")
    a_file(tmp_path, "src/main.py", "import profiles, advisor; print(profiles.mine)")
    ended = observed(tmp_path, "src/main.py", PYTHONPATH=f"{root}:{tmp_path}/lib")
    assert ended == Ended(0, "True\n", "")


def test_a_failure_is_told_as_the_bare_program_tells_it(tmp_path: Path) -> None:
    text = """
        import json
        def load(text):
            return json.loads(text)
        def main():
            try:
                load("{")
            except ValueError as error:
                raise RuntimeError("no data") from error
        main()
        """
    a_file(tmp_path, "main.py", text)
    ended = told(tmp_path, "main.py")
    assert ended.err == in_folder(tmp_path, "main.py").err
    assert ended.out == f"{tmp_path}/main.py:9\n"


def test_the_place_of_a_failure_inside_a_library_is_the_users_last_frame(tmp_path: Path) -> None:
    a_file(tmp_path, "other.py", "import json\ndef load():\n    return json.loads('{')\n")
    a_file(tmp_path, "main.py", "import other\nother.load()\n")
    assert told(tmp_path, "main.py").out == f"{tmp_path}/other.py:3\n"


@pytest.mark.parametrize("text", ["def f(:\n", "if True:\nprint(1)\n"])
def test_a_script_that_cannot_be_compiled_is_told_as_python_tells_it(tmp_path: Path, text: str) -> None:
    a_file(tmp_path, "main.py", text)
    ended = told(tmp_path, "main.py")
    # How far Python underlines depends on whether it read from a file.
    assert re.sub(r"\^+", "^", ended.err) == in_folder(tmp_path, "main.py").err
    assert ended.out.startswith(f"{tmp_path}/main.py:")


def test_members_of_an_exception_group_show_the_users_frames_alone(tmp_path: Path) -> None:
    text = """
        def fail():
            raise ValueError("one")
        try:
            fail()
        except ValueError as error:
            raise ExceptionGroup("both", [error])
        """
    a_file(tmp_path, "main.py", text)
    assert told(tmp_path, "main.py").err == in_folder(tmp_path, "main.py").err


def test_without_a_frame_of_the_users_there_is_no_place() -> None:
    from advisor.profiles.hooks.surroundings.program import user_frame

    assert user_frame(None) is None
    with pytest.raises(json.JSONDecodeError) as caught:
        json.loads("{")
    inner = caught.value.__traceback__
    assert inner is not None
    assert user_frame(inner.tb_next) is None
    place = user_frame(caught.value)
    assert place is not None
    assert place.file == __file__
