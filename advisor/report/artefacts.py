"""The files of a recommended form of a model, beside the report: what a user loads instead of the model."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from advisor.base.atomic_file import write_atomically
from advisor.base.errors import EnvironmentProblem, clean
from advisor.report.folder import reason
from advisor.result.artefact import Artefact
from advisor.result.document import ResultData
from advisor.tuners.knob import Value
from advisor.tuners.mechanisms.forms.artefact import NAME, sha256

FOLDER = "artefacts"
LOADER = "load.py"


def keep_artefacts(trials: Path, result: ResultData, out: Path) -> list[Artefact]:
    """Copy what the last process of the recommended configuration left to ``out/artefacts``.

    A file is copied if it still is what it was when it was described. Beside it come ``artefact.json`` (hash,
    versions, flags of the CPU) and ``load.py``, the lines that load it. Where no process of now left any,
    those that ``result`` has of earlier parts of the study stay; others go.

    Args:
        trials: Holds a folder for each process.
        result: Recommends a configuration.
        out: The folder of the report, which exists.

    Returns:
        What lies there now; nothing for a configuration that leaves no file.

    Raises:
        EnvironmentProblem: It cannot be written.
    """
    folder = out / FOLDER
    try:
        left = sorted(trials.glob(f"*/{FOLDER}"))
        ours = [each for each in left if _is_of(each.parent, result.recommendation.config)]
        kept = [each for each in result.artefacts if not ours and _is_there(folder / each.file, each)]
        if not kept:
            shutil.rmtree(folder, ignore_errors=True)
        for described in sorted(ours[-1].rglob(NAME)) if ours else ():
            kept += _copied(described, folder, described.parent.relative_to(ours[-1]))
        for each in left:
            shutil.rmtree(each, ignore_errors=True)
    except OSError as error:
        raise EnvironmentProblem(f"cannot write to {clean(str(folder))}", cause=reason(error)) from None
    return kept


def _copied(described: Path, folder: Path, model: Path) -> list[Artefact]:
    """One artefact, below ``folder`` where its model has a place; none if the file is another one."""
    told: dict[str, Any] = json.loads(described.read_text(encoding="utf-8"))
    source = described.parent / Path(told["file"]).name
    if sha256(source) != told["sha256"]:
        return []
    place = folder / model
    place.mkdir(parents=True, exist_ok=True)
    beside = [*described.parent.glob(f"{source.name}*"), *described.parent.glob(f"{source.stem}.bin")]
    for each in sorted(beside):  # ONNX keeps large weights in another file, OpenVINO all
        shutil.copy2(each, place / each.name)
    for name, content in ((NAME, json.dumps(told, indent=2)), (LOADER, "\n".join(told["load"]))):
        write_atomically(place / name, content + "\n")
    return [Artefact(**{**told, "file": (model / source.name).as_posix()})]


def _is_there(file: Path, known: Artefact) -> bool:
    return file.is_file() and sha256(file) == known.sha256


def _is_of(trial: Path, config: Mapping[str, Value]) -> bool:
    """Whether a process ran a configuration."""
    try:
        spec: dict[str, Any] = json.loads((trial / "trial.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    ran = {**spec.get("present", {}), **spec.get("config", {})}
    return all(ran.get(name) == value for name, value in config.items())
