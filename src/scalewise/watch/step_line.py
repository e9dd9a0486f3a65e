"""One step being put together, and its line of JSON: formatted by hand because it is written on the script's time."""

import math
from collections.abc import Callable, Sequence

from scalewise.records.pulse import BACKWARD, FORWARD, OPTIMIZER, OWN_CODE

_LINE = (
    '{"kind":"step","step":%s,"optimizer":%s,"at_ns":%s,"step_ns":%s,"data_ns":%s,"data_inside_ns":%s,"forward_ns":%s,'
    '"backward_ns":%s,"optimizer_ns":%s,"rest_ns":%s,"between_ns":%s,"micro_batches":%s%s}\n'
)


class StepLine:
    """What is known of the step so far. Fields that are rare go into `extras` as JSON already."""

    __slots__ = (
        "at_ns",
        "autocast",
        "between_ns",
        "collective_ns",
        "collectives",
        "data_outside_ns",
        "device_losses",
        "loss",
        "micro_batches",
        "optimizers",
        "samples",
        "scale",
        "skipped",
        "step",
    )

    def __init__(self, previous: "StepLine | None" = None) -> None:
        self.step = self.at_ns = self.data_outside_ns = self.micro_batches = 0
        self.between_ns: int | None = None
        self.optimizers: tuple[int, ...] = ()
        self.samples: int | None = None
        self.loss: float | None = None
        self.device_losses: tuple[Callable[[], float], ...] = ()
        self.autocast: str | None = None
        self.scale: float | None = previous.scale if previous is not None else None
        self.skipped = False
        self.collectives: dict[str, list[int]] | None = None
        self.collective_ns = 0

    def open(self, step: int, at_ns: int, data_outside_ns: int, between_ns: int | None) -> None:
        """The step begins."""
        self.step, self.at_ns = step, at_ns
        self.data_outside_ns, self.between_ns = data_outside_ns, between_ns

    def add_samples(self, samples: int | None) -> None:
        """One micro-batch's rows; a step in which one of them cannot be seen has no total."""
        if samples is not None:
            self.samples = samples if self.samples is None else self.samples + samples

    def add_loss(self, loss: float) -> None:
        """What one backward pass was called on."""
        self.loss = loss if self.loss is None else self.loss + loss

    def ended_by(self, optimizer: int, collectives: dict[str, list[int]], collective_ns: int) -> None:
        """An optimizer has stepped; a second one in the same step adds to what the first left."""
        self.optimizers += (optimizer,)
        self.collective_ns += collective_ns
        if self.collectives:
            for kind, (count, size_bytes) in self.collectives.items():
                total = collectives.setdefault(kind, [0, 0])
                total[0] += count
                total[1] += size_bytes
        self.collectives = collectives

    def read_device_losses(self) -> None:
        """Fetches losses left on a device whose work is known to be done."""
        for fetch in self.device_losses:
            self.add_loss(fetch())
        self.device_losses = ()

    def text(self, step_ns: int, spent: Sequence[int] | None, inside_ns: int, between_ns: int | None) -> str:
        """The line; `spent` is None when the phases of this step were not resolved."""
        phases: tuple[int | str, ...] = ("null",) * 4
        if spent is not None:
            phases = (spent[FORWARD], spent[BACKWARD], spent[OPTIMIZER], spent[OWN_CODE])
        return _LINE % (
            self.step,
            self.optimizers[-1],
            self.at_ns,
            step_ns,
            self.data_outside_ns + inside_ns,
            inside_ns,
            *phases,
            "null" if between_ns is None else between_ns,
            self.micro_batches,
            self._extras(),
        )

    def _extras(self) -> str:
        parts = ""
        if self.samples is not None:
            parts += f',"samples":{self.samples}'
        if self.loss is not None:
            parts += f',"loss":{self.loss!r}' if math.isfinite(self.loss) else ',"non_finite":true'
        if self.autocast is not None:
            parts += f',"autocast":"{self.autocast}"'
        if self.scale is not None:
            parts += f',"scale":{self.scale!r}'
        if self.skipped:
            parts += ',"skipped":true'
        if self.collectives:
            pairs = (f'"{kind}":[{count},{size}]' for kind, (count, size) in self.collectives.items())
            parts += f',"collectives":{{{",".join(pairs)}}},"collective_ns":{self.collective_ns}'
        return parts
