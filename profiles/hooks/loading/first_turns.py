"""How much longer a program works on the first batch of an epoch than on the later ones."""

MOST_EPOCHS = 1000  # that are kept


class FirstTurns:
    """Compares what lies between the first two deliveries of an epoch with what lies between the later ones.

    Waits for batches are left out of both. Workers that are started compete with the step for processors, and
    after a fork every page that the step writes to is copied.

    Attributes:
        excess_ns: Of every complete epoch of at least three batches.
    """

    def __init__(self) -> None:
        self.excess_ns: list[float] = []
        self._first_ns: int | None = None
        self._work_ns = 0
        self._second: tuple[int, int, int] | None = None

    def begin(self) -> None:
        """An epoch begins."""
        self._first_ns = self._second = None

    def deliver(self, now_ns: int, waited_ns: int, batches: int, waits_ns: int) -> bool:
        """The first or the second batch arrived; whether it was the second.

        Args:
            now_ns: The program's own time.
            waited_ns: For this batch.
            batches: Delivered so far, in all epochs.
            waits_ns: For all of them.
        """
        if self._first_ns is None:
            self._first_ns = now_ns
            return False
        self._work_ns = now_ns - waited_ns - self._first_ns
        self._second = now_ns, batches, waits_ns
        return True

    def end(self, asked_ns: int, batches: int, waits_ns: int) -> None:
        """The epoch was over when the program asked for another batch, at ``asked_ns``."""
        if self._second is None:
            return
        since_ns, before, waited_ns = self._second
        self._second = None
        turns = batches - before + 1
        if turns > 1 and len(self.excess_ns) < MOST_EPOCHS:
            self.excess_ns.append(self._work_ns - (asked_ns - since_ns - (waits_ns - waited_ns)) / turns)
