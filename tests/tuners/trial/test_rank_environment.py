"""Scripts with a process group of their own find each other on the loopback interface alone."""

import os
import socket
import textwrap
from pathlib import Path

import psutil
import pytest
from supervised import until
from warm import Warm

from advisor.tuners.trial.rank_environment import HOST, RANK_VARIABLES, OwnGroup, own_device, wants_own_group

PLAIN = """
import os, sys, time
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
value = torch.tensor([float(dist.get_rank() + 1)])
dist.all_reduce(value)
assert value.item() == 3 and dist.is_torchelastic_launched()
open(f"ready-{dist.get_rank()}", "w").close()
while not os.path.exists("go"):
    time.sleep(0.01)
dist.barrier()
sys.exit(7 * dist.get_rank())
"""


@pytest.mark.slow
def test_ranks_of_a_plain_script_meet_and_each_has_its_exit_code(tmp_path: Path, warm: Warm) -> None:
    (tmp_path / "train.py").write_text(PLAIN)
    group = OwnGroup(2)
    port = int(group.environment(0)["MASTER_PORT"])
    ranks = [
        warm.start(tmp_path / "train.py", cwd=tmp_path, env={**os.environ, **group.environment(rank)})
        for rank in range(2)
    ]
    try:
        until(lambda: all((tmp_path / f"ready-{rank}").exists() for rank in range(2)), 60)
        theirs = [each for rank in ranks for each in psutil.Process(rank.pid).net_connections("inet")]
        ours = [each for each in psutil.Process().net_connections("inet") if port in each.laddr[1:2]]
        assert len(theirs) >= 2 and ours
        assert {each.laddr.ip.removeprefix("::ffff:") for each in [*theirs, *ours]} == {HOST}
        (tmp_path / "go").touch()
        assert [rank.wait(30) for rank in ranks] == [0, 7]
    finally:
        group.close()
    with pytest.raises(ConnectionRefusedError), socket.create_connection((HOST, port), 1):
        pass
    assert not [each for each in psutil.Process().net_connections("inet") if port in each.laddr[1:2]]


def test_groups_do_not_share_a_port_nor_a_name() -> None:
    groups = OwnGroup(2), OwnGroup(2)
    first, second = (group.environment(0) for group in groups)
    assert first["MASTER_PORT"] != second["MASTER_PORT"]
    assert first["TORCHELASTIC_RUN_ID"] != second["TORCHELASTIC_RUN_ID"]
    for group in groups:
        group.close()
        group.close()


def test_a_rank_knows_its_place_and_its_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    group = OwnGroup(4)
    environment = group.environment(3)
    assert {name: environment[name] for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")} == {
        "RANK": "3", "LOCAL_RANK": "3", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "4"
    }  # fmt: skip
    assert (environment["MASTER_ADDR"], environment["OMP_NUM_THREADS"]) == (HOST, "1")
    assert set(RANK_VARIABLES) <= environment.keys()
    group.close()
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    for threads, expected in ((None, "3"), (2, "2")):
        group = OwnGroup(2, threads=threads)
        assert group.environment(0)["OMP_NUM_THREADS"] == expected
        group.close()


@pytest.mark.parametrize(
    "source",
    [
        "import torch.distributed as dist\ndist.init_process_group('gloo')",
        "import os\nddp = int(os.environ.get('RANK', -1)) != -1",
        "from os import environ, getenv\nrank = int(getenv('LOCAL_RANK', 0))",
        "import os\nworld = int(os.environ['WORLD_SIZE'])",
        "import os\nif 'WORLD_SIZE' in os.environ: pass",
        "from accelerate import Accelerator\naccelerator = Accelerator()",
        "from accelerate import Accelerator as A\naccelerator = A()",
        "from torch.nn.parallel import DistributedDataParallel as DDP\ndef wrap(model): return DDP(model)",
        "from transformers import Trainer, TrainingArguments\nTrainer(model=model).train()",
    ],
)
def test_a_script_that_asks_for_its_rank_wants_its_own_group(source: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(source)
    assert wants_own_group(tmp_path / "train.py")


@pytest.mark.parametrize(
    "source",
    [
        "import torch\nmodel = torch.nn.Linear(4, 2)",
        "import os\nhome = os.environ['HOME']; rank = {'RANK': 1}['RANK']",
        "from ignite.engine import Trainer\nTrainer()",
        "def broken(:",
        """
        import torch.distributed as dist, torch.multiprocessing as mp
        def work(rank): dist.init_process_group('gloo', rank=rank, world_size=2)
        mp.spawn(work, nprocs=2)
        """,
        """
        import os, torch.distributed as dist
        os.environ["RANK"], os.environ["WORLD_SIZE"] = "0", "1"
        dist.init_process_group("gloo")
        """,
    ],
    ids=["plain", "other variables", "another trainer", "broken", "starts its own", "says its rank"],
)
def test_a_script_that_does_not_or_that_starts_its_own_ranks_does_not(source: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(textwrap.dedent(source))
    assert not wants_own_group(tmp_path / "train.py")


def test_a_rank_sees_its_own_device_alone() -> None:
    assert own_device("cpu", {}) == {}
    assert own_device("cuda:1", {}) == {"CUDA_VISIBLE_DEVICES": "1"}
    assert own_device("cuda:1", {"CUDA_VISIBLE_DEVICES": "4,GPU-5f"}) == {"CUDA_VISIBLE_DEVICES": "GPU-5f"}
