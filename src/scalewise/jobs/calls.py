"""The calls from Python, such as `scalewise.measure`, and their results: values that a notebook shows as a table."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from scalewise.analysis.caveats import Caveat
from scalewise.analysis.comparison import Comparison
from scalewise.analysis.headline import headlines_of
from scalewise.analysis.summary import Analysis, ArmRow, summarise
from scalewise.doctor.finding import Diagnosis, Finding, summary_text
from scalewise.errors import BadRequest
from scalewise.jobs.diagnose import ExaminedScript
from scalewise.jobs.measure import Where
from scalewise.jobs.measure import measure as measured
from scalewise.jobs.parity_result import ParityResult
from scalewise.jobs.reporter import SILENT, Reporter
from scalewise.jobs.requests import Arguments, MeasureRequest, in_python, public, suite_of
from scalewise.plan.adhoc import MOST_DEVICES, check_script
from scalewise.plan.experiment import DeviceChoice
from scalewise.plan.find import find_suite
from scalewise.plan.words import MOST_RANKS, PLAIN, parse_changes, parse_link
from scalewise.predict.answer import Checked, RehearsalAnswer, Scaling
from scalewise.predict.conclusion import Conclusions
from scalewise.predict.predicted_scaling import ScalingRow
from scalewise.predict.prediction_text import title_text
from scalewise.records.load import load
from scalewise.records.spec import LauncherName
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


File = str | os.PathLike[str]
Word = str | int | float | Path


@public
def measure(
    what: File,
    args: Sequence[Word] = (),
    *,
    ranks: int | Sequence[int] | None = None,
    repeat: int | None = None,
    change: Sequence[str] = (),
    emulate_link: str | None = None,
    turns: bool = False,
    inspect: bool = False,
    plain: bool = False,
    devices: int | None = None,
    device: DeviceChoice = "auto",
    launcher: LauncherName = "fork",
    steps: int | None = None,
    env: Mapping[str, str] | None = None,
    limit: float | None = None,
    stall: float | None = None,
    full: bool = False,
    in_place: bool = False,
    out: File = "runs",
    again: bool = False,
    reporter: Reporter = SILENT,
) -> MeasureResult:
    """Measures a script or a suite, as `scalewise run` does. The same call continues where it was interrupted."""
    asked = Arguments()
    request = MeasureRequest(
        what=str(asked.path("what", what)),
        args=asked.words("args", args),
        ranks=None if ranks is None else asked.counts("ranks", ranks, MOST_RANKS),
        repeat=None if repeat is None else asked.count("repeat", repeat),
        change=asked.words("change", change),
        emulate_link=None if emulate_link is None else str(emulate_link),
        turns=asked.flag("turns", turns),
        inspect=asked.flag("inspect", inspect),
        plain=asked.flag("plain", plain),
        devices=None if devices is None else asked.count("devices", devices, MOST_DEVICES),
        device=asked.choice("device", device, DeviceChoice),
        launcher=asked.choice("launcher", launcher, LauncherName),
        steps=None if steps is None else asked.count("steps", steps),
        env=asked.variables("env", env or {}),
        limit=None if limit is None else asked.seconds("limit", limit),
        stall=None if stall is None else asked.seconds("stall", stall),
        full=asked.flag("full", full),
        in_place=asked.flag("in_place", in_place),
    )
    where = Where(asked.path("out", out), asked.flag("again", again))
    if request.plain and request.ranks is not None and request.ranks != (1,):
        asked.wrong("plain=True runs one process, which has no ranks.", "Leave one of plain and ranks out.")
    _try_texts(asked, request)
    asked.check()
    folder, complete = measured(suite_of(request, in_python), reporter, where)
    if not complete:
        raise KeyboardInterrupt("the same call continues")
    return measured_in(folder.path)


def _try_texts(asked: Arguments, request: MeasureRequest) -> None:
    """Reads texts that otherwise only the suite's making reads, so that their problems are reported with all others."""
    if request.of_script:
        asked.attempt(partial(check_script, Path(request.what)), None)
    else:
        asked.attempt(partial(find_suite, request.what), None)
    for text in request.change:
        asked.attempt(partial(parse_changes, text), ())
    if request.emulate_link is not None:
        written, hint = in_python("emulate_link", request.emulate_link), "Write it as emulate_link='1ms,1GB/s'."
        asked.attempt(partial(parse_link, request.emulate_link, written, hint), None)


@public
def show(folder: File) -> MeasureResult:
    """Reads what was measured in a folder, or in one run of it, as `scalewise show` does."""
    asked = Arguments()
    path = asked.path("folder", folder)
    asked.check()
    return measured_in(path)


@public
def diagnose(
    script: File,
    args: Sequence[Word] = (),
    *,
    ranks: int = 2,
    plain: bool = False,
    on: Literal["cpu"] | None = None,
    device: DeviceChoice = "auto",
    limit: float = 60.0,
    stall: float = 20.0,
    replay: bool = True,
    in_place: bool = False,
    change: str = PLAIN,
    out: File = "runs",
    reporter: Reporter = SILENT,
) -> DiagnoseResult:
    """Finds what is wrong with a script, with proof and price, as `scalewise doctor` does."""
    from scalewise.jobs.diagnose import DiagnoseRequest, diagnose_script

    asked = Arguments()
    request = DiagnoseRequest(
        **asked.script(script, args, device, limit, stall, out, in_place),
        ranks=asked.count("ranks", ranks, MOST_RANKS),
        plain=asked.flag("plain", plain),
        on_cpu=on is not None and asked.choice("on", on, Literal["cpu"]) == "cpu",
        replays=asked.flag("replay", replay),
        changes=asked.attempt(partial(parse_changes, change), ()),
    )
    if request.on_cpu and request.device == "cuda":
        asked.wrong("on='cpu' and device='cuda' contradict each other.", "Leave one of them out.")
    asked.attempt(partial(check_script, request.script), None)
    asked.check()
    return DiagnoseResult(diagnose_script(request, reporter))


@public
def parity(
    script: File,
    args: Sequence[Word] = (),
    *,
    ranks: int = 2,
    steps: int = 6,
    against: File | None = None,
    resume: bool = False,
    resume_args: Sequence[Word] = (),
    causes: bool = True,
    on: Literal["cpu"] | None = None,
    device: DeviceChoice = "auto",
    limit: float = 120.0,
    stall: float = 30.0,
    in_place: bool = False,
    change: str = PLAIN,
    out: File = "runs",
    reporter: Reporter = SILENT,
) -> ParityResult:
    """Tells whether several ranks compute what one computes, as `scalewise parity` does."""
    from scalewise.jobs.parity import parity as compared
    from scalewise.jobs.parity_runs import MOST_STEPS, ParityRequest

    asked = Arguments()
    request = ParityRequest(
        **asked.script(script, args, device, limit, stall, out, in_place),
        ranks=asked.count("ranks", ranks, MOST_RANKS),
        steps=asked.count("steps", steps, MOST_STEPS),
        against=None if against is None else asked.path("against", against),
        resume=asked.flag("resume", resume),
        resume_args=asked.words("resume_args", resume_args),
        causes=asked.flag("causes", causes),
        on_cpu=on is not None and asked.choice("on", on, Literal["cpu"]) == "cpu",
        changes=asked.attempt(partial(parse_changes, change), ()),
    )
    if request.resume and request.against is not None:
        asked.wrong("resume=True and against are two questions.", "Ask one of them.")
    if request.ranks < 2 and not request.resume and request.against is None:
        asked.wrong("ranks=1 compares one rank with itself.", "Give two or more.")
    if request.on_cpu and request.device == "cuda":
        asked.wrong("on='cpu' and device='cuda' contradict each other.", "Leave one of them out.")
    for one in filter(None, (request.script, request.against)):
        asked.attempt(partial(check_script, one), None)
    asked.check()
    return ParityResult(compared(request, reporter))


@public
def rehearse(
    script: File,
    args: Sequence[Word] = (),
    *,
    ranks: int | Sequence[int] = (2, 8, 64),
    link: str | None = None,
    per_node: int | None = None,
    scaling: Scaling = "script",
    memory: str | None = None,
    price: float | None = None,
    steps: int | None = None,
    also: Sequence[str] = (),
    check: bool = True,
    advice: bool = True,
    device: DeviceChoice = "auto",
    limit: float = 120.0,
    stall: float = 20.0,
    in_place: bool = False,
    computing_from: File | None = None,
    keep_computing: File | None = None,
    out: File = "runs",
    reporter: Reporter = SILENT,
) -> RehearseResult:
    """Predicts what a script would do on these numbers of ranks, as `scalewise rehearse` does."""
    from scalewise.jobs import rehearse_request as read
    from scalewise.jobs.rehearse import concluded
    from scalewise.jobs.rehearse import rehearse as rehearsed

    asked = Arguments()
    numbers = tuple(sorted(asked.counts("ranks", ranks, read.MOST_RANKS)))
    nodes = None if per_node is None else asked.count("per_node", per_node)
    if price is not None and steps is None:
        asked.wrong("price is there and steps is not.", "Say how many steps the whole training has.")
    request = read.RehearseRequest(
        **asked.script(script, args, device, limit, stall, out, in_place),
        ranks=numbers,
        link=None if link is None else asked.attempt(partial(read.asked_link, str(link), nodes, numbers[-1]), None),
        measured_asked=link is not None and read.is_measured(str(link)),
        per_node=nodes,
        scaling=asked.choice("scaling", scaling, Scaling),
        memory_bytes=asked.attempt(partial(read.size_in_bytes, memory and str(memory), in_python), None),
        price_per_hour=None if price is None else asked.number("price", price),
        steps=None if steps is None else asked.count("steps", steps),
        check=asked.flag("check", check) and computing_from is None,
        advice=asked.flag("advice", advice),
        also=tuple(asked.attempt(partial(read.words_of, text, in_python), ()) for text in asked.words("also", also)),
        computing_from=None if computing_from is None else asked.path("computing_from", computing_from),
        keep_computing=None if keep_computing is None else asked.path("keep_computing", keep_computing),
    )
    asked.attempt(partial(check_script, request.script), None)
    asked.check()
    answer = rehearsed(request, reporter)
    return RehearseResult(answer, concluded(answer, request))


@public
def compare(a: File | MeasureResult, b: File | MeasureResult, *, allow: Sequence[str] = ()) -> CompareResult:
    """Tells whether B is faster than A, as `scalewise compare` does: two folders, or two results of `measure`."""
    from scalewise.jobs.compare import compare as compared

    asked = Arguments()
    sides = [asked.path(name, getattr(side, "folder", side)) for name, side in (("a", a), ("b", b))]
    differences = asked.words("allow", allow)
    asked.check()
    return CompareResult(compared(sides[0], sides[1], differences))
