"""The verdict on strategies says which is best only where the numbers say so."""

from dataclasses import replace

from scalewise.agreement.strategy_table import (
    ALONE,
    PredictedRow,
    StrategiesAnswer,
    StrategyParity,
    StrategyRow,
    ordered,
    speedup_over,
)
from scalewise.analysis.estimate import Estimate
from scalewise.report.documents.strategies_document import strategies_document

SAMPLES = 64


def seconds(value: float, reach: float = 0.02) -> Estimate:
    return Estimate(value, value * (1 - reach), value * (1 + reach), 100, 3, "medians", 0.95, positive=True)


BASE = StrategyRow(
    ALONE, "", "measured", step=seconds(0.1), samples_per_second=seconds(SAMPLES / 0.1), peak_bytes=4 << 20
)


def row(name: str, step: float, reach: float = 0.02, peak: int = 8 << 20, parity: str = "same") -> StrategyRow:
    found = seconds(step, reach)
    return StrategyRow(
        name,
        name.lower(),
        "measured",
        ranks=2,
        step=found,
        samples_per_second=seconds(SAMPLES / step, reach),
        speedup=speedup_over(BASE, found),
        peak_bytes=peak,
        parity=StrategyParity(parity, f"{name} computes something"),  # type: ignore[arg-type]
    )


def answer(
    *rows: StrategyRow, predicted: tuple[PredictedRow, ...] = (), memory: float | None = None
) -> StrategiesAnswer:
    return StrategiesAnswer(
        "train.py", (), 2, "cpu", 40, 3, ordered((BASE, *rows)), predicted, "nvlink4", memory, seconds=1.0
    )


def test_rows_are_ordered_by_throughput_and_those_without_numbers_come_last():
    rows = (
        StrategyRow("C", "c", "abstained", "it does not fit"),
        StrategyRow("D", "d", "failed", "it raised"),
        row("B", 0.07),
        row("A", 0.06),
    )
    assert [one.name for one in answer(*rows).rows] == [ALONE, "A", "B", "D", "C"]


def test_a_clear_order_is_told_with_how_sure_it_is():
    told = answer(row("A", 0.06), row("B", 0.07)).sentences
    assert told[0].startswith(
        "A is the fastest of 2 strategies on 2 ranks, 1.17 times B (more than 99 % sure): 1.67 times"
    )
    assert told[1] == "Both compute what one rank computes, up to rounding."


def test_an_order_within_the_error_is_not_told():
    told = answer(row("A", 0.060, 0.1), row("B", 0.062, 0.1)).sentences[0]
    assert told.startswith("Cannot be told which is the fastest of 2 strategies on 2 ranks: A or B (")


def test_a_speedup_whose_interval_holds_one_is_not_told_as_one():
    told = " ".join(answer(row("A", 0.098, 0.1)).sentences)
    assert "whether it beats one rank cannot be told (1.02 times" in told


def test_one_rank_that_is_faster_is_named_first():
    assert answer(row("A", 0.3)).sentences[0] == "One rank alone is faster than 2 ranks under any strategy."


def test_a_strategy_that_computes_something_else_is_named():
    told = answer(row("A", 0.06, parity="differs"), row("B", 0.07)).sentences
    assert "A does not compute what one rank computes." in told
    told = answer(row("A", 0.06), row("B", 0.07, parity="differs")).sentences
    assert "Not what one rank computes: B." in told


def test_less_memory_is_told_with_its_price():
    told = " ".join(answer(row("A", 0.06), row("B", 0.12, peak=2 << 20)).sentences)
    assert (
        "B needs the least memory: 2.00 MiB of a rank where A needs 8.00 MiB, and its step is 2.00 times as long."
        in told
    )


def test_nothing_applied_is_told():
    told = answer(StrategyRow("A", "a", "abstained", "no")).sentences
    assert told == ("No strategy could be applied on 2 ranks; the reasons are in the table.",)


def test_predictions_say_what_fits_and_which_is_fastest():
    def at(name: str, step: float, fits: bool) -> PredictedRow:
        return PredictedRow(name, name, 8, "", seconds(step), seconds(1 / step), "computing", 1 << 30, fits)

    fast, slow = at("A", 0.01, False), at("B", 0.02, True)
    told = answer(row("A", 0.06), predicted=(fast, slow), memory=80 * 2.0**30).sentences[-1]
    assert told == "On 8 ranks (predicted): B is the only one that fits; 1 of 2 do not fit in 80.0 GiB."
    told = answer(row("A", 0.06), predicted=(replace(fast, fits=True), slow), memory=8e9).sentences[-1]
    assert told == "On 8 ranks (predicted): A is the fastest, 2.00 times B (more than 99 % sure)."
    told = answer(row("A", 0.06), predicted=(replace(fast, step=None, reason="no"),)).sentences[-1]
    assert told == "On 8 ranks (predicted): nothing can be predicted; the reasons are in the table."
    told = answer(row("A", 0.06), predicted=(fast,), memory=8e9).sentences[-1]
    assert told == "On 8 ranks (predicted): no strategy fits in 7.45 GiB of a device."


def test_the_page_has_every_row_and_reason_and_the_json_the_verdict():
    found = answer(
        row("A", 0.06), StrategyRow("C", "c", "abstained", "it does not fit"), row("B", 0.07, parity="differs")
    )
    page = str(strategies_document(found))
    assert all(
        text in page for text in ("not applied, because it does not fit.", "B computes something", "Each strategy")
    )
    assert found.as_json()["verdict"] == list(found.sentences)
