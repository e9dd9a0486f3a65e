"""The bytes through the busiest device in H1.4: counted on two devices, predicted for more."""

from dataclasses import dataclass

from scalewise.course.homework1.busy_devices import DDP, DP
from scalewise.report.cells import count_cell, number_cell
from scalewise.report.document import Cell, Column, Mark, Table

BYTES_TABLE = "h1-4-bytes"
DEVICES = (2, 4, 8)
MEGA = 1e-6


@dataclass(frozen=True)
class DeviceTraffic:
    """The bytes that pass the busiest device in a step, in and out."""

    through_first: float  # of DataParallel on two devices, counted
    reduced: float  # by DDP, counted: as many bytes as the gradients have
    mark: Mark  # of what DataParallel copied

    def by_copies(self, devices: int) -> float:
        """The bytes if weights go to every other device and gradients come back from each, one copy after the other."""
        return 2 * self.reduced * (devices - 1) + self._batch(devices)

    def by_nccl(self, devices: int) -> float:
        """The bytes if NCCL passes weights and gradients on from device to device: the first does so once."""
        return 2 * self.reduced + self._batch(devices)

    def by_ring(self, devices: int) -> float:
        """The bytes of a ring: 2 (N - 1)/N times the gradients out, and as much in."""
        return 4 * (devices - 1) / devices * self.reduced

    def _batch(self, devices: int) -> float:
        """The bytes of inputs, outputs and the outputs' gradients; all but the first device's own part are sent."""
        counted = max(0.0, self.through_first - 2 * self.reduced)
        return counted * 2 * (devices - 1) / devices


def bytes_table(traffic: DeviceTraffic) -> Table:
    """Returns the table, with one row for each number of devices."""
    columns = (
        Column("Devices N"),
        Column(f"{DP}, plain copies", "MB"),
        Column(f"{DP}, NCCL", "MB"),
        Column(f"{DDP}, ring", "MB"),
    )
    caption = (
        f"In and out, added up. {DP}: weights go out and gradients come back, by plain copies to each of the N − 1 "
        "other devices, or once where PyTorch can take NCCL's broadcast and reduce; so do parts of the batch. "
        f"{DDP}: each rank of a ring sends 2 (N − 1)/N times the gradients and receives as much. Copies and gradients "
        "were counted for N = 2; all else is predicted from that."
    )
    rows = tuple(bytes_row(traffic, count) for count in DEVICES)
    return Table(BYTES_TABLE, "Through the busiest of N devices in a step", columns, rows, caption=caption)


def bytes_row(traffic: DeviceTraffic, devices: int) -> tuple[Cell, ...]:
    """Returns the row for that many devices."""
    counted = devices == DEVICES[0]
    mark: Mark = "measured" if counted else "predicted"
    return (
        count_cell(devices, mark=mark),
        number_cell(traffic.by_copies(devices), MEGA, mark=traffic.mark if counted else "predicted"),
        number_cell(traffic.by_nccl(devices), MEGA, mark="predicted"),
        number_cell(traffic.by_ring(devices), MEGA, mark="predicted"),
    )
