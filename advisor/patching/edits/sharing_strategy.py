"""How a tensor that a worker has made reaches the program."""

from advisor.patching.source.process_setting import ProcessSetting
from advisor.result.document import Value


class SharingStrategy(ProcessSetting):
    """Calls ``torch.multiprocessing.set_sharing_strategy`` behind the imports, also in spawned workers."""

    knobs = ("sharing_strategy",)
    function = "torch.multiprocessing.set_sharing_strategy"

    def written(self, value: Value) -> str:
        """A string."""
        return f'"{value}"'
