"""The client of a Ray cluster, in a process of its own since Ray ends it a minute after the head is lost.

``python -P -m advisor.tuners.benches.ray_client`` reads and writes lines of JSON. It is told
``{"open": NODE_ID, "as": N, ...}``, ``{"to": N, "line": TEXT}`` and ``{"close": N}``. It tells
``{"nodes": [...]}`` or ``{"failed": TEXT, ...}`` once, then ``{"from": N, "line": TEXT}`` and
``{"lost": N, "why": TEXT}``.
"""

import contextlib
import json
import os
import select
import subprocess
import sys
import threading
from typing import Any

SIGN_S = 1.0  # that an actor waits for a line before it says that there is none
END_S = 20.0  # that a relay may take to end what is below it: it gives 3 s of grace
HOLD_S = 5.0  # for an actor to be placed on a node that is free
CHUNK = 1 << 16
SENDING = threading.Lock()
OUT = os.fdopen(
    os.dup(1), "w"
)  # lines go here alone: Ray itself prints to standard output when a node is lost


class Step:
    """An actor that holds a node: a relay under it, if one is asked for.

    It is sent to the node as it stands here, so its methods use nothing of this file but modules of Python.

    Args:
        module: That is run there, with the Python of the node.
        path: Where that Python finds it.
        hold: No more than hold what Ray gave it.
    """

    def __init__(self, module: str, path: str, hold: bool) -> None:
        self._rest = b""
        self._process: Any = None
        if not hold:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", module],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**os.environ, "PYTHONPATH": path},
                start_new_session=True,
            )

    def here(self) -> bool:
        """Answers once it is placed."""
        return True

    def send(self, line: str) -> None:
        """One line for the relay."""
        self._process.stdin.write(line.encode() + b"\n")
        self._process.stdin.flush()

    def receive(self, wait_s: float, chunk: int) -> list[str] | None:
        """Lines of the relay, maybe none; ``None`` once it has ended."""
        fd = self._process.stdout.fileno()
        if not select.select([fd], [], [], wait_s)[0]:
            return []
        part = os.read(fd, chunk)
        if not part:
            return None
        *lines, self._rest = (self._rest + part).split(b"\n")
        return [line.decode(errors="replace") for line in lines]

    def close(self, wait_s: float) -> None:
        """Let the relay end what is below it."""
        with contextlib.suppress(OSError):  # it is gone
            self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):  # the end of this actor is its end
            self._process.wait(wait_s)


def main() -> int:
    """Serve until the input ends."""
    import ray
    from ray.exceptions import RayError

    os.dup2(2, 1)
    try:
        ray.init(address="auto", log_to_driver=False, logging_level="ERROR", configure_logging=False)
    except (ConnectionError, RuntimeError, OSError, RayError) as error:
        _tell(failed=type(error).__name__, text=str(error))
        return 1
    own = ray.get_runtime_context().get_node_id()
    alive = [node for node in ray.nodes() if node["Alive"]]
    _tell(nodes=[_told(node, own) for node in sorted(alive, key=lambda node: node["NodeManagerAddress"])])
    actors: dict[int, Any] = {}
    for line in sys.stdin:
        order = json.loads(line)
        if "open" in order:
            actors[order["as"]] = _place(order)
            serving = _hold if order["hold"] else _receive
            threading.Thread(target=serving, args=(order["as"], actors[order["as"]]), daemon=True).start()
        elif "to" in order:
            actors[order["to"]].send.options(concurrency_group="in").remote(order["line"])
        elif order["close"] in actors:
            threading.Thread(target=_end, args=(actors.pop(order["close"]),)).start()
    ends = [threading.Thread(target=_end, args=(actor,)) for actor in actors.values()]
    for end in ends:
        end.start()
    for end in ends:
        end.join()
    ray.shutdown()
    return 0


def _told(node: dict[str, Any], own: str) -> dict[str, Any]:
    has = node["Resources"]
    return {
        "id": node["NodeID"], "address": node["NodeManagerAddress"], "host": node["NodeManagerHostname"],
        "cpus": has.get("CPU", 0.0), "gpus": has.get("GPU", 0.0), "here": node["NodeID"] == own,
    }  # fmt: skip


def _place(order: dict[str, Any]) -> Any:
    """An actor that has a node's CPUs and GPUs, on that node or nowhere."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    options: dict[str, Any] = {
        "num_cpus": order["cpus"], "num_gpus": order["gpus"], "max_restarts": 0, "max_task_retries": 0,
        "concurrency_groups": {"in": 1, "out": 1, "end": 1},
        "scheduling_strategy": NodeAffinitySchedulingStrategy(order["open"], soft=False),
    }  # fmt: skip
    return ray.remote(**options)(Step).remote(order["module"], order["path"], order["hold"])


def _receive(number: int, actor: Any) -> None:
    """Hand on what an actor says until it says no more."""
    from ray.exceptions import RayError

    try:
        while True:
            lines = _call(actor.receive, "out", SIGN_S, CHUNK)
            if lines is None:
                return _tell(lost=number, why="its relay ended")
            for line in lines:
                _tell(**{"from": number, "line": line})
    except RayError as error:
        _tell(lost=number, why=str(error).strip().splitlines()[-1].strip())


def _hold(number: int, actor: Any) -> None:
    """Keep a node if it is free now; one that waits longer makes an autoscaler look for another."""
    import ray
    from ray.exceptions import GetTimeoutError, RayError

    try:
        ray.get(actor.here.remote(), timeout=HOLD_S)
    except GetTimeoutError:
        ray.kill(actor)
    except RayError as error:
        _tell(lost=number, why=str(error))


def _call(method: Any, group: str, *arguments: Any) -> Any:
    import ray

    return ray.get(method.options(concurrency_group=group).remote(*arguments))


def _end(actor: Any) -> None:
    import ray
    from ray.exceptions import RayError

    with contextlib.suppress(RayError):  # it is gone
        ray.get(actor.close.options(concurrency_group="end").remote(END_S), timeout=END_S + 1.0)
    ray.kill(actor)


def _tell(**what: Any) -> None:
    with SENDING, contextlib.suppress(BrokenPipeError):  # the tuner is gone, and so the input ends
        OUT.write(json.dumps(what) + "\n")
        OUT.flush()


if __name__ == "__main__":
    sys.exit(main())
