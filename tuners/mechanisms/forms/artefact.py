"""What is left of a form for the user: its file, how to load it, and what it was made with and for."""

import hashlib
import importlib.metadata
import json
from pathlib import Path
from typing import Any

from advisor.tuners.mechanisms.forms.form import Form

CPU_FLAGS = ("avx2", "avx512f", "avx512_vnni", "avx_vnni", "avx512_bf16", "amx_int8", "amx_bf16", "asimddp")
"""Those that decide which kernels run, and whether integer products saturate."""
NAME = "artefact.json"
PIECE = 2**20  # bytes that are read at a time


def describe(form: Form, folder: Path, bits: int | None = None) -> Path | None:
    """Write ``artefact.json`` beside the file of a form: name, kind, hash, loading, versions, CPU.

    Args:
        form: Whose file lies in ``folder``.
        folder: Where it is written.
        bits: Of the weights, where they are quantised.

    Returns:
        Where it was written; ``None`` for a form without a file.
    """
    if form.file is None:
        return None
    told: dict[str, Any] = {
        "file": form.file.name,
        "kind": form.kind,
        "sha256": sha256(form.file),
        "bytes": form.file.stat().st_size,
        "load": form.loading.splitlines(),
        "versions": {name: importlib.metadata.version(name) for name in ("torch", *form.packages)},
        "cpu_flags": cpu_flags(),
    }
    if bits is not None:
        told["weight_bits"] = bits
    written = folder / NAME
    written.write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")
    return written


def sha256(path: Path) -> str:
    """Of a file's bytes, in hexadecimal digits."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(PIECE):
            digest.update(piece)
    return digest.hexdigest()


def cpu_flags(cpuinfo: Path = Path("/proc/cpuinfo")) -> list[str]:
    """Those of this CPU among ``CPU_FLAGS``; empty where the system does not say."""
    try:
        text = cpuinfo.read_text(encoding="utf-8")
    except OSError:
        return []
    lines = [line for line in text.splitlines() if line.startswith(("flags", "Features"))]
    known = set(lines[0].partition(":")[2].split()) if lines else set()
    return [flag for flag in CPU_FLAGS if flag in known]
