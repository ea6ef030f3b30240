"""Actions run right after an import that the program makes, and leave nothing behind."""

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from advisor.profiles.hooks.imports import after_import


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder on the path; modules, finders and the path are as before afterwards."""
    modules, finders = set(sys.modules), list(sys.meta_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in set(sys.modules) - modules:
        del sys.modules[name]
    sys.meta_path[:] = finders


def a_module(folder: Path, name: str, text: str = "value = 1\n") -> None:
    path = folder / f"{name.replace('.', '/')}.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    importlib.invalidate_caches()


def test_the_action_sees_the_executed_module_when_the_program_imports_it(folder: Path) -> None:
    a_module(folder, "seen_later")
    seen: list[tuple[ModuleType, int]] = []
    after_import("seen_later", lambda module: seen.append((module, module.value)))
    assert seen == []
    assert "seen_later" not in sys.modules

    module = importlib.import_module("seen_later")

    assert seen == [(module, 1)]


def test_a_module_that_is_already_imported_is_acted_on_at_once(folder: Path) -> None:
    seen: list[ModuleType] = []
    finders = list(sys.meta_path)
    after_import("pathlib", seen.append)
    assert seen == [sys.modules["pathlib"]]
    assert sys.meta_path == finders


def test_afterwards_nothing_of_ours_is_left(folder: Path) -> None:
    a_module(folder, "plain")
    a_module(folder, "watched")
    finders = list(sys.meta_path)
    after_import("watched", lambda module: None)

    plain, watched = importlib.import_module("plain"), importlib.import_module("watched")

    assert sys.meta_path == finders
    assert watched.__spec__ is not None
    assert type(watched.__loader__) is type(watched.__spec__.loader) is type(plain.__loader__)
    assert inspect.getsource(watched) == "value = 1\n"


def test_a_module_finds_its_real_loader_while_it_runs(folder: Path) -> None:
    a_module(folder, "curious", "kinds = type(__loader__).__name__, type(__spec__.loader).__name__")
    after_import("curious", lambda module: None)
    assert importlib.import_module("curious").kinds == ("SourceFileLoader", "SourceFileLoader")


def test_several_actions_run_in_the_order_in_which_they_were_given(folder: Path) -> None:
    a_module(folder, "popular")
    seen: list[str] = []
    after_import("popular", lambda module: seen.append("first"))
    after_import("popular", lambda module: seen.append("second"))
    importlib.import_module("popular")
    assert seen == ["first", "second"]


def test_a_submodule_is_watched_without_importing_its_package(folder: Path) -> None:
    a_module(folder, "house.__init__", "import house.room")
    a_module(folder, "house.room", "value = 3")
    seen: list[int] = []
    after_import("house.room", lambda module: seen.append(module.value))
    assert "house" not in sys.modules
    importlib.import_module("house")
    assert seen == [3]


def test_an_action_may_change_the_module_before_the_program_sees_it(folder: Path) -> None:
    a_module(folder, "changed")
    after_import("changed", lambda module: setattr(module, "value", 2))
    assert importlib.import_module("changed").value == 2


def test_an_error_of_the_modules_own_import_passes_and_the_action_waits(folder: Path) -> None:
    a_module(folder, "broken", "raise RuntimeError('no driver')")
    seen: list[int] = []
    after_import("broken", lambda module: seen.append(module.value))
    with pytest.raises(RuntimeError, match=r"^no driver$"):
        importlib.import_module("broken")
    assert seen == []
    assert "broken" not in sys.modules

    a_module(folder, "broken", "value = 12345")
    importlib.import_module("broken")
    assert seen == [12345]


def test_a_module_that_does_not_exist_is_an_ordinary_import_error(folder: Path) -> None:
    after_import("nowhere_at_all", lambda module: None)
    with pytest.raises(ModuleNotFoundError, match="No module named 'nowhere_at_all'"):
        importlib.import_module("nowhere_at_all")


def test_asking_for_a_spec_does_not_act(folder: Path) -> None:
    a_module(folder, "asked")
    seen: list[ModuleType] = []
    after_import("asked", seen.append)
    spec = importlib.util.find_spec("asked")
    assert spec is not None
    assert spec.origin == str(folder / "asked.py")
    assert spec.loader is not None
    assert spec.loader.get_source("asked") == "value = 1\n"  # type: ignore[attr-defined]  # as inspect does
    assert seen == []
    importlib.import_module("asked")
    assert len(seen) == 1


def test_another_finder_that_searches_the_whole_path_again_meets_us_without_harm(folder: Path) -> None:
    a_module(folder, "shared")
    seen: list[str] = []

    class Nosy(importlib.abc.MetaPathFinder):
        busy = False

        def find_spec(
            self, name: str, path: object, target: object = None
        ) -> importlib.machinery.ModuleSpec | None:
            if name != "shared" or self.busy:
                return None
            self.busy = True
            seen.append("nosy")
            return importlib.util.find_spec(name)

    after_import("shared", lambda module: seen.append("ours"))
    sys.meta_path.insert(1, Nosy())
    importlib.import_module("shared")
    assert seen == ["nosy", "ours"]


def test_a_module_that_replaces_itself_is_handed_over_as_the_program_gets_it(folder: Path) -> None:
    text = "import sys, types\nnew = types.ModuleType('lazy')\nnew.lazy = True\nsys.modules[__name__] = new\n"
    a_module(folder, "replaced", text)
    seen: list[ModuleType] = []
    after_import("replaced", seen.append)
    module = importlib.import_module("replaced")
    assert seen == [module]
    assert module.lazy


def test_a_module_written_in_c_is_watched(folder: Path) -> None:
    kept = sys.modules.pop("_heapq", None)
    seen: list[str] = []
    after_import("_heapq", lambda module: seen.append(module.__name__))
    importlib.import_module("_heapq")
    assert seen == ["_heapq"]
    if kept is not None:
        sys.modules["_heapq"] = kept
