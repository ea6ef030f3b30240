"""How exactly float32 matrices are multiplied."""

from advisor.patching.source.process_setting import ProcessSetting
from advisor.result.document import Value


class MatmulPrecision(ProcessSetting):
    """Calls ``torch.set_float32_matmul_precision`` behind the imports."""

    knobs = ("matmul_precision",)
    function = "torch.set_float32_matmul_precision"
    excluded = ("allow_tf32", "fp32_precision")

    def written(self, value: Value) -> str:
        """A name in quotes."""
        return f'"{value}"'
