"""An inspected run, understood: layers and their devices, hand-overs, who works when, memory by purpose, gradients."""

from dataclasses import dataclass

from scalewise.records.inspection import (
    LOGICAL_PREFIX,
    BusyRow,
    DeviceMemoryRow,
    GradientRow,
    LayerRow,
    MemoryPartsRow,
    TransferRow,
)


@dataclass(frozen=True)
class Inspection:
    """Rank 0 of an inspected run; parts that the script did not show are empty or None."""

    run: str  # its name
    layers: tuple[LayerRow, ...]
    transfers: tuple[TransferRow, ...]  # of one typical step
    timeline: tuple[BusyRow, ...]  # of the same step
    device_memory: tuple[DeviceMemoryRow, ...]
    memory: MemoryPartsRow | None  # of the step with the largest sum
    gradients: tuple[GradientRow, ...]  # one a step
    peak_bytes: int | None  # of the device or, on CPU ranks, of the tensors

    @property
    def devices(self) -> tuple[str, ...]:
        """In the order of the layers."""
        return tuple(dict.fromkeys(layer.device for layer in self.layers))

    @property
    def emulated(self) -> bool:
        """Whether logical devices stood for real ones."""
        return any(device.startswith(LOGICAL_PREFIX) for device in self.devices)
