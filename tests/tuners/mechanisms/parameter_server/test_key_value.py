"""The key-value interface between real processes."""

import os
import signal
import time
import traceback
from collections.abc import Callable, Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
import torch.distributed as dist
from ranks import answers_of
from torch import nn
from torch._C._distributed_c10d import FileStore

from advisor.tuners.mechanisms.parameter_server.key_value import KeyValueStore
from advisor.tuners.mechanisms.parameter_server.key_value_server import KeyValueServer
from advisor.tuners.mechanisms.parameter_server.keys import key_of
from advisor.tuners.mechanisms.parameter_server.links import ServerLost, link_up

Use = Callable[[KeyValueStore, dict[str, torch.Tensor], list[int]], Any]
LIMIT_S = 60.0
SIZES = {"large": 300, "middle": 200, "small": 100}


def sgd(parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=1.0)


def talk(
    folder: Path, use: Use, *, workers: int = 1, servers: int = 2, staleness: int | None = 0,
    build: Callable[..., torch.optim.Optimizer] = sgd,
) -> list[Any]:  # fmt: skip
    """What ``use`` returns in each worker, given a store of three keys, its tensors and the servers' pids."""
    each = [(str(folder), use, build, rank, workers, servers, staleness) for rank in range(workers + servers)]
    told = dict(answers_of(_process, each, count=workers, limit_s=LIMIT_S))
    return [told[rank] for rank in range(workers)]


def _process(
    answers: Any, folder: str, use: Use, build: Any, rank: int, workers: int, servers: int,
    staleness: int | None, before: Callable[[], None] | None = None,
) -> None:  # fmt: skip
    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    size = workers + servers
    meet = f"file://{folder}/meet"
    limit = timedelta(seconds=LIMIT_S)
    dist.init_process_group("gloo", init_method=meet, rank=rank, world_size=size, timeout=limit)
    pids: list[Any] = [None] * size
    dist.all_gather_object(pids, os.getpid())
    links = link_up(workers, servers)
    linked = FileStore(f"{folder}/linked", size)  # a barrier breaks where one leaves that is through
    linked.set(str(rank), "")
    linked.wait([str(other) for other in range(size)], limit)
    if rank >= workers:
        KeyValueServer(rank - workers, links, build, staleness=staleness, message_bytes=1000).serve()
        return
    if before is not None:
        before()
    tensors = {name: torch.zeros(count) for name, count in SIZES.items()}
    keys = [key_of(name, tensor) for name, tensor in tensors.items()]
    store = KeyValueStore(
        list(links.values()), keys, tensors, settings=[{"lr": 1.0}], message_bytes=1000, ping_s=0.2, pings=4
    )
    try:
        answers.put((rank, use(store, tensors, pids[workers:])))
    except BaseException:  # the test shows it
        answers.put((rank, traceback.format_exc()))


def first_values(tensors: dict[str, torch.Tensor]) -> dict[str, float]:
    return {name: float(tensor[0]) for name, tensor in tensors.items()}


def push_all(store: KeyValueStore, tensors: dict[str, torch.Tensor], gradient: float = 1.0) -> None:
    for name, tensor in tensors.items():
        store.push(name, torch.full_like(tensor, gradient), store.version(name))


def one_round(store: KeyValueStore, tensors: dict[str, torch.Tensor], pids: list[int]) -> Any:
    push_all(store, tensors)
    store.pull()
    servers = [store.server_of(name) for name in tensors]
    return first_values(tensors), {name: store.version(name) for name in tensors}, servers


def test_what_is_pushed_is_in_what_is_pulled(tmp_path: Path) -> None:
    (told,) = talk(tmp_path, one_round)
    assert told == (dict.fromkeys(SIZES, -1.0), dict.fromkeys(SIZES, 1), [0, 1, 1])


def some_keys(store: KeyValueStore, tensors: dict[str, torch.Tensor], pids: list[int]) -> Any:
    push_all(store, tensors)
    store.pull(["small"])
    some = first_values(tensors)
    store.pull(at_least=1)
    return some, first_values(tensors)


def test_some_keys_can_be_pulled_alone(tmp_path: Path) -> None:
    ((some, everything),) = talk(tmp_path, some_keys)
    assert some == {"large": 0.0, "middle": 0.0, "small": -1.0}
    assert everything == dict.fromkeys(SIZES, -1.0)


def clipped(store: KeyValueStore, tensors: dict[str, torch.Tensor], pids: list[int]) -> Any:
    push_all(store, tensors, 1.0 + 2 * dist.get_rank())
    norm = store.norm()
    store.scale(0.5)
    store.pull()
    return norm, first_values(tensors)


def test_the_norm_is_that_of_the_mean_of_all_workers_over_all_servers(tmp_path: Path) -> None:
    for told in talk(tmp_path, clipped, workers=2):
        assert told == (pytest.approx(2 * 600**0.5), dict.fromkeys(SIZES, -1.0))


def counted(store: KeyValueStore, tensors: dict[str, torch.Tensor], pids: list[int]) -> Any:
    before = store.sent_bytes, store.received_bytes
    push_all(store, tensors)
    store.pull()
    after = store.sent_bytes, store.received_bytes
    return [[key.name for key in run] for run in store.messages()], after[0] - before[0], after[1] - before[1]


def test_bytes_are_counted_and_small_keys_share_a_message(tmp_path: Path) -> None:
    ((messages, sent, received),) = talk(tmp_path, counted)
    assert messages == [["large"], ["middle"], ["small"]]  # 1200, 800 and 400 bytes; the limit is 1000
    assert sent == 2400 + 1024 * (3 + 2)
    assert received == 2400 + 1024 * 3


def paused(store: KeyValueStore, tensors: dict[str, torch.Tensor], pids: list[int]) -> Any:
    push_all(store, tensors)
    store.pull()
    before = [psutil.Process(pid).cpu_times() for pid in pids]
    time.sleep(1.0)
    after = [psutil.Process(pid).cpu_times() for pid in pids]
    return [sum(b[:2]) - sum(a[:2]) for a, b in zip(before, after, strict=True)]


def test_servers_sleep_while_workers_pause(tmp_path: Path) -> None:
    (used,) = talk(tmp_path, paused)
    assert max(used) < 0.1


def pull_without_others(store: KeyValueStore, tensors: dict[str, torch.Tensor], pids: list[int]) -> Any:
    if dist.get_rank() == 1:
        os._exit(0)
    push_all(store, tensors)
    store.pull()


def leave_before_the_others_begin() -> None:
    if dist.get_rank() == 1:
        os._exit(0)
    time.sleep(1.0)  # the server knows it by then


@pytest.mark.parametrize("before", [None, leave_before_the_others_begin])
def test_a_worker_that_is_gone_is_named_to_those_that_wait_for_it(
    before: Callable[[], None] | None, tmp_path: Path
) -> None:
    each = [(str(tmp_path), pull_without_others, sgd, rank, 2, 1, 0, before) for rank in range(3)]
    ((rank, told),) = answers_of(_process, each, count=1, limit_s=LIMIT_S)
    assert rank == 0
    assert "worker 1 was lost, and update 1 needs the gradients of all workers" in told


def raising(parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    class Raising(torch.optim.SGD):
        def step(self, closure: Any = None) -> Any:
            raise ArithmeticError("no such update")

    return Raising(parameters, lr=1.0)


def test_what_the_programs_optimizer_raises_is_told_to_the_workers(tmp_path: Path) -> None:
    (told,) = talk(tmp_path, one_round, servers=1, build=raising)
    assert "RuntimeError: parameter server 0:" in told
    assert "ArithmeticError: no such update" in told


def stop_one(store: KeyValueStore, tensors: dict[str, torch.Tensor], pids: list[int]) -> Any:
    push_all(store, tensors)
    store.pull()
    os.kill(pids[1], signal.SIGSTOP)
    push_all(store, tensors)
    store.pull()
    push_all(store, tensors)
    store.pull()
    return first_values(tensors), store.servers.lost, store.report()


def test_a_server_that_does_not_answer_pings_is_replaced(tmp_path: Path) -> None:
    ((values, lost, reports),) = talk(tmp_path, stop_one)
    assert values == dict.fromkeys(SIZES, -3.0)
    assert lost == {1: "no answer to 4 pings in 0.8 s"}
    assert [report["server"] for report in reports] == [0]
    assert reports[0]["restored"] == [
        {"server": 1, "keys": 2, "version": 1, "updates_lost": 0, "state_updates_lost": None}
    ]


def stop_for_a_while(store: KeyValueStore, tensors: dict[str, torch.Tensor], pids: list[int]) -> Any:
    os.kill(pids[0], signal.SIGSTOP)
    push_all(store, tensors)
    if os.fork() == 0:
        time.sleep(0.5)
        os.kill(pids[0], signal.SIGCONT)
        os._exit(0)
    store.pull()
    return first_values(tensors), store.servers.lost


def test_a_server_that_is_only_slow_is_waited_for(tmp_path: Path) -> None:
    assert talk(tmp_path, stop_for_a_while) == [(dict.fromkeys(SIZES, -1.0), {})]


def kill_all(store: KeyValueStore, tensors: dict[str, torch.Tensor], pids: list[int]) -> Any:
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    push_all(store, tensors)
    with pytest.raises(ServerLost) as lost:
        store.pull()
    return str(lost.value)


@pytest.mark.parametrize("servers", [1, 2])
def test_without_any_server_the_error_names_it(servers: int, tmp_path: Path) -> None:
    (told,) = talk(tmp_path, kill_all, servers=servers)
    assert told.startswith("parameter server ") and "was lost (" in told
    assert told.endswith("and there is no other server to take over its 3 keys") or servers == 2


def a_server_dies_between_two_answers(
    store: KeyValueStore, tensors: dict[str, torch.Tensor], pids: list[int]
) -> Any:
    push_all(store, tensors)
    if dist.get_rank() == 1:
        store._end_push()  # the update is made, and worker 0 gets it
        time.sleep(0.5)
        os.kill(pids[1], signal.SIGKILL)
    store.pull()
    push_all(store, tensors)
    store.pull()
    return first_values(tensors), {name: store.version(name) for name in tensors}


def test_workers_that_are_an_update_apart_agree_again(tmp_path: Path) -> None:
    for told in talk(tmp_path, a_server_dies_between_two_answers, workers=2):
        assert told == (dict.fromkeys(SIZES, -2.0), dict.fromkeys(SIZES, 2))
