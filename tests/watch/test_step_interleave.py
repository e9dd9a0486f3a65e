"""A turn is handed on when the threads of this process sleep, and not held for one that never does."""

import hashlib
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from scalewise.watch import step_interleave
from scalewise.watch.step_interleave import MOST_IN_VAIN, IdleThreads, others_run

BLOCK = bytes(1 << 24)


@contextmanager
def busy(until: threading.Event) -> Iterator[None]:
    """A thread that works outside the interpreter's lock, as OpenMP's do."""

    def work() -> None:
        while not until.is_set():
            hashlib.sha256(BLOCK)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        until.set()
        thread.join()


def seen_running() -> bool:
    """In one of many looks: between two blocks the thread may wait for the interpreter's lock."""
    return any(others_run() or time.sleep(0.01) for _ in range(100))


def test_a_thread_at_work_is_seen_and_one_that_sleeps_is_not() -> None:
    with busy(threading.Event()):
        assert seen_running()
    asleep = threading.Event()
    thread = threading.Thread(target=asleep.wait)
    thread.start()
    try:
        time.sleep(0.05)
        assert not all(others_run() for _ in range(20))
    finally:
        asleep.set()
        thread.join()


def test_waiting_ends_when_the_others_sleep(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = iter([True, True, True, False])
    monkeypatch.setattr(step_interleave, "others_run", lambda: next(looks))
    IdleThreads().wait()
    assert next(looks, None) is None


def test_a_thread_that_never_sleeps_is_waited_for_a_few_times_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_interleave, "others_run", lambda: True)
    monkeypatch.setattr(step_interleave, "MOST_IDLE_SECONDS", 0.002)
    still = IdleThreads()
    for _ in range(MOST_IN_VAIN):
        still.wait()
    monkeypatch.setattr(step_interleave, "others_run", lambda: pytest.fail("looked again"))
    still.wait()


def test_a_pause_in_between_starts_the_count_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = 0
    still = IdleThreads()
    monkeypatch.setattr(step_interleave, "MOST_IDLE_SECONDS", 0.0)
    for runs in [True] * (MOST_IN_VAIN - 1) + [False] + [True] * (MOST_IN_VAIN - 1):
        monkeypatch.setattr(step_interleave, "others_run", lambda runs=runs: runs)
        still.wait()

    def look() -> bool:
        nonlocal looks
        looks += 1
        return False

    monkeypatch.setattr(step_interleave, "others_run", look)
    still.wait()
    assert looks == 1


def test_a_system_that_does_not_tell_is_taken_to_be_still(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(path: str) -> list[str]:
        raise FileNotFoundError(path)

    monkeypatch.setattr(step_interleave.os, "listdir", missing)
    assert not others_run()
