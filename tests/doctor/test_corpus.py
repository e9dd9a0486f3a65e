"""Tests of the doctor on the corpus: every planted mistake is found, and nothing that is not there."""

from collections import Counter
from collections.abc import Iterator

import pytest
import torch
from corpus_scripts import (
    CORPUS,
    CUDA_CORPUS,
    Clinic,
    Script,
    clinic,
    fixed_text,
    has_fix,
    read_script,
    scripts,
)

from scalewise.doctor.case import Abstain
from scalewise.doctor.checks import same_data
from scalewise.doctor.finding import rules
from scalewise.records.notes import ForwardNote
from shared_servers import SharedServers

BROKEN = scripts("broken")
CORRECT = scripts("correct")
ON_A_GPU = (*scripts("broken", CUDA_CORPUS), *scripts("correct", CUDA_CORPUS))
CHECKS = frozenset(rule.check.name for rule in rules())


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory, servers: SharedServers) -> Iterator[Clinic]:
    with clinic(tmp_path_factory.mktemp("corpus"), servers) as opened:
        yield opened


def name_of(script: Script) -> str:
    return script.name


def first_of_each_check() -> list[Script]:
    chosen = {name: script.name for script in reversed(BROKEN) for name in script.expect}
    return [script for script in BROKEN if script.name in chosen.values()]


@pytest.mark.parametrize("script", BROKEN, ids=name_of)
def test_the_planted_mistake_is_found_and_nothing_that_is_not_there(room: Clinic, script: Script):
    examined = room.examine_calmly(script)
    assert not examined.missed and not examined.crashed, examined.told()
    assert not examined.surplus, examined.told()


@pytest.mark.parametrize("script", CORRECT, ids=name_of)
def test_nothing_is_found_in_a_right_script_that_looks_suspicious(room: Clinic, script: Script):
    examined = room.examine_calmly(script)
    outcome = examined.case.run.outcome
    expected = ("no_steps",) if script.style == "evaluation" else ("finished", "aborted_at_exit")
    assert outcome is not None and outcome.kind in expected, examined.told()
    assert not examined.found and not examined.crashed, examined.told()


def test_a_model_that_gives_its_parameters_as_a_list_is_seen_in_every_step(room: Clinic):
    (script,) = [one for one in CORRECT if one.name == "model_gives_its_parameters_as_a_list"]
    case = room.examine(script).case
    assert (len(case.first.windows), len(case.first.all(ForwardNote)), case.first.record.trouble) == (12, 12, ())


def test_ranks_that_share_out_one_batch_inside_the_model_are_told_apart_from_those_that_repeat_it(room: Clinic):
    (script,) = [one for one in CORRECT if one.name == "batch_shared_out_in_model"]
    case = room.examine(script).case
    with pytest.raises(Abstain, match="share out one batch"):
        same_data.examine(case)


@pytest.mark.parametrize("script", first_of_each_check(), ids=name_of)
def test_nothing_is_found_once_the_mistake_is_mended(room: Clinic, script: Script):
    """One script of each check; `python -m bench doctor` tries them all."""
    examined = room.examine_calmly(script, fixed=True)
    assert not examined.found and not examined.crashed, examined.told()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here; with one, bench doctor --cuda prices")
@pytest.mark.parametrize("script", ON_A_GPU, ids=name_of)
def test_on_a_gpu_the_planted_mistake_is_found(room: Clinic, script: Script):
    """Found at least as a suspicion: what times prove is a matter of `python -m bench doctor --cuda`."""
    examined = room.examine(script, device="cuda")
    assert not examined.missed and not examined.crashed, examined.told()


@pytest.mark.parametrize("script", (*BROKEN, *scripts("broken", CUDA_CORPUS)), ids=name_of)
def test_a_broken_script_says_what_it_expects_and_how_it_is_mended(script: Script):
    assert script.expect, "a broken script expects a finding"
    assert script.expect | script.also <= CHECKS
    assert has_fix(script.text)
    compile(fixed_text(script.text), str(script.path), "exec")
    compile(script.text, str(script.path), "exec")


def test_every_check_has_two_scripts_with_its_mistake():
    expected = Counter(name for script in (*BROKEN, *ON_A_GPU) for name in script.expect)
    assert not {name: expected[name] for name in sorted(CHECKS) if expected[name] < 2}


def test_there_are_many_right_scripts_that_look_suspicious():
    assert len(CORRECT) >= 25
    assert all(not script.expect and not script.also for script in CORRECT)


def test_no_script_of_the_corpus_knows_of_the_doctor():
    for path in (*CORPUS.rglob("*.py"), *CUDA_CORPUS.rglob("*.py")):
        assert "scalewise" not in path.read_text(encoding="utf-8"), path


def test_a_mended_script_has_the_right_lines_and_no_wrong_ones():
    text = "for x in loader:\n    loss.backward()  # wrong\n    #+ (loss / 4).backward()\n    # + step()\n    x += 1\n"
    assert fixed_text(text) == "for x in loader:\n    (loss / 4).backward()\n    step()\n    x += 1\n"
    assert not has_fix("loss.backward()  # wrongly placed comment\n")


def test_a_header_is_read_whole(tmp_path):
    path = tmp_path / "one.py"
    path.write_text('"""Trains."""\n# doctor: expect=a,b also=c style=trainer ranks=3 on=cpu stall=3 args=--epochs 2\n')
    script = read_script(path)
    assert script.expect == {"a", "b"} and script.also == {"c"}
    assert (script.ranks, script.on_cpu, script.stall_seconds, script.args) == (3, True, 3.0, ("--epochs", "2"))
    path.write_text("# doctor: expect= mode=python\n")
    plain = read_script(path)
    assert plain.expect == frozenset() and (plain.mode, plain.ranks) == ("python", 1)


def test_a_header_that_cannot_be_read_is_refused(tmp_path):
    path = tmp_path / "one.py"
    path.write_text("# doctor: expects=a\n")
    with pytest.raises(ValueError, match="expects"):
        read_script(path)
    path.write_text("x = 1\n")
    with pytest.raises(ValueError, match="no line"):
        read_script(path)
