"""How this package is installed: from a clone, as no registry has it."""

CLONE = "/path/to/advisor"  # stands for the folder that the user cloned, as in README


def install_extra(name: str) -> str:
    """The command that installs what an extra of the package needs."""
    return f"pip install '{CLONE}[{name}]'"
