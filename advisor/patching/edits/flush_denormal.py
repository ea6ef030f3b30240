"""Whether the CPU computes with numbers too small to be normal."""

from advisor.patching.source.process_setting import ProcessSetting


class FlushDenormal(ProcessSetting):
    """Calls ``torch.set_flush_denormal`` behind the imports, before other threads are started."""

    knobs = ("flush_denormal",)
    function = "torch.set_flush_denormal"
