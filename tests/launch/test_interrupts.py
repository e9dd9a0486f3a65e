"""Ctrl-C asks once and insists the second time."""

import os
import signal
import threading

import pytest

from scalewise.launch.campaign import Interrupts


def test_the_first_signal_is_noted_and_the_second_does_not_wait() -> None:
    with Interrupts() as interrupts:
        os.kill(os.getpid(), signal.SIGINT)
        assert interrupts.asked
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGTERM)


def test_what_was_in_force_before_comes_back() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with Interrupts():
        assert signal.getsignal(signal.SIGTERM) != before
    assert signal.getsignal(signal.SIGTERM) == before


def test_a_hangup_that_is_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Interrupts() as interrupts:
            os.kill(os.getpid(), signal.SIGHUP)
            assert not interrupts.asked
    finally:
        signal.signal(signal.SIGHUP, before)


def test_another_thread_than_the_main_one_leaves_signals_alone() -> None:
    failures: list[BaseException] = []

    def enter() -> None:
        try:
            with Interrupts():
                pass
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert failures == []
