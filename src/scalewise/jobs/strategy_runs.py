"""The runs of a comparison of strategies: what was asked for, where they are made, and how they are made and read."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from scalewise.agreement.strategy_table import ALONE
from scalewise.errors import BadRequest
from scalewise.jobs.measure import Here, Where, planned, suite_folder
from scalewise.jobs.reporter import PartOfAll, Reporter
from scalewise.jobs.requests import ScriptRequest
from scalewise.jobs.strategy_predictions import PredictionRequest
from scalewise.launch.campaign import Interrupts, run_campaign
from scalewise.plan.parity_specs import SEEDED
from scalewise.plan.words import changes_text, parse_changes
from scalewise.records.changes import declared, known_changes
from scalewise.records.examination import AbstainedRow
from scalewise.records.folder import SuiteFolder
from scalewise.records.load import Run, load
from scalewise.records.outcome import Outcome
from scalewise.records.spec import Change, Inspected, RunSpec

ENOUGH_STEPS = 40
REPEATS = 3
WITHOUT = Change("remove_communication")


@dataclass(frozen=True)
class StrategiesRequest(ScriptRequest):
    """The script whose strategies are compared, and the options for it."""

    ranks: int = 2
    only: tuple[str, ...] = ()  # names of strategies; empty: all
    steps: int = ENOUGH_STEPS
    repeats: int = REPEATS
    parity: bool = True
    causes: bool = True
    predict: PredictionRequest | None = None  # also on numbers of ranks that are not here


@dataclass(frozen=True)
class StrategyArm:
    """One strategy: its name in the table, and the change that makes it."""

    name: str
    changes: tuple[Change, ...]

    @property
    def text(self) -> str:
        """The change as it is written."""
        return changes_text(self.changes) if self.changes else ""

    @property
    def slug(self) -> str:
        """The beginning of its runs' names."""
        text = self.text or "one-rank"
        return "".join(letter if letter.isalnum() else "-" for letter in text)


ONE_RANK = StrategyArm(ALONE, ())


def known_strategies() -> dict[str, str]:
    """Every strategy by its name in tables, with the change that makes it; files of `watch/changes` name their own."""
    found = {}
    for name in known_changes():
        found.update(declared(name).strategies)
    return found


def chosen_arms(only: Sequence[str]) -> tuple[StrategyArm, ...]:
    """The strategies of these names or changes, or all; raises a BadRequest that names those that there are."""
    known = known_strategies()
    by_word = {
        _letters(word): name for name, text in known.items() for word in (name, text, text.removeprefix("with_"))
    }
    unknown = [word for word in only if _letters(word) not in by_word]
    if unknown:
        raise BadRequest(
            f"There is no strategy {', '.join(map(repr, unknown))}.", f"There are: {'; '.join(known.values())}."
        )
    names = [by_word[_letters(word)] for word in only] or list(known)
    return tuple(StrategyArm(name, parse_changes(known[name])) for name in dict.fromkeys(names))


def _letters(word: str) -> str:
    """The letters and digits of a word: `zero1` is ZeRO-1."""
    return "".join(letter for letter in word.lower() if letter.isalnum())


@dataclass(frozen=True)
class _InWords(PartOfAll):
    """Tells of a strategy that cannot be applied why that is so, in place of how its processes ended."""

    folder: SuiteFolder

    def ended(self, index: int, total: int, spec: RunSpec, outcome: Outcome) -> None:
        """Called when a run has ended."""
        reason = reason_to_abstain(load(self.folder.run(spec.name).path).runs[0]) if spec.changes else ""
        if reason:
            outcome = replace(outcome, sentence=f"not applied, because {reason}", hint="", logs=(), ranks=())
        super().ended(index, total, spec, outcome)


def reason_to_abstain(run: Run) -> str:
    """The reason for which a strategy could not be applied, in a rank's words; empty if there is none."""
    rows = [row for rank in run.ranks for row in rank.examination if isinstance(row, AbstainedRow)]
    return rows[0].reason if rows else ""


@dataclass(frozen=True)
class StrategyRuns:
    """Makes the runs of one comparison in a folder of their own; those of one rank and of several are planned."""

    request: StrategiesRequest
    reporter: Reporter
    here: Here
    folder: SuiteFolder
    alone: RunSpec
    together: RunSpec
    arms: tuple[StrategyArm, ...]

    def timed(self, arm: StrategyArm, repeat: int, *more: Change) -> RunSpec:
        """The spec of a timed run of a strategy, with more changes or without."""
        spec = self._spec(arm)
        name = f"{arm.slug}{'-removed' if more else ''}-r{repeat}"
        return replace(spec, name=name, changes=(*spec.changes, *more), repeat=repeat)

    def inspected(self, arm: StrategyArm) -> RunSpec:
        """The spec of the inspected run of a strategy."""
        return replace(self._spec(arm), name=f"{arm.slug}-inspected", kind=Inspected())

    def make(self, specs: Sequence[RunSpec], before: int, after: int) -> None:
        """Makes runs, of which `before` others were made already and `after` at most are to follow."""
        interrupts = Interrupts()
        with self.reporter.runs("measure") as progress:
            counted = _InWords(progress, before, after, self.folder)
            run_campaign(specs, self.folder, self.here.facts, counted, self.here.servers, interrupts)
        if interrupts.asked:
            raise KeyboardInterrupt

    def load(self, spec: RunSpec) -> Run:
        """Reads a run that was made."""
        return load(self.folder.run(spec.name).path).runs[0]

    def _spec(self, arm: StrategyArm) -> RunSpec:
        spec = self.together if arm.changes else self.alone
        return replace(spec, changes=(*arm.changes, *SEEDED), enough_steps=self.request.steps)


def strategy_runs(request: StrategiesRequest, reporter: Reporter, here: Here) -> StrategyRuns:
    """Plans the runs of one rank and of several, in a folder of their own."""
    suite = request.suite((1, request.ranks))
    suite = replace(suite, name=f"{suite.name}-strategies")
    plan = planned(suite, reporter, here)
    found = {spec.ranks: spec for spec in plan.runs}
    if set(found) != {1, request.ranks}:
        raise BadRequest(f"{request.ranks} ranks cannot run here.", "Use --device cpu, or fewer ranks.")
    folder = suite_folder(suite, plan, here.facts, Where(request.out, again=True))
    alone = replace(found[1], mode="python")  # nothing may tell the script of ranks
    return StrategyRuns(request, reporter, here, folder, alone, found[request.ranks], chosen_arms(request.only))
