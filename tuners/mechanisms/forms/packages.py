"""Optional packages: imported when a form needs them, and named with what installs them where missing."""

import importlib
import importlib.util
from types import ModuleType

from advisor.tuners.knob import Refused

INSTALLED_BY = {
    "onnx": '"torch-advisor[inference]"',
    "onnxruntime": '"torch-advisor[inference]"',
    "onnxscript": '"torch-advisor[inference]"',
    "openvino": "openvino",
    "torchao": '"torch-advisor[torchao]"',
}


def installed(name: str) -> bool:
    """Whether a package could be imported; it is not."""
    return importlib.util.find_spec(name) is not None


def missing(*names: str) -> str | None:
    """What lacks, with the line that installs it; ``None`` if nothing does."""
    for name in names:
        if not installed(name):
            return f"{name} is not installed: pip install {INSTALLED_BY[name]}"
    return None


def needed(name: str) -> ModuleType:
    """The module ``name``, which may be part of a package.

    Raises:
        Refused: Its package is missing, or does not work beside this torch.
    """
    package = name.partition(".")[0]
    lacking = missing(package)
    if lacking:
        raise Refused(lacking)
    try:
        return importlib.import_module(name)
    except (ImportError, AttributeError, RuntimeError) as error:
        raise Refused(f"{package} cannot be imported beside this torch: {error}") from None
