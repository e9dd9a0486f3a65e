"""Which ends of an examined run are the request's fault, from made-up outcomes."""

import pytest

from factories import make_spec
from scalewise.jobs.failure_messages import needs_gpu, no_steps, refusal, script_words
from scalewise.launch.failure_logs import exception_line
from scalewise.records.outcome import Outcome, OutcomeKind, RankEnd

USAGE = (
    "usage: train.py [-h] --data DATA",
    "                [--lr LR]",
    "train.py: error: argument --lr: invalid: 'x'",
)
CLICK = ("Usage: train.py [OPTIONS]", "Try 'train.py --help' for help.", "", "Error: Missing option '--data'.")


def ended(kind: OutcomeKind, lines: tuple[str, ...] = (), code: int | None = 1, stack: tuple[str, ...] = ()) -> Outcome:
    ranks = (RankEnd(0, code, None, 1.0, "own code", lines, stack, exception_line("\n".join(lines))),)
    return Outcome(kind, "rank 0 of 1 ended", "look there", 0, ranks, 0.1, 1.0, ())


@pytest.mark.parametrize(("lines", "said"), [(USAGE, "argument --lr: invalid"), (CLICK, "Missing option '--data'")])
def test_a_parser_that_complains_is_quoted(lines: tuple[str, ...], said: str) -> None:
    spec = make_spec(script="/home/me/train.py", args=("--lr", "x"))
    problem = refusal(ended("raised", lines, 2), spec)
    assert problem is not None and said in problem.sentence and "--lr x" in problem.sentence
    assert lines[0] in problem.hint and "doctor train.py -- ARGS" in problem.hint


def test_an_exit_code_2_without_usage_is_the_scripts_own_failure() -> None:
    assert refusal(ended("raised", ("error: out of data",), 2), make_spec()) is None
    assert refusal(ended("raised", ("usage: of memory grows", "ValueError: x"), 1), make_spec()) is None


def test_a_missing_package_is_named_and_others_errors_about_modules_are_not() -> None:
    problem = refusal(ended("raised", ("ModuleNotFoundError: No module named 'apex.amp'",)), make_spec())
    assert problem is not None and "package apex," in problem.sentence and "pip install apex" in problem.hint
    assert refusal(ended("raised", ("ValueError: No module named 'apex'",)), make_spec()) is None


def test_what_could_not_be_started_is_said_as_a_sentence() -> None:
    problem = refusal(ended("not_started"), make_spec())
    assert problem is not None and problem.sentence == "Rank 0 of 1 ended." and problem.hint == "look there"


@pytest.mark.parametrize(
    ("line", "wants"),
    [
        ("AssertionError: Torch not compiled with CUDA enabled", True),
        ("RuntimeError: Found no NVIDIA driver on your system.", True),
        ("ValueError: ProcessGroupNCCL is only supported with GPUs, no GPUs found!", True),
        ("RuntimeError: CUDA error: invalid device ordinal", True),
        ("AttributeError: module 'torch._C' has no attribute '_cuda_setDevice'", True),
        ("RuntimeError: mat1 and mat2 shapes cannot be multiplied", False),
    ],
)
def test_a_script_that_wants_a_gpu_is_known_by_its_last_words(line: str, wants: bool) -> None:
    assert needs_gpu(ended("raised", (line,))) is wants


def test_the_scripts_words_begin_with_its_traceback() -> None:
    lines = ("step 1", "Traceback (most recent call last):", '  File "train.py", line 1', "ValueError: x")
    assert script_words(ended("raised", lines)) == list(lines[1:])
    assert script_words(ended("hung", lines)) == []


@pytest.mark.parametrize(
    ("kind", "said"),
    [("timed_out", "no optimizer step"), ("hung", "stood still"), ("no_steps", "in order"), ("finished", "trained")],
)
def test_a_script_that_was_never_seen_to_train_is_told_why(kind: OutcomeKind, said: str) -> None:
    problem = no_steps(ended(kind, stack=('File "train.py", line 7 in load',)), make_spec(), forked=False)
    assert problem is not None and said in problem.sentence
    assert ("line 7 in load" in problem.sentence) is (kind in ("timed_out", "hung"))


def test_forked_ranks_are_not_watched_and_a_failure_speaks_for_itself() -> None:
    problem = no_steps(ended("no_steps"), make_spec(), forked=True)
    assert problem is not None and "forked" in problem.sentence
    assert no_steps(ended("raised", ("ValueError: x",)), make_spec(), forked=False) is None
