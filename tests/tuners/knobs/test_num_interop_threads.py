import os
import traceback
from collections.abc import Callable

import pytest
import torch
from builders import a_gpu_profile, a_machine, a_profile, a_root, a_run

from advisor.tuners.knob import Refused
from advisor.tuners.knobs.num_interop_threads import NumInteropThreads


def in_a_child(function: Callable[[], None]) -> None:
    """Torch takes the number once per process, so each test needs one of its own."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            function()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_the_number_is_set_and_the_programs_own_one_is_ignored() -> None:
    def child() -> None:
        run = a_run({"num_interop_threads": 4}, num_interop_threads=NumInteropThreads())
        run.configure({"num_interop_threads": 2})
        run.process()
        torch.set_num_interop_threads(1)
        assert torch.get_num_interop_threads() == 2
        assert run.applied == {"num_interop_threads"}

    in_a_child(child)


def test_a_number_that_is_set_already_is_answered_with_the_reason() -> None:
    def child() -> None:
        torch.set_num_interop_threads(1)
        with pytest.raises(Refused, match="once per process"):
            NumInteropThreads().process(2)
        assert torch.get_num_interop_threads() == 1

    in_a_child(child)


def test_torchs_default_comes_first_where_a_graph_can_run_side_by_side() -> None:
    profile = a_profile(a_machine(physical_cores=8), roots=(a_root(scripted=True),))
    assert NumInteropThreads().choices(profile) == [8, 1, 2]
    profile = a_profile(a_machine(physical_cores=2), roots=(a_root(), a_root(scripted=True)))
    assert NumInteropThreads().choices(profile) == [2, 1]


def test_operations_that_run_one_by_one_use_no_such_threads() -> None:
    profile = a_profile(roots=(a_root(),))
    with pytest.raises(Refused, match="parallel graph"):
        NumInteropThreads().choices(profile)
    with pytest.raises(Refused, match="parallel graph"):
        NumInteropThreads().check(2, profile)


def test_a_model_on_the_gpu_is_left_alone() -> None:
    with pytest.raises(Refused, match="on the GPU"):
        NumInteropThreads().choices(a_gpu_profile(roots=(a_root(scripted=True),)))


def test_what_the_user_writes_sets_it() -> None:
    def child() -> None:
        exec(NumInteropThreads().change(3).snippet, {"torch": torch})
        assert torch.get_num_interop_threads() == 3

    in_a_child(child)
