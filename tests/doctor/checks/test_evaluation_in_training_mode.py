"""Tests of the check for evaluations in training mode."""

from dataclasses import replace

import pytest
from case_factory import Sheet, make_case, make_loader
from data_sheets import replay

from scalewise.doctor.case import Abstain
from scalewise.doctor.checks.evaluation_in_training_mode import examine, settle
from scalewise.records.examination import MeasuredRow
from scalewise.records.notes import TrainingModeNote

LINE = "logits = self.model(x)"


def trained(steps=4):
    return Sheet().row(make_loader(0)).row(make_loader(1)).windows(steps)


def evaluated(sheet, digests, loader=1, **values):
    """One pass in training mode for each digest, fed by a loader unless that is None."""
    for digest in digests:
        if loader is not None:
            sheet.batch(loader=loader)
        sheet.add(TrainingModeNote, line=LINE, digest=digest, **values)
        sheet.forward(trains=False, line=LINE, digest=None)
    return sheet


def test_two_batches_of_another_loader_are_an_evaluation():
    (finding,) = examine(make_case(evaluated(trained(), ["a", "b"], dropouts=2), ranks=2))
    assert finding.severity == "wrong" and finding.proof == "observed"
    assert "2 dropout layers active in 2 passes" in finding.sentence
    assert finding.where.text == LINE and finding.fix.startswith("self.model.eval()")


def test_statistics_that_take_up_the_test_data_are_named():
    (finding,) = examine(make_case(evaluated(trained(), ["a", "b"], dropouts=0, batch_norms=3)))
    assert "3 batch-normalisation layers learning" in finding.sentence
    assert any("running statistics" in fact for fact in finding.evidence)


@pytest.mark.parametrize(
    ("what", "sheet"),
    [
        ("one input again and again", evaluated(trained(), ["a", "a", "a"])),
        ("the training loader", evaluated(trained(), ["a", "b"], loader=0)),
        ("a model that is never trained", evaluated(trained(), ["a", "b"], trained=False)),
        ("one pass between steps", evaluated(evaluated(trained(), ["a"]).windows(2), ["b"]).windows(2)),
        ("an evaluation in evaluation mode", trained().batch(loader=1).forward(trains=False)),
    ],
)
def test_nothing_is_said_of(what, sheet):
    assert examine(make_case(sheet)) == (), what


def alone(digests, rows=8, learnt=("x", "y")):
    sheet = Sheet()
    for digest in learnt:
        sheet.window(batch=False, forward={"row_digests": [[digest]]})
    for digest in digests:
        sheet.add(TrainingModeNote, line=LINE, digest=digest, inputs=[digest])
        sheet.forward(trains=False, rows=rows, digest=None)
    return sheet


def test_without_loaders_it_is_a_suspicion():
    (finding,) = examine(make_case(alone(["a", "b", "c"])))
    assert finding.proof == "suspected" and not finding.counts


def test_rollouts_that_are_trained_on_and_single_observations_are_none():
    assert examine(make_case(alone(["a", "b", "c"], learnt=("b", "x")))) == ()
    assert examine(make_case(alone(["a", "b", "c"], rows=1))) == ()
    assert examine(make_case(alone(["a", "b"]))) == ()


def test_a_script_that_never_evaluates_is_not_judged():
    with pytest.raises(Abstain, match="without gradients"):
        examine(make_case(trained()))


def test_a_replay_prices_how_far_the_outputs_are_off():
    case = make_case(evaluated(trained(), ["a", "b"]))
    (finding,) = examine(case)
    measured = trained().row(MeasuredRow("eval_mode", "output", 0.1)).row(MeasuredRow("eval_mode", "output", 0.3))
    settled = settle(case, finding, replay("eval_mode", case, make_case(measured)))
    assert settled.proof == "replayed" and settled.price.value == pytest.approx(0.2)
    suspected = replace(finding, proof="suspected")
    assert settle(case, suspected, replay("eval_mode", case, make_case(measured))).proof == "suspected"
    equal = make_case(trained().row(MeasuredRow("eval_mode", "output", 0.0)))
    assert settle(case, finding, replay("eval_mode", case, equal)).proof == "suspected"
    assert settle(case, finding, replace(replay("eval_mode", case, equal), trouble="it raised")) == finding
