"""Tests of what ranks are to each other, and of what follows for samples, speedups and doubts."""

from dataclasses import replace

import pytest

from factories import make_model, make_run, make_suite
from scalewise.analysis.relation import BY_AVERAGING, BY_REDUCING, relation_of
from scalewise.analysis.series import series
from scalewise.analysis.summary import summarise
from scalewise.plan.words import parse_changes
from scalewise.records.rows import ParametersRow, TroubleRow
from scalewise.records.spec import Rehearsed
from scalewise.records.traffic import StepTraffic, Traffic

PARAMETERS = 4000  # bytes of the model of the factories
STEPS = 40
SILENT = StepTraffic()


def run_of(*steps: StepTraffic, ranks: int = 2, model: dict | None = None, ends=(), losses=(), **changes):
    """A run whose ranks all show these steps, repeated to as many as it makes."""
    run = make_run([0.01] * STEPS, ranks, model=model, **changes)
    counts: dict[StepTraffic, int] = {}
    for index in range(STEPS):
        step = steps[index % len(steps)]
        counts[step] = counts.get(step, 0) + 1
    records = []
    for rank, record in enumerate(run.ranks):
        record = replace(record, traffic=Traffic(counts))
        if ends:
            record = replace(record, parameters=ParametersRow(4, ends[rank], 1.0))
        if losses:
            record = replace(record, steps=tuple(replace(one, loss=losses[rank]) for one in record.steps))
        records.append(record)
    return replace(run, ranks=tuple(records))


def with_models(run, *models):
    """The run with a description of each rank's own."""
    records = [replace(rank, model=make_model(**one)) for rank, one in zip(run.ranks, models, strict=True)]
    return replace(run, ranks=tuple(records))


def test_one_rank_is_alone():
    assert relation_of(run_of(SILENT, ranks=1)).kind == "alone"


@pytest.mark.parametrize(
    ("steps", "kind", "how"),
    [
        ([StepTraffic(reduced=PARAMETERS)], "data parallel", "DistributedDataParallel"),
        ([StepTraffic(update=PARAMETERS)], "data parallel", BY_REDUCING),
        ([StepTraffic(update=PARAMETERS // 10)], "data parallel", BY_REDUCING),  # compressed
        ([StepTraffic(backward=PARAMETERS)], "data parallel", BY_REDUCING),  # by hooks on gradients
        ([StepTraffic(sent=PARAMETERS, messages=frozenset({"update"}))], "data parallel", BY_REDUCING),  # a ring
        ([*[SILENT] * 9, StepTraffic(between=PARAMETERS)], "data parallel", BY_AVERAGING),  # local SGD
        ([StepTraffic(forward=600, backward=600)], "tensor parallel", "collectives in forward"),
        ([StepTraffic(messages=frozenset({"forward", "update"}))], "pipeline", "send and recv"),
        ([SILENT], "apart", ""),
        ([StepTraffic(update=8)], "apart", ""),  # a loss that is averaged for the log
        ([StepTraffic(forward=16, between=200)], "apart", ""),  # an evaluation now and then
    ],
)
def test_what_is_exchanged_tells_what_the_ranks_are(steps, kind, how):
    relation = relation_of(run_of(*steps))

    assert (relation.kind, relation.how) == (kind, how)
    assert relation.evidence


def test_batch_norm_in_step_with_ddp_is_still_data_parallel():
    assert relation_of(run_of(StepTraffic(forward=600, backward=600, reduced=PARAMETERS))).kind == "data parallel"


def test_fsdp_is_sharded_and_every_rank_has_samples_of_its_own():
    run = run_of(StepTraffic(forward=PARAMETERS), model={"wrapper": "FSDP", "averaged_over": (0, 1)})

    relation = relation_of(run)
    assert (relation.kind, relation.batches, relation.feeding) == ("sharded", 2, (0, 1))
    assert series(run).global_samples() == 64


def test_ranks_that_split_parameters_share_their_samples():
    run = run_of(SILENT, model={"split_over": (0, 1), "placements": ("Shard(dim=0)",)})

    relation = relation_of(run)
    assert (relation.kind, relation.batches, relation.feeding) == ("tensor parallel", 1, (0,))
    assert "Shard(dim=0)" in relation.evidence
    assert series(run).global_samples() == 32, "each of two ranks was fed the same 32"


def test_ranks_that_split_parameters_but_not_the_batch_tell_no_samples():
    split = {"split_over": (0, 1), "placements": ("Shard(dim=0)",)}
    relation = relation_of(run_of(SILENT, model=split, losses=(1.0, 1.2)))
    assert (relation.kind, relation.batches) == ("tensor parallel", None)
    assert "whose losses differ" in relation.evidence
    assert series(run_of(SILENT, model=split, losses=(1.0, 1.2))).global_samples() is None

    assert relation_of(run_of(SILENT, model=split, losses=(1.0, 1.0 + 1e-7))).batches == 1, "roundings"
    rehearsed = run_of(SILENT, model=split, losses=(1.0, 1.2), kind=Rehearsed(2, 0, 2))
    assert relation_of(rehearsed).batches == 1, "a rehearsed rank's loss lacks what others would have sent"


def test_fsdp_over_tensor_parallel_counts_each_pair_once():
    run = with_models(
        run_of(StepTraffic(forward=PARAMETERS), ranks=4),
        *({"wrapper": "FSDP", "averaged_over": one, "split_over": two} for one, two in [
            ((0, 2), (0, 1)), ((1, 3), (0, 1)), ((0, 2), (2, 3)), ((1, 3), (2, 3)),
        ]),
    )  # fmt: skip

    relation = relation_of(run)
    assert (relation.kind, relation.batches, relation.feeding) == ("tensor parallel", 2, (0, 2))


def test_a_pipeline_is_fed_at_its_first_stage():
    run = run_of(StepTraffic(messages=frozenset({"forward", "backward"}), rows=128))

    assert relation_of(run).feeding == (0,)
    assert series(run).global_samples() == 128, "all pieces of the batch"


def test_a_pipeline_whose_pieces_cannot_be_told_tells_no_samples():
    run = run_of(StepTraffic(messages=frozenset({"forward", "backward"})))

    assert series(run).global_samples() is None
    assert "cannot be told" in relation_of(run).evidence


def test_a_pipeline_whose_gradients_are_reduced_as_well_tells_no_samples():
    run = run_of(StepTraffic(reduced=PARAMETERS, messages=frozenset({"forward"})), ranks=4)

    assert relation_of(run).batches is None
    assert series(run).global_samples() is None
    row = summarise(make_suite(run)).experiments[0].rows[0]
    assert row.samples_per_second is None and row.step_seconds is not None


def test_ranks_that_may_share_out_a_batch_in_forward_tell_no_samples_and_get_no_speedup():
    step = StepTraffic(reduced=PARAMETERS, forward=4096, parted=4096)
    one, two = run_of(SILENT, ranks=1), run_of(step)

    relation = relation_of(two)
    assert (relation.kind, relation.batches) == ("data parallel", None) and "shares a batch" in relation.evidence
    assert series(two).global_samples() is None
    row = summarise(make_suite(one, two)).experiments[0].rows[1]
    assert row.samples_per_second is None and row.step_seconds is not None
    assert row.scaling is None or row.scaling.speedup is None


def test_stages_together_are_the_model_that_one_rank_trains():
    alone = run_of(SILENT, ranks=1, model={"parameters": 1000}, samples_in_all=32)
    staged = run_of(
        StepTraffic(messages=frozenset({"forward"}), rows=32), model={"parameters": 500, "shapes_digest": "half"}
    )

    row = summarise(make_suite(alone, staged)).experiments[0].rows[1]
    assert row.scaling.kind == "strong" and row.scaling.refusal == ""


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"changes": parse_changes("remove_communication")}, "on purpose"),
        ({"model": {"parameter_bytes": 0}}, "not seen"),
    ],
)
def test_what_cannot_be_judged_is_unknown_and_says_why(changes, words):
    relation = relation_of(run_of(SILENT, **changes))

    assert relation.kind == "unknown" and words in relation.evidence


def test_a_watcher_that_failed_at_a_collective_calls_nobody_apart():
    run = run_of(SILENT)
    run = replace(run, ranks=(replace(run.ranks[0], trouble=(TroubleRow("collective", "boom"),)), run.ranks[1]))

    assert relation_of(run).kind == "unknown"


def test_a_run_without_events_calls_nobody_apart():
    assert relation_of(make_run([0.01] * STEPS, 2)).kind == "unknown"


def test_one_rank_that_trains_beside_others_that_do_not_is_not_called_apart():
    run = run_of(SILENT)
    records = (run.ranks[0], replace(run.ranks[1], steps=(), traffic=Traffic()))

    relation = relation_of(replace(run, ranks=records))
    assert relation.kind == "unknown" and "one of 2 ranks made steps" in relation.evidence


def test_one_step_is_not_enough_to_call_ranks_apart():
    run = run_of(SILENT)
    records = tuple(replace(rank, traffic=Traffic({SILENT: 1})) for rank in run.ranks)

    assert relation_of(replace(run, ranks=records)).kind == "unknown"


def test_parameters_that_stay_equal_on_different_losses_were_exchanged_unseen():
    assert relation_of(run_of(SILENT, ends=(1.5, 1.5), losses=(0.3, 0.4))).kind == "unknown"
    assert relation_of(run_of(SILENT, ends=(1.5, 1.5), losses=(0.3, 0.3))).kind == "apart", "the same training twice"
    assert relation_of(run_of(SILENT, ends=(1.5, 2.5), losses=(0.3, 0.4))).kind == "apart"
    unread = run_of(SILENT, ends=(1.5, 1.5), step={"loss": None})
    assert relation_of(unread).kind == "unknown", "whether the losses differ is not known"


def test_a_rehearsal_is_judged_for_the_ranks_it_stands_for():
    run = run_of(SILENT, ranks=1, model={"split_over": (0, 1, 2, 3)}, kind=Rehearsed(8, 0, 8))

    assert (relation_of(run).kind, relation_of(run).batches) == ("tensor parallel", 2)


def test_ranks_apart_get_no_speedup_and_a_doubt():
    alone, apart = run_of(SILENT, ranks=1), run_of(SILENT)
    analysis = summarise(make_suite(alone, apart))
    row = analysis.experiments[0].rows[1]

    assert row.scaling.speedup is None and "train apart" in row.scaling.refusal
    (caveat,) = (one for one in row.caveats if one.name == "ranks train apart")
    assert caveat.severity == "doubt"
    assert "in any of 40 steps; this is 2 trainings, not a speedup" in caveat.evidence
    assert analysis.doubtful


def test_ranks_that_exchange_get_their_speedup():
    row = summarise(
        make_suite(run_of(SILENT, ranks=1), run_of(StepTraffic(reduced=PARAMETERS)))
    ).experiments[0].rows[1]  # fmt: skip

    assert row.scaling.speedup is not None
    assert not [one for one in row.caveats if one.name == "ranks train apart"]
