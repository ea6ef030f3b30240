"""Data that lies beside the repository where it is developed, and in no clone of it."""

from pathlib import Path

import pytest


def shared(*parts: str) -> Path:
    """A file or folder there; the test is skipped where there is none."""
    for folder in Path(__file__).resolve().parents:
        path = folder.joinpath("shared", *parts)
        if path.exists():
            return path
    pytest.skip(f"shared/{'/'.join(parts)} does not lie beside this clone")
