"""What can be said about a study that is to be resumed before anything runs."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from advisor.base.settings import Settings, TargetRequest, Value
from advisor.cli.machine_checks import torch_build
from advisor.cli.output import warn
from advisor.storage.contract import default_study_name, digests_of_target, refuse_if_changed, study_contract
from advisor.storage.storage_url import StorageUrl

if TYPE_CHECKING:
    from advisor.profiles.facts.machine import Machine

# The space, and what torch says of the machine, are known only when the program has run.
KNOWN = ("objective", "target", "args", "fix", "machine", "advisor", "strategy", "ranks", "seed")


def refuse_other_study(
    url: StorageUrl, study: str | None, request: TargetRequest | None, *, objective: str | None,
    fixed: Mapping[str, Value], ranks: Sequence[int] | None, seed: int | None, machine: "Machine",
) -> None:  # fmt: skip
    """Refuse to resume a study that is not stored, or that is about something else.

    Raises:
        UsageError: There is none of that name.
        StudyChanged: With all that is known to differ.
        EnvironmentProblem: The storage cannot be read.
    """
    from importlib.metadata import version

    from advisor.storage.store import Store

    if study is None and request is None:
        return
    name = study or default_study_name(request.name if request else "")
    with Store.open(url, create=False, warn=warn) as store:
        store.require_study(name)
        stored = store.load_study(name)
    if stored is None or request is None:
        return
    torch = torch_build()[0]
    is_file = request.kind in ("script", "workload")
    now = study_contract(
        objective=objective or Settings.objective,
        direction="maximize",
        space={},
        target=request.name,
        files=digests_of_target(Path(request.name)) if is_file else {},
        machine=replace(machine, torch=torch),
        advisor_version=version("torch-advisor"),
        args=request.args,
        fix=fixed,
        strategy=str(fixed.get("strategy", "single")),
        ranks=ranks or (1,),
        seed=seed or 0,
    )
    keys = [*KNOWN, *(["files"] if is_file else []), *(["torch"] if torch else [])]
    compared = [key for key in now if key in keys and key in stored.contract]
    refuse_if_changed(
        name, {key: stored.contract[key] for key in compared}, {key: now[key] for key in compared}
    )
