"""A failure under a setting is explained by what was seen, and by nothing where nothing was."""

from pathlib import Path

import pytest
from builders import a_loader, a_profile
from growing_profiles import a_growing_profile, read

from advisor.profiles.facts.growing import GrowingVariable
from advisor.profiles.facts.inherited import Inherited
from advisor.profiles.facts.observed import Location
from advisor.tuners.launching.launch import Launcher
from advisor.tuners.supervision.failures import Failure, TrialFailed
from advisor.tuners.trial.explaining import explained
from advisor.tuners.trial.spec import Target

FULL = "OSError: [Errno 24] Too many open files"
LINE = Location("train.py", 61)
GROWING = a_growing_profile(
    read("open_files", lambda step: 24 + step, limit=1024),
    variables=[GrowingVariable("labels", 1.0, LINE, "shared")],
)
ARCHIVE = Inherited("handle", "dataset.archive", "zipfile.ZipFile", Location("train.py", 33))
HOLDING = a_profile(loader=a_loader(inherited=(ARCHIVE,)))


@pytest.mark.parametrize("said", [FULL, "RuntimeError: received 0 items of ancdata"])
def test_a_limit_that_was_met_is_told_with_what_rose_to_it(said: str) -> None:
    assert explained(Failure("user_error", said), GROWING).message == (
        f"{said}; open files rose by 1 in each step, to 509 of 1,024, as `labels` (train.py:61) keeps what "
        "each step adds: keep `.clone()` of each"
    )


@pytest.mark.parametrize(
    "said", ["BadZipFile: Bad CRC-32 for file '7.npy'", "OSError: bad object header version"]
)
def test_broken_data_is_told_with_the_handle_that_workers_shared(said: str) -> None:
    assert explained(Failure("user_error", f"{said}\nmore"), HOLDING).message == (
        f"{said}; `dataset.archive` (train.py:33) was opened before the workers were started, which share "
        "its position: open it in each worker"
    )


@pytest.mark.parametrize(
    "said", ["ValueError: no", "OSError: [Errno 24] Too many open files", "BadZipFile: no"]
)
def test_what_the_facts_do_not_explain_stays_as_it_is(said: str) -> None:
    failure = Failure("user_error", said)
    assert explained(failure, a_profile(loader=a_loader())) is failure
    assert explained(Failure("user_error", "ValueError: no"), GROWING).message == "ValueError: no"


@pytest.mark.slow
@pytest.mark.usefixtures("warm_trials")
def test_a_real_trial_that_runs_out_of_files_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    (tmp_path / "train.py").write_text("""
import resource
import torch
resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200))
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
logs = []
for step in range(1000):
    optimizer.zero_grad()
    model(torch.ones(8, 4)).sum().backward()
    optimizer.step()
    logs.append(open(__file__))
""")
    (tmp_path / "study").mkdir()
    target = Target("script", str(tmp_path / "train.py"), cwd=str(tmp_path))
    launcher = Launcher(target, tmp_path / "study", device="cpu", scratch=tmp_path / "scratch")
    session = launcher.start(1, {}, {})
    session.first_step()
    with pytest.raises(
        TrialFailed, match=r"open files rose by 1 in each step.* of 200, as `logs` .*train\.py:12"
    ):
        session.slot(1000, drop=0)
