"""The result of `scalewise.parity`."""

from dataclasses import dataclass
from pathlib import Path

from scalewise.agreement.compare_runs import StepDistance
from scalewise.agreement.parity_answer import NamedCause, ParityAnswer, ParityKind


@dataclass(frozen=True, repr=False)
class ParityResult:
    """The answer to whether ranks compute what one rank computes."""

    answer: ParityAnswer

    @property
    def kind(self) -> ParityKind:
        """The verdict in a word: same, differs or untold."""
        return self.answer.kind

    @property
    def cause(self) -> NamedCause | None:
        """The cause of a difference; None if there is none, or if nothing explains it."""
        return self.answer.cause

    @property
    def steps(self) -> tuple[StepDistance, ...]:
        """The steps beside each other, with the distance of every gradient and parameter."""
        return self.answer.compared.steps if self.answer.compared is not None else ()

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on how the runs were made comparable."""
        return self.answer.notes

    @property
    def folder(self) -> Path:
        """The folder of the runs."""
        return Path(self.answer.folder)

    def __repr__(self) -> str:
        return f"<{self.answer.script}: {self.answer.sentence}>"

    def _repr_html_(self) -> str:
        from scalewise.report.documents.parity_document import parity_document
        from scalewise.report.html import notebook_html

        return notebook_html(parity_document(self.answer))
