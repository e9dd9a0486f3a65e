"""The call `scalewise.strategies` from Python, and its result."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from scalewise.agreement.strategy_table import PredictedRow, StrategiesAnswer, StrategyRow
from scalewise.errors import BadRequest
from scalewise.jobs.rehearse_request import MOST_RANKS, asked_link, is_measured, size_in_bytes
from scalewise.jobs.reporter import SILENT, Reporter
from scalewise.jobs.requests import Arguments, in_python, public
from scalewise.jobs.strategies import strategies as compared
from scalewise.jobs.strategy_predictions import PredictionRequest
from scalewise.jobs.strategy_runs import ENOUGH_STEPS, REPEATS, StrategiesRequest, chosen_arms
from scalewise.plan.adhoc import check_script
from scalewise.plan.experiment import DeviceChoice


@dataclass(frozen=True, repr=False)
class StrategiesResult:
    """The table of a script under every strategy, with the verdict."""

    answer: StrategiesAnswer

    @property
    def rows(self) -> tuple[StrategyRow, ...]:
        """One rank, then the strategies, the fastest first; those without numbers have a reason."""
        return self.answer.rows

    def row(self, name: str) -> StrategyRow:
        """The row of a strategy, by its name in the table or as a change: `DDP`, `with_ddp`."""
        found = next((one for one in self.rows if name in (one.name, one.change)), None)
        if found is None:
            raise BadRequest(f"There is no row {name!r}.", f"There are: {', '.join(one.name for one in self.rows)}.")
        return found

    @property
    def sentences(self) -> tuple[str, ...]:
        """The verdict: which is best here and why."""
        return self.answer.sentences

    @property
    def predicted(self) -> tuple[PredictedRow, ...]:
        """The strategies on numbers of ranks that are not here, if some were asked for."""
        return self.answer.predicted

    @property
    def folder(self) -> Path:
        """The folder of the runs."""
        return Path(self.answer.folder)

    def __repr__(self) -> str:
        return f"<{self.answer.script}: {self.sentences[0] if self.sentences else 'nothing measured'}>"

    def _repr_html_(self) -> str:
        from scalewise.report.documents.strategies_document import strategies_document
        from scalewise.report.html import notebook_html

        return notebook_html(strategies_document(self.answer))


@public
def strategies(
    script: str | Path,
    args: Sequence[str | int | float | Path] = (),
    *,
    ranks: int = 2,
    only: Sequence[str] = (),
    steps: int = ENOUGH_STEPS,
    repeat: int = REPEATS,
    parity: bool = True,
    causes: bool = True,
    predict: Sequence[int] = (),
    link: str | None = None,
    per_node: int | None = None,
    memory: str | None = None,
    device: DeviceChoice = "auto",
    limit: float = 120.0,
    stall: float = 30.0,
    in_place: bool = False,
    out: str | Path = "runs",
    reporter: Reporter = SILENT,
) -> StrategiesResult:
    """Trains a script for one device under every strategy of parallel training, as `scalewise strategies` does."""
    asked = Arguments()
    chosen = asked.words("only", only)
    numbers = asked.counts("predict", predict, MOST_RANKS) if predict else ()
    request = StrategiesRequest(
        **asked.script(script, args, device, limit, stall, out, in_place),
        ranks=asked.count("ranks", ranks, least=1 if predict else 2),
        only=chosen,
        steps=asked.count("steps", steps),
        repeats=asked.count("repeat", repeat),
        parity=asked.flag("parity", parity),
        causes=asked.flag("causes", causes),
        predict=asked.attempt(lambda: _prediction(numbers, link, per_node, memory), None),
    )
    asked.attempt(partial(chosen_arms, chosen), ())
    asked.attempt(partial(check_script, request.script), None)
    asked.check()
    return StrategiesResult(compared(request, reporter))


def _prediction(
    ranks: tuple[int, ...], link: str | None, per_node: int | None, memory: str | None
) -> PredictionRequest | None:
    if not ranks:
        return None
    found = asked_link(link, per_node, max(ranks))
    size = size_in_bytes(memory, in_python)
    return PredictionRequest(tuple(sorted(ranks)), found, is_measured(link), per_node, size)
