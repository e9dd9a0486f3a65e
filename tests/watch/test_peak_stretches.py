"""The watcher cuts the peaks of a GPU's memory into stretches, and a script sees what it would see alone.

There is no GPU here: an allocator that keeps its figures as torch's does stands in for torch's.
"""

from hypothesis import given
from hypothesis import strategies as st

from scalewise.watch.hooks.memory import PeakStretches, _answering, _resetting


class Allocator:
    """Bytes of one device, with one peak that anybody may reset."""

    def __init__(self):
        self.current = self.peak = 0

    def holds(self, count):
        self.current = count
        self.peak = max(self.peak, count)

    def ask(self, device):
        pool = {"current": self.current, "peak": self.peak, "allocated": 7, "freed": 7 - self.current}
        return {"num_ooms": 0, "allocated_bytes": {"all": dict(pool), "small_pool": dict(pool)}}

    def reset(self, device):
        self.peak = self.current


ACTS = st.lists(
    st.one_of(st.integers(0, 100), st.sampled_from(["script asks", "script resets", "stretch ends"])), max_size=40
)


@given(ACTS)
def test_a_script_is_told_what_it_would_be_told_alone_and_each_stretch_has_its_own_peak(acts):
    watched, alone = Allocator(), Allocator()
    peaks = PeakStretches(watched.ask, watched.reset)
    highest = 0  # of the present stretch
    for act in acts:
        if act == "script asks":
            assert peaks.as_alone(0, watched.ask(0)) == alone.ask(0)
        elif act == "script resets":
            peaks.script_resets(0)
            watched.reset(0)
            alone.reset(0)
        elif act == "stretch ends":
            assert peaks.end_stretch(0) == highest
            highest = watched.current
        else:
            watched.holds(act)
            alone.holds(act)
            highest = max(highest, act)
    assert peaks.as_alone(0, watched.ask(0)) == alone.ask(0)


def test_devices_are_kept_apart():
    one, other = Allocator(), Allocator()
    peaks = PeakStretches(lambda device: (one, other)[device].ask(device), lambda device: (one, other)[device].reset(0))
    one.holds(50)
    other.holds(20)
    assert (peaks.end_stretch(0), peaks.end_stretch(1)) == (50, 20)
    one.holds(0)
    assert peaks.as_alone(0, one.ask(0))["allocated_bytes"]["all"] == {
        "current": 0, "peak": 50, "allocated": 7, "freed": 7
    }  # fmt: skip
    assert peaks.as_alone(1, other.ask(1))["allocated_bytes"]["all"]["peak"] == 20


class Noted:
    """A recorder that keeps what was noted as broken."""

    def __init__(self):
        self.where = []

    def broke(self, where, error):
        self.where.append(where)


def test_torch_s_functions_answer_through_the_stretches_and_a_fault_of_ours_leaves_them_as_they_are():
    allocator, recorder = Allocator(), Noted()
    peaks = PeakStretches(allocator.ask, allocator.reset)
    ask, reset = _answering(recorder, peaks, allocator.ask), _resetting(recorder, peaks, allocator.reset)
    allocator.holds(50)
    allocator.holds(10)
    assert peaks.end_stretch(0) == 50
    assert ask(0)["allocated_bytes"]["all"]["peak"] == 50
    reset(0)
    assert ask(0)["allocated_bytes"]["all"]["peak"] == 10
    assert recorder.where == []

    peaks.as_alone = peaks.script_resets = None  # not to be called: a fault
    assert ask(0) == allocator.ask(0)
    reset(0)
    assert recorder.where == ["hooks/memory"] * 2
