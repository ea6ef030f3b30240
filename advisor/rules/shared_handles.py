"""The dataset holds an open file, archive or connection when workers are forked."""

from advisor.advice.finding import Finding, Kind, Severity
from advisor.advice.rule import Family, Rule
from advisor.profiles.derived.copies import handle_of, open_in_each
from advisor.profiles.facts.profile import Profile

SEVERAL = 2  # workers from which two processes read through one handle


class SharedHandles(Rule):
    """A worker is a copy of the program, and what was open before is one and the same in all copies.

    They share the position in the file: while one has moved it and reads, another moves it away. What is
    read is broken ("Bad CRC-32", "bad object header", `zlib.error`), or silently another record. A connection
    mixes up the answers to its questions. With one worker it goes well as long as the program itself does not
    read. Open it on first use in each process: set the attribute to `None` in `__init__`, open it in
    `__getitem__` where it is `None`, or in `worker_init_fn`. With that, any number of workers is fine.
    """

    family = Family.INPUT
    kind = Kind.RISK
    on_traces = "what the dataset holds: a trace does not show it"
    threshold = "an open handle in the dataset before its first item was made (no threshold)"
    timed = False
    correctness = True

    def check(self, profile: Profile) -> Finding:
        loader = profile.loader
        if loader is None:
            return self.not_applicable("what the dataset holds", "needs a DataLoader")
        handle = handle_of(loader)
        if handle is None:
            return self.passed("the dataset holds no open file or connection")
        now = loader.num_workers >= SEVERAL
        workers = loader.num_workers if now else SEVERAL
        return self.diagnostic(
            f"{workers} workers {'share' if now else 'or more would share'} one open {handle.type}, "
            f"`{handle.name}`: each moves the position at which the others read",
            advice=open_in_each(handle.name),
            severity=Severity.HIGH if now else Severity.MEDIUM,
            location=handle.location,
            evidence={"handle": handle.type, "num_workers": loader.num_workers},
            knobs=(),
        )
