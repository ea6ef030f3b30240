"""A warm process that trials of a workload are forked from: torch imported, nothing computed.

Forking it costs a fraction of a second where a fresh process takes seconds. A fork is only safe while
the parent has run no parallel work: an OpenMP region or CUDA in it makes children hang, so one probe
child is tried first, and without it every trial gets a process of its own.
"""

import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from advisor.tuners.supervision import adoption, supervise
from advisor.tuners.supervision.child_start import isolated
from advisor.tuners.supervision.ended import Ended, read_ended
from advisor.tuners.supervision.failures import Failure, TrialFailed, describe, from_exit, read_tail
from advisor.tuners.trial.channel import Channel, ChannelClosed, NotAMessage, decode, encode
from advisor.tuners.trial.launch_messages import Fork, Load, Loaded
from advisor.tuners.trial.messages import Failed
from advisor.tuners.trial.spec import Target, TrialSpec

LOAD_LIMIT_S = 300.0
PROBE_LIMIT_S = 10.0
DESCRIPTORS = 3  # channel, status, control


class Zygote:
    """The parent's handle on the warm process; its supervisor inherits the descriptors ``held``.

    Raises:
        TrialFailed: The workload cannot be loaded; the failure holds the user's traceback.
    """

    def __init__(
        self,
        target: Target,
        folder: Path,
        environment: Mapping[str, str],
        waiting: Callable[[str, float], None],
        held: Sequence[int] = (),
    ) -> None:
        log = folder / "zygote"
        log.mkdir(mode=0o700, parents=True, exist_ok=True)
        ours, theirs = socket.socketpair()
        status_read, status_write = os.pipe()
        control_read, self._control = os.pipe()
        command = [
            sys.executable, "-P", "-m", "advisor.tuners.supervision.supervise", "--parent", str(os.getpid()),
            "--stdout", str(log / "stdout.log"), "--stderr", str(log / "stderr.log"),
            "--status-fd", str(status_write), "--control-fd", str(control_read),
            "--pass-fd", str(theirs.fileno()), "--",
            sys.executable, "-P", "-m", "advisor.tuners.launching.zygote", str(theirs.fileno()),
        ]  # fmt: skip
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, env=dict(environment), cwd=target.cwd, start_new_session=True,
            pass_fds=(theirs.fileno(), status_write, control_read, *held),
        )  # fmt: skip
        theirs.close()
        os.close(status_write)
        os.close(control_read)
        self._status = status_read
        self._errors = log / "stderr.log"
        self._socket = ours
        self._channel = Channel(ours)
        self.can_fork = False
        self.why_not: str | None = None
        self._pid = 0
        try:
            self._load(target, waiting)
        except BaseException:
            self.close()
            raise

    def fork(self, spec: Path, channel: int, status: int, control: int) -> None:
        """Start the trial of ``spec`` as a fork; the three descriptors are its own from now on."""
        message = encode(Fork(str(spec)))
        try:
            socket.send_fds(self._socket, [message], [channel, status, control])
        except OSError as error:
            raise TrialFailed(Failure("internal", f"the warm process is gone: {error}")) from None

    @property
    def supervisor(self) -> int:
        """Pid of the supervisor of the warm process."""
        return self._process.pid

    def end_orphans(self) -> None:
        """End what forked trials left whose supervisor was killed."""
        if self._pid and self._process.poll() is None:
            adoption.end_strangers(self._process.pid, self._pid)

    def close(self) -> None:
        """End the warm process and whatever was forked from it."""
        self._end()

    def _end(self) -> Ended | None:
        """How the warm process ended, the first time it is asked for."""
        if self._control < 0:
            return None
        os.close(self._control)
        self._control = -1
        self._channel.close()
        ended = read_ended(self._status, supervise.LONGEST_END_S)
        os.close(self._status)
        self._process.wait()
        return ended

    def _load(self, target: Target, waiting: Callable[[str, float], None]) -> None:
        began = time.monotonic()
        self._channel.send(Load(target))
        while True:
            try:
                message = self._channel.receive(0.5)
            except NotAMessage as error:
                raise TrialFailed(Failure("internal", f"the warm process: {error}")) from None
            except ChannelClosed:
                raise TrialFailed(from_exit(self._end(), read_tail(self._errors), started=True)) from None
            waited = time.monotonic() - began
            if message is None:
                waiting("start", waited)
                if waited > LOAD_LIMIT_S:
                    raise TrialFailed(Failure("timeout", f"the workload was not loaded in {waited:.0f} s"))
                continue
            if isinstance(message, Failed):
                raise TrialFailed(message.failure)
            assert isinstance(message, Loaded)  # it says nothing else
            self.why_not, self._pid = message.why_not, message.pid
            self.can_fork = message.why_not is None
            return


def main() -> None:
    """Entry of the warm process."""
    from advisor.profiles.hooks.surroundings import program

    program.forget_our_folder()
    connection = socket.socket(fileno=int(sys.argv[1]))
    channel = Channel(connection)
    command = channel.receive()
    assert isinstance(command, Load)  # the first that is said; no time-out was given
    try:
        threads, why_not = _load_target(command.target)
    except BaseException as error:  # whatever the user's file raises is the answer
        channel.send(Failed(describe(error)))
        return
    channel.send(Loaded(os.getpid(), why_not))
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    _serve(connection, threads)


def _load_target(target: Target) -> tuple[int, str | None]:
    """Import torch and the workload with one thread; the thread count to restore, and why not to fork."""
    import torch
    import torch._dynamo  # every optimizer's constructor imports it, which takes longer than a trial's start

    from advisor.tuners.trial.workload_transfer import load_workload

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    load_workload(target)
    if torch.get_num_threads() != 1:
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
    if torch.cuda.is_initialized():
        return threads, "CUDA was initialised while the workload was imported"
    return threads, None if _fork_works(threads) else "parallel work was done while the workload was imported"


def _fork_works(threads: int) -> bool:
    """Whether a forked child can compute with all threads."""
    child = os.fork()
    if child == 0:
        import torch

        torch.set_num_threads(max(2, threads))
        torch.mm(torch.ones(256, 256), torch.ones(256, 256)).sum().item()
        torch.ones(1_000_000).add(1).sum().item()
        os._exit(0)
    handle = os.pidfd_open(child)
    try:
        if not select.select([handle], [], [], PROBE_LIMIT_S)[0]:
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    finally:
        os.close(handle)
    return os.waitstatus_to_exitcode(status) == 0


def _serve(connection: socket.socket, threads: int) -> None:
    while True:
        data, descriptors, _, _ = socket.recv_fds(connection, 65536, DESCRIPTORS)
        if not data:
            return
        command = decode(data)
        assert isinstance(command, Fork)  # nothing else is said from now on
        mother = os.getpid()
        if os.fork() == 0:
            connection.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _guard(Path(command.spec), descriptors, threads, mother)
        for descriptor in descriptors:
            os.close(descriptor)


def _guard(spec_file: Path, descriptors: list[int], threads: int, mother: int) -> None:
    """Supervise one trial from a process of its own, so that its leftovers can be told from others'."""
    channel, status, control = descriptors
    spec = TrialSpec.read(spec_file)
    folder = Path(spec.folder)

    def trial() -> int | None:
        if spec.isolation is not None and (code := isolated(spec.isolation.enter)):
            return code

        import torch

        from advisor.tuners.trial import trial as child

        os.close(status)
        os.close(control)
        started = time.perf_counter()
        torch.set_num_threads(threads)
        child.serve(spec, socket.socket(fileno=channel), started)
        return None

    supervise.guard(
        trial,
        parent=mother,
        stdout=folder / "stdout.log",
        stderr=folder / "stderr.log",
        status_fd=status,
        control_fd=control,
        close=[channel],
    )


if __name__ == "__main__":
    main()
