"""Decides how often the watcher looks: which steps are watched, which a device marks, and when memory is read."""

from typing import Protocol

# A loop of one process with steps this short is watched in full at first and then only now and then, as watching would
# cost more than it may. Most hooks then step aside, and one counts the steps.
REST_STEPS = 31
FAST_HOST_NS, FAST_DEVICE_NS = 1_500_000, 10_000_000
# A watched step of a GPU also makes and reads the device's events, some 0.4 ms on the host.
DEVICE_REST_STEPS = 63
# Steps of a few milliseconds allow more, and come less often: of these every eighth is watched.
BRISK_REST_STEPS = 7
BRISK_HOST_NS = 8_000_000
LEVEL_NS = 500_000_000  # between two readings of the memory in use, which take some 20 us each
MARK_EVERY = 8  # a device marks the phases of one step in so many: each mark costs the host some microseconds
# Up to this step all are watched, so that the beginning of a run is known in full; the later watched steps, 72 or 96,
# ..., are also those whose memory is read and whose phases a device marks.
FIRST_STEPS = 64


def host_rest(step_ns: int) -> int:
    """The number of steps that go unwatched after one of this length, if the host does the work."""
    if step_ns < FAST_HOST_NS:
        return REST_STEPS
    return BRISK_REST_STEPS if step_ns < BRISK_HOST_NS else 0


def device_rest(step_ns: int) -> int:
    """The number of steps that go unwatched, if a GPU does the work and the host only has to keep ahead."""
    return DEVICE_REST_STEPS if step_ns < FAST_DEVICE_NS else 0


class Probe(Protocol):
    """A probe that looks at memory and the model at sampled steps, outside the timed region."""

    def look(self, step: int) -> None:
        """Looks at what asked for attention, between two steps."""

    def note_level_if_due(self, step: int) -> None:
        """Notes the memory in use now and then, between two steps, after a write."""

    def at_backward(self) -> None:
        """Looks when backward of a sampled step is about to begin, while the activations are alive."""

    def after_step(self, step: int) -> None:
        """Looks when a sampled step has ended."""

    def at_end(self, step: int) -> None:
        """Looks when the script has ended after that many steps."""


class FollowedBatches(Protocol):
    """A record of the batches that the next step trains on."""

    def step_opens(self) -> None:
        """Sorts the batches when the next step opens."""


class FollowedCalls(Protocol):
    """A record of the calls of trained modules that lead to gradients."""

    several: bool  # a module is called several times before one backward pass

    @property
    def following(self) -> bool:
        """Returns whether the calls of the open step are followed."""

    def step_opens(self) -> None:
        """Forgets earlier calls when a step opens with the next one."""

    def pass_ends(self) -> None:
        """Looks for calls without gradients when a backward pass is over."""
