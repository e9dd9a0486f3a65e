"""The verb `extrapolate`: a table in, larger placements out, and a sentence for each thing that cannot be."""

import json

import pytest

from made_clusters import FEW, MadeCluster, made_rows, write_table
from run_folders import write_run
from scalewise.cli.verbs import main

MADE = {"net": MadeCluster(), "wide": MadeCluster(between_seconds=1.5)}


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    return write_table(tmp_path_factory.mktemp("table") / "steps.csv", made_rows(MADE))


@pytest.fixture(scope="module")
def one_node(tmp_path_factory):
    rows = made_rows(MADE, ((1, 1), (1, 2), (1, 4)))
    return write_table(tmp_path_factory.mktemp("table") / "one.csv", rows)


@pytest.fixture
def said(capsys):
    def call(*words: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(["extrapolate", *map(str, words)])
        streams = capsys.readouterr()
        return int(ended.value.code or 0), streams.out, streams.err

    return call


def test_larger_placements_are_told_with_intervals_beside_what_was_measured(said, table):
    code, out, _ = said(table, "--nodes", "4,16", "--placement", "1124", "--model", "net", "--local-batch", "4")
    assert code == 0
    lines = [line.split() for line in out.splitlines()]
    rows = [line for line in lines if line[1:2] in (["measured"], ["predicted"], ["predicted*"])]
    assert [line[0] for line in rows] == ["1", "8", "8", "16", "64"]
    assert "1+1+2+4" in out
    assert "three nodes and more" in out  # the guess that matters
    assert "held back lay inside" in out


def test_json_has_every_batch_and_what_the_numbers_rest_on(said, table, tmp_path):
    code, out, _ = said(table, "--json", "--html", tmp_path / "page.html")
    told = json.loads(out)
    assert code == 0
    assert {(one["model"], one["local_batch"]) for one in told["models"]} == {
        (model, batch) for model in MADE for batch in (2.0, 4.0, 8.0)
    }
    first = told["models"][0]["predicted"][0]
    assert first["step"]["low"] < first["step"]["value"] < first["step"]["high"]
    assert [one["nodes"] for one in told["models"][0]["predicted"]] == [4, 8, 16]
    assert told["guesses"]
    assert "Larger placements" in (tmp_path / "page.html").read_text()


def test_one_node_needs_a_link_between_nodes_and_then_says_little(said, one_node):
    code, _, err = said(one_node, "--nodes", "4")
    assert code == 1
    assert "nothing was measured on several nodes of made" in err
    code, out, _ = said(one_node, "--nodes", "4", "--link", "pcie3+ethernet-25g", "--per-node", "4")
    assert code == 0
    assert "pcie3+ethernet-25g joins the nodes as the catalogue says" in " ".join(out.split())


def test_a_network_alone_needs_to_know_how_much_is_sent(said, one_node):
    code, _, err = said(one_node, "--nodes", "4", "--link", "ethernet-25g")
    assert code == 1
    assert "how much a step of made sends is not known" in " ".join(err.split())


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--nodes", "0,x"), "'0', 'x' are no number of nodes"),
        (("--placement", "1a"), "'1a' says no GPUs of each node"),
        (("--per-node", "0"), "--per-node 0 is no number of GPUs"),
        (("--local-batch", "-1"), "--local-batch -1 is no batch"),
        (("--model", "nett"), "has no model 'nett'; did you mean 'net'?"),
        (("--link", "ethernt-10g"), "did you mean 'ethernet-10g'?"),
    ],
)
def test_what_cannot_be_is_one_clear_sentence(said, table, words, sentence):
    code, _, err = said(table, *words)
    assert code == 1
    assert sentence in " ".join(err.split())
    assert "Traceback" not in err


def test_all_mistakes_of_a_request_are_told_at_once(said, table):
    _, _, err = said(table, "--nodes", "x", "--placement", "y", "--link", "z")
    assert all(word in err for word in ("'x'", "'y'", "'z'"))


def test_a_folder_without_measured_steps_is_refused(said, tmp_path):
    code, _, err = said(tmp_path)
    assert code == 1
    assert "Traceback" not in err


def test_a_base_that_was_not_measured_with_that_batch_is_not_called_measured(said, table):
    _, out, _ = said(table, "--nodes", "4", "--model", "net", "--local-batch", "6")
    [alone] = [line.split() for line in out.splitlines() if line.split()[:1] == ["1"]]
    assert "measured" not in alone


def test_runs_of_one_and_two_ranks_are_a_table(said, tmp_path):
    for ranks in (1, 2):
        write_run(tmp_path, f"exp-ranks{ranks}-r0", ranks)
    code, out, _ = said(tmp_path, "--nodes", "1", "--per-node", "4")
    assert code == 0
    assert "2 measured steps of 1 model, on up to 1 node and 2 GPUs" in " ".join(out.split())


def test_a_table_without_a_base_is_refused(said, tmp_path):
    path = write_table(tmp_path / "steps.csv", made_rows(MADE, FEW[1:]))
    code, _, err = said(path)
    assert code == 1
    assert "no step of one GPU was measured of net" in " ".join(err.split())
