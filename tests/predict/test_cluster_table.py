"""A table of measured steps is read as it is, and every mistake in it is told at once."""

import pytest

from scalewise.errors import BadRequest
from scalewise.predict.cluster_table import check_bases, read_cluster_table
from scalewise.predict.placement import Placement

HEAD = "cluster,model,nodes,gpus,placement,local_batch,step_s,sync_s"
GOOD = f"{HEAD}\nours,net,1,1,1,8,0.2,0.001\nours,net,4,8,1124,8,0.5,0.3\n"


@pytest.fixture
def written(tmp_path):
    def write(text: str):
        path = tmp_path / "steps.csv"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def refusal(path) -> str:
    with pytest.raises(BadRequest) as caught:
        read_cluster_table(path)
    return caught.value.sentence


def test_a_row_is_a_placement_with_its_step(written):
    alone, uneven = read_cluster_table(written(GOOD))
    assert (alone.cluster, alone.model, alone.local_batch, alone.step_seconds) == ("ours", "net", 8.0, 0.2)
    assert alone.exposed_seconds == 0.001
    assert uneven.placement == Placement((1, 1, 2, 4))


def test_what_is_optional_may_be_left_out(written):
    [row] = read_cluster_table(written("model,nodes,gpus,local_batch,step_s\nnet,2,9,8,0.2\n\n"))
    assert row.placement == Placement((4, 5))
    assert row.exposed_seconds is None
    assert row.parameters is None


def test_more_than_nine_gpus_of_one_node_are_one_node(written):
    [row] = read_cluster_table(written(f"{HEAD}\nours,net,1,16,16,8,0.2,0.1\n"))
    assert row.placement == Placement((16,))


def test_columns_that_are_missing_or_misspelt_are_all_told(written):
    told = refusal(written("model,node,gpus,local_batch,step_ms,synk_s\nnet,1,1,8,0.2,0.1\n"))
    assert "'nodes' is missing (is it 'node'?)" in told
    assert "'step_s' is missing (is it 'step_ms'?)" in told
    assert "'synk_s' is not known; did you mean 'sync_s'?" in told


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("ours,net,1,1,1,8,-0.2,0.1", "step_s must be a number above 0, not '-0.2'"),
        ("ours,net,1,1,1,8,nan,0.1", "step_s must be a number above 0, not 'nan'"),
        ("ours,net,1,1,1,8,,0.1", "step_s must be a number above 0, not ''"),
        ("ours,net,1,1,1,0,0.2,0.1", "local_batch must be a number above 0"),
        ("ours,net,1.5,2,,8,0.2,0.1", "nodes must be a whole number from 1, not '1.5'"),
        ("ours,net,4,2,,8,0.2,0.1", "2 GPUs cannot be on 4 nodes"),
        ("ours,net,2,4,13,8,0.2,0.3", "sync_s 0.3 is not shorter than step_s 0.2"),
        ("ours,net,2,4,133,8,0.2,0.1", "placement 133 is 3 nodes with 7 GPUs, and the row says 2 with 4"),
        ("ours,net,2,4,1x,8,0.2,0.1", "placement '1x' says no GPUs of each node"),
        ("ours,,1,1,1,8,0.2,0.1", "model is empty"),
    ],
)
def test_an_impossible_value_is_told_with_its_line(written, row, said):
    told = refusal(written(f"{GOOD}{row}\n"))
    assert "line 4: " in told
    assert said in told


def test_all_bad_lines_are_told_at_once_and_many_are_counted(written):
    told = refusal(written(GOOD + "ours,net,0,1,1,8,x,0.1\n" * 6))
    assert "line 4: nodes must be" in told
    assert "line 4: step_s must be" in told
    assert "4 more of this kind" in told


def test_a_file_that_is_no_table_is_refused(written, tmp_path):
    assert "There is no table" in refusal(tmp_path / "none.csv")
    assert "it has no rows" in refusal(written(HEAD + "\n"))
    binary = tmp_path / "binary.csv"
    binary.write_bytes(b"\xff\xfe\x00model")
    assert "cannot be read" in refusal(binary)


def test_a_model_without_a_step_of_one_gpu_is_refused_by_name(written):
    rows = read_cluster_table(written(GOOD + "ours,other,2,4,22,8,0.5,0.3\n"))
    with pytest.raises(BadRequest, match="no step of one GPU was measured of other on ours"):
        check_bases(rows, "steps.csv")
    check_bases([row for row in rows if row.model == "net"], "steps.csv")
