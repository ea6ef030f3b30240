"""A knob that sets something about the worker processes of a loader, and does nothing where it has none."""

from typing import TYPE_CHECKING, Any, TypeVar

from advisor.tuners.knob import Knob, Refused

if TYPE_CHECKING:
    from torch.optim import Optimizer

NEEDS_WORKERS = "needs num_workers above 0"
NO_LOADER = "no DataLoader for training was constructed before the first update"

V = TypeVar("V", bound=int | str)


class WorkerSetting(Knob[V]):
    """One setting of loaders with workers; what it does to their arguments is told by ``_set``.

    A loader without workers, such as one for evaluation, is left alone. Whether any has some is known at the
    first update, since its batch came from a loader. Loaders are counted over the whole process, which makes
    one run: switches forget none.
    """

    of_iterator = True
    loading = True
    acts_on = ("input_wait",)
    layer = 1  # looks at what num_workers has decided

    _loaders = 0
    _acts = False

    def loader(self, arguments: dict[str, Any], value: V) -> None:
        """Set it for one loader, if that has workers."""
        self._loaders += 1
        if arguments.get("num_workers"):
            self._set(arguments, value)
            self._acts = True

    def optimizer(self, optimizer: "Optimizer", value: V) -> None:
        """The first update is about to be made.

        Raises:
            Refused: So far no loader had workers.
        """
        if not self._acts:
            raise Refused(NEEDS_WORKERS if self._loaders else NO_LOADER)

    def _set(self, arguments: dict[str, Any], value: V) -> None:
        raise NotImplementedError
