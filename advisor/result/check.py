"""What ``check`` found: the contents of ``check.json``, as values with a schema.

It has the fields of every document of advisor (``schema_version``, ``advisor_version``, ``command``,
``created``, ``target``, ``machine``, ``seed``, ``warnings``, ``budget``; ``profile.phases_ms`` is a step as
it is now), and besides:

``verdict``
    ``passed``, or ``regressed`` when the time of a step or peak memory grew beyond noise and beyond
    ``min_gain``, or ``answers`` are not ``accepted``. The exit code follows it: 0 or 1.
``reference``
    The result that was compared with: its ``path``, what made it (``made_by``: ``tune`` or ``profile``),
    ``created``, ``command``, ``digest``, ``contended``, and ``phases_ms`` of a step as it was then.
``code_changed``
    Whether the digest of the target differs from the reference's; ``null`` where one is not known.
``settings``
    Knobs whose present setting differs: ``knob``, ``then``, ``now``.
``min_gain``, ``confidence``
    As asked for: growth that is let pass, and the level of all intervals.
``step_ms``, ``peak_bytes``
    One quantity each: ``then`` and ``now`` with their intervals, ``ratio`` now over then (above 1 is worse),
    ``verdict`` (``regressed``; ``within_limit``: worse beyond noise, but not shown to exceed ``min_gain``;
    ``unchanged``; ``improved``; ``not_compared`` with the reason in ``why``), and ``smallest_regression``,
    the smallest growth that this run could have shown. The interval of ``ratio`` also holds what the one
    process of the stored figure may have been off by. ``per`` is ``sample`` where a step works on another
    number of samples now: ``ratio`` is then that of the time per sample.
``answers``
    Of a recommended form of a trained model that was measured on another CPU, or by other versions: its
    ``changes`` beside the program as it is, judged anew; ``verdict`` (``accepted``, ``refused``,
    ``not_decidable``) with the reason in ``why``, and what no longer agrees in ``rejected``. ``null`` where
    there was no need.
``instances``
    Fresh processes that were measured.
``contended``, ``thread_collapse``, ``excluded_slots``
    What disturbed the measurement, and slots that were left out for it.
"""

from typing import Literal

from pydantic import Field

from advisor.result.document import Document, Finite, Interval, Ratio, Value
from advisor.result.header import Record

Judged = Literal["accepted", "refused", "not_decidable"]
Verdict = Literal["regressed", "within_limit", "unchanged", "improved", "not_compared"]


class Checked(Record):
    """One quantity, then and now."""

    then: Interval | None = None
    now: Interval | None = None
    ratio: Ratio | None = None
    verdict: Verdict = "not_compared"
    smallest_regression: Finite | None = None
    per: Literal["step", "sample"] = "step"
    why: str = ""


class ReferenceFacts(Record):
    """The stored result."""

    path: str
    made_by: Literal["tune", "profile"]
    created: str = ""
    command: list[str] = Field(default_factory=list)
    digest: str = ""
    contended: bool = False
    phases_ms: dict[str, Finite] = Field(default_factory=dict)


class Resetting(Record):
    """A knob whose present setting is not what it was."""

    knob: str
    then: Value
    now: Value


class Answers(Record):
    """A recommended form of a trained model beside the program as it is, judged anew."""

    verdict: Judged
    changes: dict[str, Value]
    rejected: dict[str, str] = Field(default_factory=dict)
    why: str = ""


class CheckData(Document):
    """What ``check`` found: the whole of ``check.json``."""

    verdict: Literal["passed", "regressed"]
    reference: ReferenceFacts
    code_changed: bool | None = None
    settings: list[Resetting] = Field(default_factory=list)
    min_gain: Finite = 0.02
    confidence: Finite = 0.99
    step_ms: Checked
    peak_bytes: Checked
    answers: Answers | None = None
    instances: int
    contended: bool = False
    thread_collapse: bool = False
    excluded_slots: dict[str, int] = Field(default_factory=dict)
