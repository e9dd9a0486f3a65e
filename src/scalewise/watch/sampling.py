"""How often the watcher looks: which steps are watched, which are marked on a device, and who looks at memory."""

from typing import Protocol

# A loop of one process whose steps are this short is watched in full at first and then only now and then, or watching
# would cost more than it may. Most hooks then step aside, and one counts the steps.
REST_STEPS = 31
FAST_HOST_NS, FAST_DEVICE_NS = 1_500_000, 10_000_000
# A watched step of a GPU also makes and reads the device's events, some 0.4 ms on the host.
DEVICE_REST_STEPS = 63
# Steps of a few milliseconds bear more, and come less often: of these every eighth is watched.
BRISK_REST_STEPS = 7
BRISK_HOST_NS = 8_000_000
LEVEL_NS = 500_000_000  # between two readings of the memory in use, which take some 20 us each
MARK_EVERY = 8  # steps, a device marks the phases of one: each mark costs the host some microseconds
# Up to this step all are watched, so that the beginning of a run is known in full; the later ones, 72 or 96, ..., fall
# on those whose memory is read and whose phases a device marks.
FIRST_STEPS = 64


def host_rest(step_ns: int) -> int:
    """How many steps go unwatched after one of this length, where the host does the work."""
    if step_ns < FAST_HOST_NS:
        return REST_STEPS
    return BRISK_REST_STEPS if step_ns < BRISK_HOST_NS else 0


def device_rest(step_ns: int) -> int:
    """The same where a GPU does it and the host only has to keep ahead."""
    return DEVICE_REST_STEPS if step_ns < FAST_DEVICE_NS else 0


class Probe(Protocol):
    """Looks at memory and the model at sampled steps, outside the timed region."""

    def look(self, step: int) -> None:
        """Something asked for attention between two steps."""

    def note_level_if_due(self, step: int) -> None:
        """Between two steps, after a write: the memory in use is noted now and then."""

    def at_backward(self) -> None:
        """Backward of a sampled step is about to begin: the activations are alive."""

    def after_step(self, step: int) -> None:
        """A sampled step has ended."""

    def at_end(self, step: int) -> None:
        """The script has ended after so many steps."""


class FollowedBatches(Protocol):
    """Follows which batches the next step trains on."""

    def step_opens(self) -> None:
        """The next step opens."""


class FollowedCalls(Protocol):
    """Follows which calls of trained modules lead to gradients."""

    several: bool  # a module is called several times before one backward pass

    @property
    def following(self) -> bool:
        """Whether the calls of the open step are followed."""

    def step_opens(self) -> None:
        """A step opens with the call that comes next."""

    def pass_ends(self) -> None:
        """A backward pass is over."""
