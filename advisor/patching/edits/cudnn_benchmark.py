"""Whether cuDNN times its algorithms for each convolution."""

from advisor.patching.source.process_setting import ProcessSetting


class CudnnBenchmark(ProcessSetting):
    """Assigns ``torch.backends.cudnn.benchmark`` behind the imports."""

    knobs = ("cudnn_benchmark",)
    flag = "torch.backends.cudnn.benchmark"
    excluded = ("deterministic", "use_deterministic_algorithms")
