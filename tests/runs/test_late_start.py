"""A program that does not come to its first step in time: nobody knows what it would have done."""

import pytest
from remembered_progress import Told

from advisor.base.errors import TargetError
from advisor.base.settings import Settings, TargetRequest
from advisor.result.document import ProfileData
from advisor.runs import profile as run
from advisor.stages.target_failures import target_error
from advisor.tuners.supervision.failures import Failure


def test_it_is_not_run_again_to_count_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    late = target_error(Failure("timeout", "no answer for 60 s in phase start"), None, "profile")

    def profiled(*of: object) -> ProfileData:
        raise late

    monkeypatch.setattr(run, "_profiled", profiled)
    told = Told()
    with pytest.raises(TargetError, match=r"in phase start\): its start takes longer") as failed:
        run.profile(Settings(target=TargetRequest(kind="script", name="serve.py")), told)
    assert failed.value.exit_code == 3 and run.NO_STEP not in told.said
    hint = str(failed.value.hint)
    assert "half of `--budget`" in hint and "--objective latency" in hint and "advisor init" in hint
