"""Where the user's program is."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from advisor.profiles.facts.observed import Location
from advisor.profiles.hooks.user_lines import user_location


def here() -> Location | None:
    return user_location()


def of_no_line(function: Callable[[], Location | None]) -> Callable[[], Location | None]:
    """The function as it is while Python runs instructions that belong to no line."""
    function.__code__ = function.__code__.replace(co_linetable=b"")
    return function


@pytest.mark.parametrize("at_a_line", [True, False])
def test_a_place_has_a_line_also_where_python_is_at_none(at_a_line: bool) -> None:
    def asking() -> Location | None:
        return user_location()

    first = asking.__code__.co_firstlineno
    place = asking() if at_a_line else of_no_line(asking)()
    assert place is not None and place.function == "asking"
    assert place.line == first + at_a_line


@pytest.mark.parametrize(("below", "whose"), [("", None), ("ipykernel_7", "cell"), ("project", "module")])
def test_what_a_library_writes_into_the_temporary_folder_is_no_line_of_the_program(
    below: str, whose: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.syspath_prepend(str(tmp_path / "project"))
    scope: dict[str, Any] = {"user_location": user_location}
    source = "def found():\n    return user_location()\n"
    exec(compile(source, tmp_path / below / "written.py", "exec"), scope)
    place = scope["found"]()
    assert place is not None
    assert (Path(place.file).name == "written.py") is (whose is not None)
