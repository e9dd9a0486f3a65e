"""What logs, stacks and rows of a rank tell."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalewise.launch.failure_logs import (
    blames_another,
    exception_line,
    gather,
    last_lines,
    parse_stack,
    tail,
    waits_for_others,
)
from scalewise.launch.verdict import RankView
from scalewise.records.folder import RunFolder

DUMP = """Thread 0x00007f01 (most recent call first):
  File "/usr/lib/threading.py", line 2 in wait

Current thread 0x00007f02 (most recent call first):
  File "/site/torch/distributed/distributed_c10d.py", line 3 in all_reduce
  File "/x/scalewise/watch/hooks.py", line 4 in wrapper
  File "/home/train.py", line 5 in main
  File "<string>", line 1 in <module>
"""


def test_the_stack_is_that_of_the_thread_that_was_asked_without_frames_of_ours() -> None:
    assert parse_stack(DUMP) == (
        'File "/site/torch/distributed/distributed_c10d.py", line 3 in all_reduce',
        'File "/home/train.py", line 5 in main',
    )


def test_of_several_dumps_the_last_counts() -> None:
    later = 'Current thread 0x1 (most recent call first):\n  File "later.py", line 1 in now\n'
    assert parse_stack(DUMP + later) == ('File "later.py", line 1 in now',)


@given(st.text())
def test_any_text_is_a_stack_or_none(text: str) -> None:
    assert all(frame.startswith("File ") for frame in parse_stack(text))


def test_waiting_is_known_by_the_innermost_frame_only() -> None:
    assert waits_for_others(parse_stack(DUMP))
    assert not waits_for_others(parse_stack(DUMP)[::-1])
    assert not waits_for_others(())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Traceback\n[rank1]: RuntimeError: [gloo] Connection closed by peer [127.0.0.1]:8\n", True),
        ("RuntimeError: Timed out waiting 1800000ms for recv operation to complete\n", True),
        ("torch.distributed.DistBackendError: Broken pipe\nmore\n", True),
        ("Connection closed by peer, says a log line\nValueError: boom\n", False),
        ("", False),
    ],
)
def test_a_rank_blames_another_by_its_exception_not_by_what_it_logged(text: str, expected: bool) -> None:
    assert blames_another(text) is expected


def test_the_exception_is_found_behind_the_prefix_torch_puts_before_it() -> None:
    assert exception_line("[rank0]: Traceback\n[rank0]: torch.OutOfMemoryError: no\n") == "torch.OutOfMemoryError: no"


def test_a_tail_is_bounded_and_a_missing_log_is_empty(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"\xff" * 1_000_000 + b"\nend")
    assert len(tail(log)) <= 64 * 1024
    assert last_lines(tail(log))[-1] == "end"
    assert tail(tmp_path / "none") == ""


def test_the_last_rows_tell_steps_end_and_a_full_disk(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.rank(0).write_text(
        'garbage\n{"kind": "trouble", "where": "x", "error": "OSError: No space left on device"}\n'
        '{"kind": "end", "steps": 7, "exception": null}\n{"kind": "end", "steps": 9'
    )
    evidence = gather(RankView(0), folder, ())
    assert (evidence.steps, evidence.finished_rows) == (7, True)
    assert "No space" in evidence.trouble


def test_a_rank_that_left_nothing_has_no_evidence(tmp_path: Path) -> None:
    evidence = gather(RankView(0), RunFolder(tmp_path), ())
    assert (evidence.stderr, evidence.steps, evidence.finished_rows, evidence.trouble) == ("", 0, False, "")


def test_a_line_of_thousands_of_letters_is_cut_in_the_middle() -> None:
    line = "ValueError: " + "0, " * 5000 + "the end"
    (cut,) = last_lines(line)
    assert cut.startswith("ValueError: 0, ") and cut.endswith("the end") and len(cut) < 500
    assert "14,619 letters left out" in cut
    assert exception_line(line) == cut
    assert last_lines("short") == ("short",)
