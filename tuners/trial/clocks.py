"""Whether the driver holds a GPU's clocks down: heat, or power that the machine cannot give."""

import sys
from contextlib import suppress
from typing import Any

SLOWDOWNS = {  # NVML's bits; a power cap and idleness are no faults
    "nvmlClocksEventReasonSwThermalSlowdown": "heat",
    "nvmlClocksThrottleReasonHwSlowdown": "the hardware",
    "nvmlClocksThrottleReasonHwThermalSlowdown": "heat",
    "nvmlClocksThrottleReasonHwPowerBrakeSlowdown": "the power supply",
}


def held_down(device: int = 0) -> tuple[str, ...]:
    """By what, in words; empty where nothing does or no driver tells."""
    import pynvml

    with suppress(pynvml.NVMLError):
        pynvml.nvmlInit()
        try:
            handle = pynvml.nvmlDeviceGetHandleByUUID(_uuid(device))
            bits = int(pynvml.nvmlDeviceGetCurrentClocksEventReasons(handle))
        finally:
            pynvml.nvmlShutdown()
        named = (said for name, said in SLOWDOWNS.items() if bits & getattr(pynvml, name, 0))
        return tuple(dict.fromkeys(named))
    return ()


def _uuid(device: int) -> str:
    """NVML's name of a device as torch counts them: their orders differ."""
    torch: Any = sys.modules["torch"]
    return f"GPU-{torch.cuda.get_device_properties(device).uuid}"
