"""Threads that share one operation on the CPU."""

from advisor.patching.source.process_setting import ProcessSetting


class NumThreads(ProcessSetting):
    """Calls ``torch.set_num_threads`` behind the imports, as it was measured; no variable is needed."""

    knobs = ("num_threads",)
    function = "torch.set_num_threads"
    replaces_environment = True
