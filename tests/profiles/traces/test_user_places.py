import sysconfig
from pathlib import Path

import pytest

import advisor
from advisor.profiles.facts.observed import Location
from advisor.profiles.traces.user_functions import user_place


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("train.py(42): main", Location("train.py", 42, "main")),
        ("/home/me/torch/train.py(3): <module>", Location("/home/me/torch/train.py", 3, "<module>")),
        ("models/net.py(7): forward", Location("models/net.py", 7, "forward")),
        ("my model (2).py(7): forward", Location("my model (2).py", 7, "forward")),
    ],
)
def test_the_users_own_functions_are_places(name: str, place: Location) -> None:
    assert user_place(name) == place


@pytest.mark.parametrize(
    "name",
    [
        "torch/nn/modules/linear.py(130): forward",
        "transformers/models/gpt2/modeling_gpt2.py(9): forward",
        "/usr/lib/python3.11/contextlib.py(81): inner",
        "contextlib.py(81): inner",
        "logging/__init__.py(1720): getEffectiveLevel",
        "/opt/conda/lib/python3.10/site-packages/timm/layers.py(3): forward",
        "msgspec/json.py(1): decode",
        f"{Path(advisor.__file__).parent}/profiles/recorder.py(4): step",
        "advisor/profiles/recorder.py(4): step",
        "<string>(1): __init__",
        "<frozen importlib._bootstrap>(1): _find",
        "<built-in function linear>",
        "nn.Module: Linear_0",
    ],
)
def test_libraries_and_our_own_functions_are_not(name: str) -> None:
    assert user_place(name) is None


def test_a_package_of_this_installation_is_told_by_its_folder() -> None:
    library = Path(sysconfig.get_path("purelib"))
    package = next(entry for entry in library.iterdir() if (entry / "__init__.py").exists())
    assert user_place(f"{package.name}/__init__.py(1): function") is None
