"""Whether a rank fits and the largest batch that does, from rehearsals of several batches or from an inspected one."""

from dataclasses import replace

import pytest

from rehearsal_specimen import GIB, answer_of
from scalewise.predict.answer import AtRanks, RehearsalAnswer
from scalewise.predict.predicted_memory import memory_rows
from scalewise.predict.prediction import predict
from scalewise.predict.scaled_batches import scaled_batches
from scalewise.predict.tape import Compute, Issue, Tape
from scalewise.records.inspection import MemoryPartsRow
from taped_steps import MIB, ddp_tape, rehearsal


def test_replicas_of_any_number_tell_what_a_sample_needs():
    rows = memory_rows(answer_of(strong=True), 2 * GIB)
    assert [row.fits for row in rows] == [True, True, True]
    assert rows[0].line.fixed_bytes == pytest.approx(GIB, rel=1e-6)
    assert rows[0].line.bytes_per_sample == pytest.approx(4 * MIB, rel=1e-6)
    assert {row.largest_batch for row in rows} == {256}
    assert rows[0].samples == 32 and "8 and 32 samples" in rows[0].line.how


def test_what_does_not_fit_is_said_to_and_its_largest_batch_may_be_none_at_all():
    rows = memory_rows(answer_of(strong=True), 0.5 * GIB)
    assert [row.fits for row in rows] == [False] * 3
    assert rows[0].largest_batch == 0


def test_one_batch_has_no_largest_and_says_why():
    (row,) = memory_rows(answer_of((8,)), 2 * GIB)
    assert row.fits and row.line is None and row.largest_batch is None
    assert "only one batch" in row.why_not


def test_without_a_capacity_nothing_is_said_of_fitting():
    row = memory_rows(answer_of(strong=True), None)[0]
    assert row.fits is None and row.largest_batch is None and "not known" in row.why_not


PARTS = MemoryPartsRow(3, 200 * MIB, 200 * MIB, 100 * MIB, 128 * MIB, 0, 40 * MIB, 700 * MIB, {"activations": 9 * MIB})


def test_an_inspected_rehearsal_tells_it_too():
    row = memory_rows(answer_of((8,), parts=PARTS), 4 * GIB)[0]
    beside = row.peak_bytes - 700 * MIB
    assert row.line.bytes_per_sample == pytest.approx(2 * MIB), "all activations, not only those alive at the peak"
    assert row.line.fixed_bytes == pytest.approx(beside + 540 * MIB)
    assert row.line.bytes_with(64) == row.peak_bytes, "nothing is predicted below what was seen"
    assert row.line.bytes_with(row.largest_batch) <= 4 * GIB < row.line.bytes_with(row.largest_batch + 1)
    assert "inspected" in row.line.how


def test_less_than_what_was_seen_fits_no_batch():
    assert memory_rows(answer_of((8,), parts=PARTS), GIB)[0].largest_batch == 0


def sharded(ranks, samples):
    tape = Tape((Issue(0, "all_gather", 8.0, ranks), Compute(1e-3, "forward")), ranks, 0, samples)
    one = rehearsal(tape, peak_bytes=int(8 * GIB / ranks + samples * MIB))
    return AtRanks(one, predict(one, answer_of((2,)).link))


def test_shards_need_rehearsals_of_the_same_number_of_ranks():
    plain = answer_of((2,))
    answer = RehearsalAnswer("train.py", (), "cpu", plain.link, at=(sharded(2, 32), sharded(8, 8)))
    assert [row.line for row in memory_rows(answer, GIB)] == [None, None]
    rows = memory_rows(replace(answer, others=(sharded(8, 64).rehearsal,)), 2 * GIB)
    assert rows[0].line is None
    assert rows[1].line.fixed_bytes == pytest.approx(GIB, rel=1e-6)
    assert rows[1].largest_batch == 1024


def test_on_cores_what_gloo_itself_holds_of_shards_is_a_guess():
    answer = RehearsalAnswer("train.py", (), "cpu", answer_of((2,)).link, at=(sharded(2, 32),))
    assert any("gloo" in guess for guess in memory_rows(answer, GIB)[0].guesses)
    assert not any("gloo" in guess for guess in memory_rows(replace(answer, device="cuda"), GIB)[0].guesses)
    assert not any("gloo" in guess for guess in memory_rows(answer_of((2,)), GIB)[0].guesses)


def test_a_larger_batch_that_needs_no_more_has_no_limit_that_can_be_told():
    flat = answer_of((8,), others=(rehearsal(ddp_tape(8, 16.0), peak_bytes=int(GIB + 64 * 4 * MIB)),))
    row = memory_rows(flat, 2 * GIB)[0]
    assert row.largest_batch is None and "did not need more" in row.why_not


def test_far_beyond_what_was_rehearsed_the_largest_batch_is_a_guess():
    on_gpu = answer_of(strong=True, device="cuda")
    near, far = (memory_rows(on_gpu, capacity)[0] for capacity in (2 * GIB, 20 * GIB))
    assert not any("far beyond" in guess for guess in near.guesses)
    assert any("4.00 MiB a sample far beyond 32" in guess for guess in far.guesses)


def test_on_cores_tensors_that_were_looked_into_tell_more_than_processes():
    answer = answer_of(strong=True, parts=PARTS)
    assert "inspected" in memory_rows(answer, GIB)[0].line.how
    on_gpu = replace(answer, device="cuda")
    assert "samples in a micro-batch" in memory_rows(on_gpu, GIB)[0].line.how
    flat = tuple(replace(at, rehearsal=replace(at.rehearsal, peak_bytes=GIB)) for at in answer.at)
    assert "inspected" in memory_rows(replace(on_gpu, at=flat), GIB)[0].line.how, "a peak that stays tells nothing"


def test_on_cores_the_heap_is_a_guess():
    assert "heap" in memory_rows(answer_of(strong=True), 2 * GIB)[0].guesses[0]


def test_on_gpus_what_is_there_beside_tensors_is_a_guess_of_the_peak_and_of_the_largest_batch():
    row = memory_rows(answer_of(strong=True, device="cuda"), 2 * GIB)[0]
    assert "CUDA context, NCCL's buffers and fragmentation" in row.peak_guesses[0]
    assert row.peak_guesses[0] in row.guesses
    on_cores = memory_rows(answer_of(strong=True), 2 * GIB)[0]
    assert on_cores.peak_guesses == () and not any("CUDA" in guess for guess in on_cores.guesses)


def asked_as(scaling: str, answer: RehearsalAnswer) -> RehearsalAnswer:
    """As the command line makes it of rehearsals with the script's own batches."""
    own = {at.ranks: at.rehearsal for at in answer.at}
    made = scaled_batches(own, scaling, answer.others, 64.0)
    at = [
        AtRanks(one, predict(one, answer.link), None, own[ranks] if ranks in made.other_batch else None)
        for ranks, one in made.found.items()
    ]
    return replace(answer, at=tuple(at))


@pytest.mark.parametrize("strong", [True, False], ids=["strong script", "weak script"])
@pytest.mark.parametrize(
    "known", [{"parts": PARTS}, {"others": (rehearsal(ddp_tape(2, 16.0)),)}], ids=["parts", "others"]
)
def test_a_sample_and_the_fixed_part_cost_the_same_whatever_scaling_is_asked_for(strong, known):
    answer = answer_of((2,), strong=strong, **known)
    rows = {scaling: memory_rows(asked_as(scaling, answer), 8 * GIB)[0] for scaling in ("script", "strong", "weak")}
    assert rows["script"].largest_batch
    assert {row.line for row in rows.values()} == {rows["script"].line}
    assert {row.largest_batch for row in rows.values()} == {rows["script"].largest_batch}
    assert [rows["strong"].samples, rows["weak"].samples] == [32, 64]
