"""Trials leave the user's experiment trackers alone."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from advisor.profiles.hooks.surroundings.trackers import silence, use_temporary

WRITER = """
class SummaryWriter:
    def __init__(self, log_dir=None, comment="", purge_step=None):
        self.log_dir, self.comment, self.purge_step = log_dir, comment, purge_step
"""
X_WRITER = """
class SummaryWriter:
    def __init__(self, logdir=None, comment="", log_dir=None, **kwargs):
        self.logdir = logdir or log_dir
"""
CSV_LOGGER = """
class CSVLogger:
    def __init__(self, root_dir, name="lightning_logs", version=None):
        self.root_dir, self.name = root_dir, name
"""
CSV_SUBCLASS = """
from lightning.fabric.loggers.csv_logs import CSVLogger as Base
class CSVLogger(Base):
    def __init__(self, save_dir, name="lightning_logs", version=None):
        super().__init__(root_dir=save_dir, name=name, version=version)
"""
MLFLOW_CLIENT = """
class MlflowClient:
    def __init__(self, tracking_uri=None, registry_uri=None):
        self.tracking_uri = tracking_uri
"""
MLFLOW_TRACKING = """
from .client import MlflowClient
used = []
def set_tracking_uri(uri):
    used.append(uri)
"""
STAND_INS = {
    "torch/__init__.py": "",
    "torch/utils/__init__.py": "",
    "torch/utils/tensorboard/__init__.py": "from .writer import SummaryWriter",
    "torch/utils/tensorboard/writer.py": WRITER,
    "tensorboardX/__init__.py": "from .writer import SummaryWriter",
    "tensorboardX/writer.py": X_WRITER,
    "lightning/__init__.py": "",
    "lightning/fabric/loggers/csv_logs.py": CSV_LOGGER,
    "lightning/pytorch/loggers/csv_logs.py": CSV_SUBCLASS,
    "mlflow/__init__.py": "from .tracking import MlflowClient, set_tracking_uri",
    "mlflow/tracking/__init__.py": MLFLOW_TRACKING,
    "mlflow/tracking/client.py": MLFLOW_CLIENT,
    "wandb.py": "def init(project=None, mode=None, **rest):\n    return [project, mode]",
    "comet_ml.py": "class Experiment:\n    def __init__(self, api_key=None, disabled=False):\n"
    "        self.seen = [api_key, disabled]",
}
"""The entry points of the trackers with their own signatures; the packages themselves are large."""

BOOT = """
import json, sys
from pathlib import Path
from advisor.profiles.hooks.surroundings.trackers import install
install(Path("/scratch"))
assert not [name for name in ("torch", "mlflow", "wandb", "lightning") if name in sys.modules]
{program}
print(json.dumps(seen))
"""


def asked(folder: Path, program: str) -> object:
    """What the stand-ins were given after the program called them; it leaves that in ``seen``."""
    for name, text in STAND_INS.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    done = subprocess.run(
        [sys.executable, "-P", "-c", BOOT.format(program=program)],
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    result: object = json.loads(done.stdout)
    return result


TENSORBOARD = "from pathlib import Path; from torch.utils.tensorboard import SummaryWriter as W; "
X = "from tensorboardX import SummaryWriter as W; "
LIGHTNING = "from lightning.pytorch.loggers.csv_logs import CSVLogger as L; "


@pytest.mark.parametrize(
    ("program", "seen"),
    [
        (TENSORBOARD + "seen = W('runs/a').log_dir", "/scratch/logs/runs/a"),
        (TENSORBOARD + "seen = W(log_dir='/data/runs').log_dir", "/scratch/logs/data/runs"),
        (TENSORBOARD + "seen = W('../../out').log_dir", "/scratch/logs/out"),
        (TENSORBOARD + "seen = W('s3://bucket/a').log_dir", "/scratch/logs/s3/bucket/a"),
        (TENSORBOARD + "seen = W('/scratch/logs/a').log_dir", "/scratch/logs/a"),
        (TENSORBOARD + "seen = repr(W(Path('a')).log_dir)", "PosixPath('/scratch/logs/a')"),
        (TENSORBOARD + "w = W('a', 'b', 3); seen = [w.comment, w.purge_step]", ["b", 3]),
        (X + "seen = W('a').logdir", "/scratch/logs/a"),
        (X + "seen = W(log_dir='a').logdir", "/scratch/logs/a"),
        (LIGHTNING + "l = L('out', 'mine'); seen = [l.root_dir, l.name]", ["/scratch/logs/out", "mine"]),
        (
            "import mlflow; mlflow.set_tracking_uri('http://server'); seen = mlflow.tracking.used",
            ["file:///scratch/mlruns"],
        ),
        (
            "import mlflow; seen = [mlflow.MlflowClient(u).tracking_uri for u in (None, 'http://server')]",
            [None, "file:///scratch/mlruns"],
        ),
        ("import wandb; seen = wandb.init('p', mode='online')", ["p", "disabled"]),
        ("import wandb; seen = wandb.init('p', mode='offline')", ["p", "offline"]),
        ("import wandb; seen = wandb.init('p')", ["p", None]),
        ("import comet_ml; seen = comet_ml.Experiment('key').seen", ["key", True]),
    ],
)
def test_inside_the_program_trackers_are_sent_to_scratch_or_switched_off(
    tmp_path: Path, program: str, seen: object
) -> None:
    assert asked(tmp_path, program) == seen


@pytest.mark.parametrize("writer", [TENSORBOARD, X])
def test_a_writer_without_a_folder_gets_tensorboards_default_below_scratch(
    tmp_path: Path, writer: str
) -> None:
    folder = asked(tmp_path, writer + "w = W(comment='_lr1'); seen = vars(w).get('log_dir') or w.logdir")
    assert isinstance(folder, str)
    assert folder.startswith("/scratch/logs/runs/")
    assert folder.endswith(f"{os.uname().nodename}_lr1")


def test_wrong_arguments_are_told_by_the_tracker_itself(tmp_path: Path) -> None:
    program = TENSORBOARD + "\ntry:\n    W(logs='a')\nexcept TypeError as error:\n    seen = str(error)"
    words = "SummaryWriter.__init__() got an unexpected keyword argument 'logs'"
    assert asked(tmp_path, program) == words


def test_the_signature_that_programs_inspect_stays(tmp_path: Path) -> None:
    program = TENSORBOARD + "import inspect; seen = list(inspect.signature(W).parameters)"
    assert asked(tmp_path, program) == ["log_dir", "comment", "purge_step"]


def test_the_environment_keeps_trackers_on_this_machine(tmp_path: Path) -> None:
    environment = {"HOME": "/home/u", "WANDB_MODE": "online", "MLFLOW_TRACKING_URI": "http://server"}
    scratch = tmp_path / "whose path is too long for the sockets of worker processes"
    names = silence(environment, scratch)
    assert environment == {
        "HOME": "/home/u",
        "WANDB_MODE": "disabled",
        "WANDB_DIR": f"{scratch}/wandb",
        "COMET_START_ONLINE": "false",
        "COMET_OFFLINE_DIRECTORY": f"{scratch}/comet",
        "NEPTUNE_MODE": "offline",
        "NEPTUNE_DATA_DIRECTORY": f"{scratch}/neptune",
        "NEPTUNE_LOG_DIRECTORY": f"{scratch}/neptune",
        "CLEARML_OFFLINE_MODE": "1",
        "CLEARML_CACHE_DIR": f"{scratch}/clearml",
        "SWANLAB_MODE": "disabled",
        "MPLBACKEND": "Agg",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "MLFLOW_TRACKING_URI": (scratch / "mlruns").as_uri(),
        "MLFLOW_ALLOW_FILE_STORE": "true",
    }
    assert names == sorted(environment.keys() - {"HOME"})
    assert {path.name for path in scratch.iterdir()} == {"wandb", "comet", "neptune", "clearml"}


@pytest.mark.parametrize(
    "setting",
    [
        {"WANDB_MODE": "offline"},
        {"WANDB_MODE": "dryrun"},
        {"NEPTUNE_MODE": "debug"},
        {"COMET_START_ONLINE": "False"},
        {"CLEARML_OFFLINE_MODE": "true"},
        {"MPLBACKEND": "pdf"},
        {"WANDB_DIR": "/mine"},
    ],
    ids=str,
)
def test_what_the_user_set_to_stay_offline_is_left_alone(tmp_path: Path, setting: dict[str, str]) -> None:
    environment = dict(setting)
    names = silence(environment, tmp_path)
    assert environment.items() >= setting.items()
    assert not setting.keys() & set(names)


def test_a_run_on_the_users_server_is_not_resumed(tmp_path: Path) -> None:
    environment = {"MLFLOW_RUN_ID": "abc", "MLFLOW_EXPERIMENT_ID": "1"}
    names = silence(environment, tmp_path)
    assert not environment.keys() & {"MLFLOW_RUN_ID", "MLFLOW_EXPERIMENT_ID"}
    assert {"MLFLOW_RUN_ID", "MLFLOW_EXPERIMENT_ID"} <= set(names)


def test_a_folder_for_temporary_files_is_private_and_its_path_short() -> None:
    scratch = Path(f"/tmp/advisor-test-{os.getpid()}")
    environment: dict[str, str] = {}
    use_temporary(environment, scratch / "whose path is too long for the sockets of worker processes")
    assert environment == {} and not scratch.exists()
    use_temporary(environment, scratch / "tmp")
    try:
        assert environment["TMPDIR"] == f"{scratch}/tmp"
        assert (scratch / "tmp").stat().st_mode & 0o777 == 0o700
    finally:
        shutil.rmtree(scratch)


def test_real_tensorboard_files_end_in_scratch(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="tensorboard is not installed")
    program = f"""
import json, sys
from pathlib import Path
from advisor.profiles.hooks.surroundings.trackers import install
install(Path({str(tmp_path / "scratch")!r}))
from torch.utils.tensorboard import SummaryWriter
with SummaryWriter("runs/a") as writer:
    writer.add_scalar("loss", 1.0, 0)
"""
    subprocess.run([sys.executable, "-P", "-c", program], cwd=tmp_path, timeout=120, check=True)
    assert [path.name for path in tmp_path.iterdir()] == ["scratch"]
    assert len(list((tmp_path / "scratch/logs/runs/a").iterdir())) == 1
