"""`python -m bench wild`: judging, what is kept, and real scripts that work, fail alone, or fail only when watched."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from bench.wild_judge import judge, print_table
from bench.wild_list import read_list

from bench import wild, wild_parts
from processes import process_runs
from scalewise.errors import BadRequest

ROOT = Path(__file__).parents[2]
TRAINS = """
import torch
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(12):
    optimizer.zero_grad()
    loss = model(torch.ones(3, 4)).sum()
    loss.backward()
    optimizer.step()
"""
FINDING = {"severity": "wrong", "proof": "shown", "sentence": "", "evidence": [], "counts": True}


def script_of(folder: Path, more: str = "", text: str = TRAINS):
    (folder / "s").mkdir(exist_ok=True)
    (folder / "s" / "train.py").write_text(text)
    (folder / "wild.toml").write_text(
        f'python = "{sys.executable}"\n[[script]]\nname = "one"\npath = "s/train.py"\n{more}', encoding="utf-8"
    )
    [script] = read_list(folder)
    return script


def row(ranks: int = 1, **other):
    told = {"ranks": ranks, "mark": "measured", "reason": "", "step_seconds": 0.011, "samples_per_second": 300.0}
    return {**told, "samples_per_step": 3.0, "speedup": None, "kind": None, "refusal": "", "caveats": [], **other}


def ran(*rows, code: int = 0):
    return {"code": code, "seconds": 1.0, "said": "", "rows": list(rows)}


WORKS = {"1": {"code": 0, "seconds": 1.0, "said": ""}}
FAILS = {"1": {"code": 1, "seconds": 1.0, "said": ""}}


def test_a_script_that_works_alone_and_fails_watched_is_broken_by_us(tmp_path):
    one = judge(script_of(tmp_path), {"alone": WORKS, "run": ran(row(mark="failed"))})
    assert one.verbs["run"] == "BROKEN"
    assert one.broken


def test_a_script_that_fails_by_itself_is_not(tmp_path):
    one = judge(script_of(tmp_path), {"alone": FAILS, "run": ran(row(mark="failed"))})
    assert one.verbs["run"] == "fails alone too"
    assert not one.broken


def test_a_verb_that_gives_no_answer_is_broken_and_a_refusal_is_not(tmp_path):
    silent = {"code": 1, "seconds": 1.0, "said": "Traceback", "found": None}
    refused = {"code": 2, "seconds": 1.0, "said": "", "predicted": [], "refused": ["why"], "checks": []}
    one = judge(script_of(tmp_path), {"alone": WORKS, "doctor": silent, "rehearse": refused})
    assert one.verbs == {"doctor": "BROKEN", "rehearse": "refused"}


def test_findings_are_true_false_not_judged_or_missed(tmp_path):
    script = script_of(
        tmp_path, 'true_findings = ["a"]\nexpected_findings = ["b", "c"]\nfalse_findings = ["d"]\nplain = true\n'
    )
    found = [{**FINDING, "check": name} for name in ("a", "b", "d", "e")]
    found.append({**FINDING, "check": "note", "counts": False})
    doctor = {"code": 2, "seconds": 1.0, "said": "", "found": found, "failure": ""}
    one = judge(script, {"alone": WORKS, "doctor": doctor})
    assert one.true_findings == ("a", "b")
    assert one.false_findings == ("d",)
    assert one.unknown_findings == ("e",)
    assert one.missed_findings == ("c",)


def test_a_speedup_of_ranks_that_train_apart_is_false(tmp_path):
    apart = script_of(tmp_path, 'ranks = [1, 2]\nparallel = "apart"\n')
    run = ran(row(speedup=1.0), row(2, speedup=1.9))
    assert judge(apart, {"run": run}).speedup == "1.90 FALSE"
    assert judge(apart, {"run": ran(row(speedup=1.0), row(2))}).speedup == ""
    together = script_of(tmp_path, 'ranks = [1, 2]\nparallel = "data"\n')
    assert judge(together, {"run": run}).speedup == "1.90"


def test_times_are_compared_in_the_same_runs_and_with_the_bare_copy(tmp_path):
    script = script_of(tmp_path, "samples = [3]\n")
    hand = {"step_seconds": 0.010, "loop_seconds": 0.0125, "steps": 20}
    bare = {"1": {"hand": {**hand, "step_seconds": 0.008}}}
    rounds = [
        {"watched": ran(row()) | {"hand": {"1": hand}, "by_step": {"1": 0.02}}, "bare": bare},
        {"watched": ran(row(step_seconds=None)) | {"hand": {"1": hand}}, "bare": {"1": {"hand": None}}},
        {"watched": ran() | {"hand": {"1": None}}, "bare": bare},
    ]
    one = judge(script, {"timed": {"seconds": 9.0, "rounds": rounds}})
    assert one.step_errors == {1: pytest.approx(0.10)}
    assert one.steps_by_step == {1: 0.02}
    assert one.disturbances == {1: pytest.approx(0.25)}
    assert one.samples_errors == {1: pytest.approx(300 * 0.0125 / 3 - 1)}


def test_a_prediction_is_judged_by_the_rehearsals_own_check(tmp_path):
    part = {"code": 3, "seconds": 1.0, "said": "", "predicted": [1], "refused": []}
    checks = [{"ranks": 2, "ratio": 1.25, "inside": False}]
    one = judge(script_of(tmp_path), {"rehearse": {**part, "checks": checks}})
    assert one.prediction_errors == {2: pytest.approx(0.25)}
    assert one.inside is False
    assert judge(script_of(tmp_path), {"rehearse": {**part, "checks": []}}).inside is None


def test_the_table_names_what_is_broken_false_and_missed(tmp_path, capsys):
    script = script_of(tmp_path, 'false_findings = ["d"]\nexpected_findings = ["b"]\nplain = true\n')
    doctor = {"code": 2, "seconds": 1.0, "said": "", "found": [{**FINDING, "check": "d"}], "failure": ""}
    print_table([judge(script, {"alone": WORKS, "run": ran(row(mark="failed")), "doctor": doctor})])
    said = capsys.readouterr().out
    assert "broken by scalewise: 1 (one)" in said
    assert "one: FALSE: d" in said
    assert "one: missed: b" in said
    assert "findings: 0 true, 1 false, 0 not judged" in said


def test_what_was_done_is_kept_and_a_changed_entry_is_done_anew(tmp_path):
    script = script_of(tmp_path)
    kept = wild.Kept(tmp_path / "results.json")
    kept.keep(script, "alone", WORKS)
    assert wild.Kept(tmp_path / "results.json").parts(script) == {"alone": WORKS}
    assert kept.parts(script_of(tmp_path, 'true_findings = ["a"]\n')) == {"alone": WORKS}
    assert kept.parts(script_of(tmp_path, 'arguments = ["--more"]\n')) == {}


def test_a_results_file_that_is_none_is_a_sentence(tmp_path):
    (tmp_path / "results.json").write_text("{")
    with pytest.raises(BadRequest, match="is no results file"):
        wild.Kept(tmp_path / "results.json")


def test_an_unknown_verb_is_a_sentence(tmp_path):
    script_of(tmp_path)
    with pytest.raises(BadRequest) as caught:
        wild.run(quick=True, cuda=False, folder=tmp_path, verbs=["docter"])
    assert caught.value.hint == "did you mean 'doctor'?"


@pytest.mark.processes
def test_a_real_script_is_run_and_timed_in_copies_and_its_own_folder_stays_as_it_was(tmp_path, capsys):
    script_of(
        tmp_path,
        'plain = true\nsamples = [3]\nbegin = "loss = model(torch.ones(3, 4)).sum()"\nend = "optimizer.step()"\n',
        TRAINS + "open('written', 'w').write('x')\n",
    )
    result = wild.run(quick=True, cuda=False, folder=tmp_path, verbs=["run"])
    one = result["scripts"]["one"]
    assert (one["alone"], one["verbs"]) == ("works", {"run": "ok"})
    assert set(one["step_errors"]) == set(one["disturbances"]) == set(one["samples_errors"]) == {1}
    assert set(one["steps_by_step"]) == {1}, "the timer and the watcher counted the same steps"
    assert [path.name for path in (tmp_path / "s").iterdir()] == ["train.py"]
    assert set(json.loads((tmp_path / "wild-results.json").read_text())["one"]["parts"]) == {"alone", "run", "timed"}
    capsys.readouterr()
    wild.run(quick=True, cuda=False, folder=tmp_path, verbs=["run"])
    assert "  alone" not in capsys.readouterr().out.splitlines(), "what was done is not done again"


@pytest.mark.processes
def test_a_real_script_that_fails_is_a_row_and_the_next_one_goes_on(tmp_path, monkeypatch):
    monkeypatch.setitem(wild_parts.PARTS, "run", lambda script, work: ran(row()))
    script_of(tmp_path, "plain = true\n", "raise ValueError('mine')\n")
    with (tmp_path / "wild.toml").open("a") as file:
        file.write('[[script]]\nname = "two"\npath = "s/train.py"\nplain = true\nbegin = "no"\nend = "no"\n')
    result = wild.run(quick=True, cuda=False, folder=tmp_path, verbs=["run"])
    assert {name: one["alone"] for name, one in result["scripts"].items()} == {"one": "fails", "two": "fails"}
    assert result["scripts"]["one"]["verbs"] == {}, "nothing else is tried with a script that fails alone"
    (tmp_path / "s" / "train.py").write_text("print('mended')\n")
    result = wild.run(quick=True, cuda=False, folder=tmp_path, verbs=["run"], only=["one"])
    assert result["scripts"]["one"]["verbs"] == {"run": "ok"}, "and it is tried anew, because it may have been mended"


def test_ctrl_c_keeps_what_was_done(tmp_path, monkeypatch, capsys):
    def interrupted(script, work):
        raise KeyboardInterrupt

    monkeypatch.setitem(wild_parts.PARTS, "alone", lambda script, work: WORKS)
    monkeypatch.setitem(wild_parts.PARTS, "run", interrupted)
    script_of(tmp_path)
    result = wild.run(quick=True, cuda=False, folder=tmp_path)
    assert result["interrupted"]
    assert result["scripts"]["one"]["alone"] == "works"
    assert "The same command continues" in capsys.readouterr().out


@pytest.mark.processes
def test_a_command_over_its_limit_is_ended_and_told(tmp_path):
    script = script_of(tmp_path, "plain = true\nlimit_seconds = 1\n", "import time\ntime.sleep(600)\n")
    part = wild_parts.alone(script, tmp_path / "work")
    assert part["1"]["code"] is None


@pytest.mark.processes
def test_a_rank_in_a_session_of_its_own_is_ended_with_the_command(tmp_path):
    text = (
        "import pathlib, subprocess\n"
        "rank = subprocess.Popen(['sleep', '600'], start_new_session=True, stdout=-3, stderr=-3)\n"
        f"pathlib.Path({str(tmp_path / 'rank')!r}).write_text(str(rank.pid))\n"
        "rank.wait()\n"
    )
    script = script_of(tmp_path, "plain = true\nlimit_seconds = 3\n", text)
    part = wild_parts.alone(script, tmp_path / "work")
    assert part["1"]["code"] is None
    rank = int((tmp_path / "rank").read_text())
    until = time.monotonic() + 10
    while process_runs(rank) and time.monotonic() < until:
        time.sleep(0.01)  # a kill takes its time
    assert not process_runs(rank)


@pytest.mark.parametrize(
    ("words", "said"),
    [(["wild"], "wild needs --from FOLDER"), (["wild", "--from", "nowhere"], "nowhere has no wild.toml.")],
)
@pytest.mark.processes
def test_a_bad_request_is_one_sentence(words, said):
    done = subprocess.run([sys.executable, "-m", "bench", *words], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode != 0
    assert said in done.stderr
    assert "Traceback" not in done.stderr
