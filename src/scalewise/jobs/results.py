"""The results of calls from Python: plain values under the names of the JSON, which a notebook shows as a table."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from scalewise.analysis.caveats import Caveat
from scalewise.analysis.comparison import Comparison
from scalewise.analysis.headline import headlines_of
from scalewise.analysis.summary import Analysis, ArmRow, summarise
from scalewise.doctor.diagnosis_text import summary_text
from scalewise.doctor.finding import Diagnosis, Finding
from scalewise.errors import BadRequest
from scalewise.jobs.diagnose import ExaminedScript
from scalewise.predict.answer import Checked, RehearsalAnswer
from scalewise.predict.conclusion import Conclusions
from scalewise.predict.predicted_scaling import ScalingRow
from scalewise.predict.prediction_text import title_text
from scalewise.records.load import load
from scalewise.units import counted


@dataclass(frozen=True, repr=False)
class MeasureResult:
    """The measured arms, with their steps, their scaling and reasons for doubt; `analysis` holds everything else."""

    folder: Path
    analysis: Analysis

    @property
    def arms(self) -> tuple[ArmRow, ...]:
        """Every arm of every experiment."""
        return tuple(row for experiment in self.analysis.experiments for row in experiment.rows)

    def arm(self, ranks: int) -> ArmRow:
        """The first arm with that many ranks."""
        found = next((row for row in self.arms if row.ranks == ranks), None)
        if found is None:
            known = ", ".join(map(str, sorted({row.ranks for row in self.arms}))) or "none"
            raise BadRequest(f"There is no arm of {ranks} ranks.", f"Numbers of ranks that there are: {known}.")
        return found

    @property
    def headlines(self) -> tuple[str, ...]:
        """The answer for each arm, as a paragraph."""
        return tuple(one.text() for experiment in self.analysis.experiments for one in headlines_of(experiment.rows))

    @property
    def caveats(self) -> tuple[Caveat, ...]:
        """Reasons to doubt a number, each once."""
        return tuple(dict.fromkeys(one for experiment in self.analysis.experiments for one in experiment.caveats))

    @property
    def doubtful(self) -> bool:
        """True if any number is not to be trusted; `caveats` say why."""
        return self.analysis.doubtful

    @property
    def failed(self) -> bool:
        """True if any run failed; the `reason` of its arm says how."""
        return self.analysis.failed

    def __repr__(self) -> str:
        failed = ", with failed runs" if self.failed else ""
        doubt = ", in doubt" if self.doubtful else ""
        return f"<{self.analysis.name}: {counted(len(self.arms), 'arm')}{failed}{doubt}, in {self.folder}>"

    def _repr_html_(self) -> str:
        from scalewise.report.documents.measurement_document import measurement_document
        from scalewise.report.html import notebook_html

        return notebook_html(measurement_document(self.analysis))


@dataclass(frozen=True, repr=False)
class DiagnoseResult:
    """The diagnosis of a script, worst finding first."""

    examined: ExaminedScript

    @property
    def diagnosis(self) -> Diagnosis:
        """Everything that was found, passed and could not be checked."""
        return self.examined.diagnosis

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings with evidence, place, price and fix; `counts` is True if one is proved and no mere note."""
        return self.diagnosis.findings

    @property
    def found(self) -> bool:
        """True if something is proved to be wrong or slow."""
        return any(one.counts for one in self.findings)

    @property
    def passed(self) -> tuple[str, ...]:
        """Names of the checks that found nothing."""
        return self.diagnosis.passed

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on how the examination itself went."""
        return self.diagnosis.notes

    @property
    def failure(self) -> str:
        """The failure of the script itself, in words; empty if it did not fail."""
        return self.diagnosis.failure

    @property
    def folder(self) -> Path:
        """The folder of the examined run."""
        return Path(self.diagnosis.folder)

    def __repr__(self) -> str:
        return f"<{Path(self.diagnosis.script).name}: {summary_text(self.diagnosis)}>"

    def _repr_html_(self) -> str:
        from scalewise.report.documents.diagnosis_document import diagnosis_document
        from scalewise.report.html import notebook_html

        return notebook_html(diagnosis_document(self.diagnosis, self.examined.words))


@dataclass(frozen=True, repr=False)
class RehearseResult:
    """The predictions for numbers of ranks, with their self-check and the conclusions from them."""

    answer: RehearsalAnswer
    conclusions: Conclusions

    @property
    def rows(self) -> tuple[ScalingRow, ...]:
        """The rows of all numbers of ranks: predicted, and measured where that many ran here."""
        return self.conclusions.scaling.rows if self.conclusions.scaling is not None else ()

    def at(self, ranks: int) -> ScalingRow:
        """The row of that many ranks."""
        found = next((row for row in self.rows if row.ranks == ranks), None)
        if found is None:
            why = next((f" {one.reason}" for one in self.answer.refused if one.ranks == ranks), "")
            known = ", ".join(str(row.ranks) for row in self.rows) or "none"
            raise BadRequest(f"There is no prediction for {ranks} ranks.{why}", f"There are: {known}.")
        return found

    @property
    def checks(self) -> tuple[Checked, ...]:
        """Predictions that were on disk before they were measured."""
        return self.answer.checks

    @property
    def warnings(self) -> tuple[str, ...]:
        """The warnings about what may not hold in the predictions."""
        return self.answer.warnings

    @property
    def guesses(self) -> tuple[str, ...]:
        """The assumptions that the predictions rest on beside measurements."""
        return self.conclusions.guesses

    @property
    def folder(self) -> Path:
        """The folder of the runs."""
        return Path(self.answer.folder)

    def __repr__(self) -> str:
        checked = f"{counted(len(self.checks), 'prediction')} checked" if self.checks else "no prediction checked"
        refused = f", {len(self.answer.refused)} refused" if self.answer.refused else ""
        return f"<{title_text(self.answer)}: {checked}{refused}, in {self.folder}>"

    def _repr_html_(self) -> str:
        from scalewise.report.documents.rehearsal_document import rehearsal_document
        from scalewise.report.html import notebook_html

        return notebook_html(rehearsal_document(self.answer, self.conclusions))


@dataclass(frozen=True, repr=False)
class CompareResult:
    """One comparison for each pair of arms; `result[0]` where there is one pair."""

    comparisons: tuple[Comparison, ...]

    def __iter__(self) -> Iterator[Comparison]:
        return iter(self.comparisons)

    def __len__(self) -> int:
        return len(self.comparisons)

    def __getitem__(self, index: int) -> Comparison:
        return self.comparisons[index]

    def __repr__(self) -> str:
        more = f" (the first of {len(self)})" if len(self) > 1 else ""
        return f"<{self.comparisons[0].sentence}{more}>"

    def _repr_html_(self) -> str:
        from scalewise.report.documents.comparison_document import comparison_document
        from scalewise.report.html import notebook_html

        return notebook_html(comparison_document(self.comparisons))


def measured_in(folder: Path) -> MeasureResult:
    """Returns what was measured in a folder, or in one run of it."""
    return MeasureResult(folder, summarise(load(folder)))
