"""The answer to whether two runs compute the same: a verdict, its reasons, and what they rest on."""

from dataclasses import dataclass
from typing import Any, Literal

from scalewise.agreement.compare_runs import RunsCompared, StepDistance, TensorDistance
from scalewise.records.codec import encode
from scalewise.units import counted, with_capital

ParityKind = Literal["same", "differs", "untold"]


@dataclass(frozen=True)
class NamedCause:
    """A cause of a difference: a sentence, and the change from outside that proves it if there is one."""

    name: str
    sentence: str
    change: str = ""  # with it applied the runs compute the same; empty: told by the numbers alone
    fix: str = ""


@dataclass(frozen=True)
class ParityAnswer:
    """The verdict on two runs, its cause, and everything that it rests on."""

    script: str
    ranks: int
    kind: ParityKind
    sentence: str
    compared: RunsCompared | None = None
    cause: NamedCause | None = None
    tried: tuple[str, ...] = ()  # changes with which the runs still part, and how these ended
    notes: tuple[str, ...] = ()  # how the runs were made equal, and what is worth knowing
    relative_rounding: float | None = None  # of the first gradient
    reference: str = "one rank"  # what the ranks are compared with
    other: str = ""  # what is compared with it; empty: its ranks
    first_step: int = 1  # the number of the first step that is compared
    folder: str = ""
    seconds: float = 0.0

    @property
    def exit_code(self) -> int:
        """0: the same; 2: they differ; 3: it cannot be told."""
        return {"same": 0, "differs": 2, "untold": 3}[self.kind]

    def as_json(self) -> dict[str, Any]:
        """Everything as JSON values."""
        return encode(self) | {"exit_code": self.exit_code}


def sentence_of(compared: RunsCompared, reference: str, other: str) -> tuple[ParityKind, str]:
    """The verdict on two runs in a sentence."""
    parted = compared.first_difference
    if parted is None:
        last = len(compared.steps)
        worst = max((step.worst.roundings for step in compared.steps if step.worst), default=0.0)
        return "same", (
            f"{_capital(other)} and {reference} compute the same up to rounding: in {counted(last, 'step')} no "
            f"gradient or parameter is further apart than {_roundings(worst)}."
        )
    beyond = parted.parted()
    gradients = parted.parted("gradient")
    first = (gradients or beyond)[0]
    return "differs", (
        f"{_capital(other)} and {reference} compute different things from step {parted.step + 1} on: "
        f"{_place(parted, first)} by {_roundings(first.roundings)}"
        f"{_others(len(gradients or beyond), _of_that_kind(parted, first), first)}."
    )


def _of_that_kind(step: StepDistance, first: TensorDistance) -> int:
    return len({one.name for one in step.tensors if one.what == first.what})


def _place(step: StepDistance, first: TensorDistance) -> str:
    where = f" on rank {first.rank}" if first.rank else ""
    if first.what == "gradient":
        return f"the gradient of {first.name}{where} is apart by {percent(first.relative)},"
    return f"the gradients agree, and parameter {first.name}{where} after the step is apart,"


def _others(count: int, of: int, first: TensorDistance) -> str:
    names = min(count, of)
    noun = "gradients" if first.what == "gradient" else "parameters"
    return f"; so are {names} of {of} {noun}" if names > 1 else f"; the other {of - 1} {noun} agree" if of > 1 else ""


def percent(share: float) -> str:
    """A share as text: `12 %`, `0.003 %`."""
    if share > 10:
        return f"{share:.3g} times its length"
    return f"{share * 100:.2g} %" if share < 0.995 else f"{share * 100:.3g} %"


def _roundings(number: float) -> str:
    if number < 1.5:
        return "1 rounding"
    return f"{number:,.0f} roundings" if number < 1e6 else f"{number:.1e} roundings"


def _capital(text: str) -> str:
    return with_capital(text) if text.startswith("the ") else text
