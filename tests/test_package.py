"""What is installed is what lies here, each module has one name, and nothing loads early."""

import configparser
import importlib
import pkgutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import advisor
from advisor.base.registry import members
from advisor.tuners.knob import Knob
from advisor.tuners.knobs import KNOBS

ROOT = Path(__file__).parents[1]
HEAVY = ("torch", "optuna", "scipy")
MAPPED = ("tuners", "profiles", "templates")


def packages() -> Iterator[str]:
    """Every package below advisor that has modules."""
    yield "advisor"
    for found in pkgutil.walk_packages(advisor.__path__, "advisor."):
        if found.ispkg:
            yield found.name


def loaded_by(code: str) -> set[str]:
    """Names of all modules after running ``code`` in a fresh interpreter."""
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.split())


def test_the_list_of_packages_is_the_folders_that_there_are() -> None:
    layout = configparser.ConfigParser()
    layout.read(ROOT / "setup.cfg")
    assert sorted(layout["options"]["packages"].split()) == sorted(packages())


def test_every_module_imports() -> None:
    names = [
        found.name
        for found in pkgutil.walk_packages(advisor.__path__, "advisor.")
        if "__main__" not in found.name
    ]
    assert len(names) > 50
    for name in names:
        importlib.import_module(name)


@pytest.mark.parametrize("name", MAPPED)
def test_a_mapped_folder_is_a_relative_link_in_a_checkout(name: str) -> None:
    link = ROOT / "advisor" / name
    assert link.is_symlink()
    assert link.readlink() == Path("..") / name


def test_no_module_has_a_second_name() -> None:
    code = "import advisor.cli.commands.tune, advisor.runs.tune, advisor.notebook.tune, advisor.report.files"
    assert not {name.partition(".")[0] for name in loaded_by(code)} & set(MAPPED)


def test_importing_the_package_loads_nothing_else() -> None:
    assert {name for name in loaded_by("import advisor") if name.startswith("advisor.")} == set()


@pytest.mark.parametrize(
    "module",
    [
        "advisor.cli",
        "advisor.cli.commands.tune",
        "advisor.tuners.knobs",
        "advisor.report.files",
        "advisor.storage.store",
        "advisor.workloads.workload",
        "advisor.notebook.tune",
        "advisor.runs.tune",
        "advisor.rules",
        "advisor.report.sarif",
        "advisor.runs.profile",
        "advisor.runs.doctor",
        "advisor.cli.commands.profile",
        "advisor.cli.commands.rules",
    ],
)
def test_a_module_of_the_parent_leaves_the_heavy_ones_out(module: str) -> None:
    assert not loaded_by(f"import {module}") & set(HEAVY)


def test_the_public_names_are_there_and_tune_is_a_function_also_after_imports() -> None:
    importlib.import_module("advisor.runs.tune")
    importlib.import_module("advisor.cli.commands.tune")
    assert callable(advisor.tune)
    assert advisor.Workload.__name__ == "Workload"
    assert advisor.__version__.count(".") == 2
    assert set(advisor.__all__) <= set(dir(advisor))
    with pytest.raises(AttributeError, match="module 'advisor' has no attribute 'tnue'"):
        getattr(advisor, "tnue")  # noqa: B009  # the name is not there


def test_a_folder_of_members_gives_one_each_in_alphabetical_order() -> None:
    folder = ROOT / "tuners" / "knobs"
    assert list(KNOBS) == sorted(path.stem for path in folder.glob("*.py") if path.stem != "__init__")
    assert all(
        type(knob).__name__ == "".join(part.title() for part in name.split("_"))
        for name, knob in KNOBS.items()
    )


def test_a_module_without_a_member_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "empty_folder"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "nothing.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(TypeError, match=r"empty_folder.nothing must define exactly one Knob, not 0"):
        list(members("empty_folder", [str(folder)], Knob))
