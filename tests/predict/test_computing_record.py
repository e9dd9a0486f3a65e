import json
from dataclasses import replace
from statistics import median

import pytest

from factories import make_run
from scalewise.errors import BadRequest
from scalewise.jobs.rehearse_record import from_record, record_asked
from scalewise.jobs.rehearse_request import RehearseRequest
from scalewise.plan.python_file import script_digest
from scalewise.predict.computing_record import (
    ComputingRecord,
    RecordedRank,
    as_rehearsed,
    different,
    keep_record,
    kept_rank,
    kept_record,
    mismatches,
)
from scalewise.predict.prediction import predict
from taped_steps import SLOW, ddp_tape, rehearsal


def recorded_rank(ranks: int = 8, **changes) -> RecordedRank:
    one = kept_rank(make_run([0.01] * 5), rehearsal(ddp_tape(ranks)))
    return replace(one, **{"shapes_digest": "abc", **changes})


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "train.py"
    path.write_text("print('trains')\n")
    return path


def record_of(script, *found: RecordedRank, args=("--batch", "64")) -> ComputingRecord:
    versions = {"torch": "2.13.0"}
    digest = script_digest(script)
    return ComputingRecord(1.79e9, versions, "cuda", "NVIDIA A100", 0, script.name, digest, args, found)


def test_a_record_predicts_what_its_rehearsal_did(script, tmp_path):
    own = rehearsal(ddp_tape(8))
    record = record_of(script, kept_rank(make_run([0.01] * 5), own))
    keep_record(tmp_path / "kept" / "a100.json", record)
    read = kept_record(tmp_path / "kept" / "a100.json")
    assert read == record
    again = as_rehearsed(read, read.found[0])
    assert [tape.compute_seconds for tape in again.tapes] == pytest.approx([tape.compute_seconds for tape in own.tapes])
    assert predict(again, SLOW).step.value == pytest.approx(predict(own, SLOW).step.value)


def test_the_steps_of_a_record_keep_their_spread(script):
    one = recorded_rank(step_seconds=(0.01, 0.02, 0.05))
    again = as_rehearsed(record_of(script, one), one)
    assert [tape.compute_seconds for tape in again.tapes] == pytest.approx([0.01, 0.02, 0.05])
    assert median(tape.compute_seconds for tape in again.tapes) == pytest.approx(0.02)


def test_steps_that_differ_stay_one_tape(script):
    one = recorded_rank(uneven=True)
    assert as_rehearsed(record_of(script, one), one).tapes == (one.tape,)


def test_a_record_says_where_and_when_it_was_made(script):
    assert record_of(script).where == "one NVIDIA A100 on 2026-09-21, with torch 2.13.0"
    on_cores = replace(record_of(script), device_name="AMD EPYC", cores_per_rank=2)
    assert on_cores.where == "2 cores of AMD EPYC on 2026-09-21, with torch 2.13.0"


def test_another_script_and_other_arguments_are_refused_at_once(script):
    record = record_of(script)
    assert mismatches(record, script, ("--batch", "64")) == []
    script.write_text("print('trains otherwise')\n")
    said = [one.sentence for one in mismatches(record, script, ("--batch", "128"))]
    assert said == [
        "The record was made of another train.py: the text of train.py, or of a module beside it, differs.",
        "The record was made with --batch 64, not with --batch 128.",
    ]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"shapes_digest": "xyz"}, "the model has parameters of other shapes here"),
        ({"dtypes": ("torch.bfloat16",)}, "the precision is bfloat16 here and float32 there"),
        ({"autocast": "bfloat16"}, "the precision is float32 with autocast to bfloat16 here and float32 there"),
        ({"tape": ddp_tape(8, 16)}, "a step of a rank has 16 samples here and 32 there"),
        ({"tape": ddp_tape(8, buckets=2)}, "a step sends other messages here"),
    ],
)
def test_what_differs_from_the_record_is_named(change, said):
    one = recorded_rank()
    assert different(one, one) == []
    assert different(one, replace(one, **change)) == [said]


def test_shapes_that_nobody_recorded_differ_from_none():
    assert different(recorded_rank(), recorded_rank(shapes_digest="")) == []


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda data: data.pop("args"), "'args' is missing"),
        (lambda data: data.update(found=[]), "holds no number of ranks"),
        (lambda data: data["found"][0].update(step_seconds=[]), "what it says of 8 ranks cannot be"),
        (lambda data: data["found"][0].update(step_seconds=[-1.0]), "what it says of 8 ranks cannot be"),
        (lambda data: data["found"][0].update(ranks=4), "what it says of 4 ranks cannot be"),
    ],
)
def test_a_damaged_record_is_refused_in_a_sentence(script, tmp_path, damage, said):
    path = tmp_path / "record.json"
    keep_record(path, record_of(script, recorded_rank()))
    data = json.loads(path.read_text())
    damage(data)
    path.write_text(json.dumps(data))
    with pytest.raises(BadRequest) as refused:
        kept_record(path)
    assert said in refused.value.sentence
    assert "--keep-computing" in refused.value.hint


def test_what_is_no_record_is_refused(tmp_path):
    with pytest.raises(BadRequest, match="is no computing record"):
        kept_record(tmp_path / "nowhere.json")


def test_a_folder_that_cannot_be_written_is_refused(script, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(BadRequest, match="cannot be written"):
        keep_record(tmp_path / "file" / "record.json", record_of(script, recorded_rank()))


def test_a_request_without_a_link_is_refused_with_everything_else_that_is_wrong(script, tmp_path):
    path = tmp_path / "record.json"
    keep_record(path, record_of(script, recorded_rank()))
    with pytest.raises(BadRequest) as refused:
        record_asked(RehearseRequest(script, ("--batch", "8"), computing_from=path))
    assert "made with --batch 64, not with --batch 8" in refused.value.sentence
    assert "What joins the ranks of the record is not said." in refused.value.sentence
    assert record_asked(RehearseRequest(script, ("--batch", "64"), computing_from=path, link=SLOW)) is not None


class Stage:
    """A stage on which one rehearsal was made, on CPU cores."""

    def __init__(self, script, ranks, device="cpu"):
        self.request, self.device = RehearseRequest(script, ranks=ranks, link=SLOW), device

    def rehearse(self, ranks, **_):
        return make_run([0.01] * 5)


def test_numbers_of_ranks_that_the_record_does_not_have_are_refused_one_by_one(script):
    record = record_of(script, recorded_rank(1), recorded_rank(8))
    taken = from_record(Stage(script, (8, 64)), record)
    assert sorted(taken.found) == [1, 8]
    assert [(one.ranks, one.reason) for one in taken.refused] == [(64, "The record has 8 ranks, not 64.")]
    with pytest.raises(BadRequest, match="not 64"):
        from_record(Stage(script, (64,)), record)


def test_a_record_that_could_not_be_compared_says_so(script):
    taken = from_record(Stage(script, (8,)), record_of(script, recorded_rank(8)))
    assert any("could not be compared with a rehearsal here" in one for one in taken.warnings)
