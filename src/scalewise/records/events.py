"""The events that the watcher records while a script trains: a flat list of numbers, which is cheap to write.

Each event is one *stamp*, the nanoseconds of a monotonic clock with the event's code in the lowest bits (so time has a
resolution of 32 ns), followed by as many values as `VALUES` says. The list is written as `{"kind": "events", ...}`
lines; `records.steps` turns it into one row per optimizer step when it is read.
"""

CODE_BITS = 5
CODE_MASK = (1 << CODE_BITS) - 1
TIME_MASK = ~CODE_MASK

FORWARD = 0  # a module that is trained is called from outside all modules; rows of its input, or null
BACKWARD = 1  # loss it is called on, or null
BACKWARD_END = 2
OPTIMIZER = 3  # index of the optimizer, in order of first use
OPTIMIZER_END = 4
DATA = 5  # DataLoader.__next__
DATA_END = 6
COLLECTIVE = 7  # through torch.distributed
COLLECTIVE_END = 8  # kind, bytes
REDUCER = 9  # collectives that DDP's reducer will issue from C++ in this pass: kind, count, bytes
SCALER = 10  # GradScaler.step is over: whether it skipped, scale before the update or null
AUTOCAST = 11  # dtype
LOSS = 12  # unscaled loss that GradScaler.scale was shown, or null; stands for the one of the next backward
DEVICE = 13  # a step's times by the device's own clock: step number, step ns, ns since the last, phases, loss
GRAD_END = 14  # end of an autograd.grad that may only feed a later backward, such as a gradient penalty
EVALUATE = 15  # outermost module called without gradients or in evaluation mode: a sign of life only
PAUSE = 16  # a change sleeps: the script's own time in the step
ENDED = 17
WAKE = 19  # the last of some unwatched steps ends; value: number of the next step, which is watched
TURN = 20  # between two steps: the rank waits until the other arms of its ring have made a step each
TURN_END = 21  # the turn has come
TURN_LEFT = 22  # the turn will never come: a partner has left the ring, and this rank goes on alone
DROPPED = 23  # the optimizer raised and the script caught it: the open step is discarded
ARMED = 24  # the watcher is in place: the first sign of life
ROOT = 25  # the following module calls are of another module than those before: its number, see `RootRow`
UNUSED = 26  # this many calls at the start of a pass led to no gradient; stamp of the step's real beginning, or 0
BATCH = 27  # a DataLoader has delivered: rows of the batch
TRANSFORM = 28  # a step opens: torch.func began to transform the function in which a trained module is called
EVALUATED = 29  # batches since the last step were not for the next step; those that are come after this event
DRAWN = 30  # a DataLoader has delivered a batch without visible rows (of graphs): samples drawn for it
COMPILED = 18  # a compiled function is entered outside any step: it may begin here, if a backward pass follows from it

_NUMBER = (int, float, type(None))
_COUNT = (int, type(None))

# The values that follow a stamp, with the types that each may have.
VALUES: dict[int, tuple[tuple[type, ...], ...]] = {
    FORWARD: (_COUNT,),
    BACKWARD: (_NUMBER,),
    OPTIMIZER: ((int,),),
    COLLECTIVE_END: ((str,), (int,)),
    REDUCER: ((str,), (int,), (int,)),
    SCALER: ((bool,), _NUMBER),
    AUTOCAST: ((str,),),
    LOSS: (_NUMBER,),
    WAKE: ((int,),),
    DEVICE: ((int,), (int,), _COUNT, (list, type(None)), _NUMBER),
    ROOT: ((int,),),
    UNUSED: ((int,), (int,)),
    BATCH: ((int,),),
    DRAWN: ((int,),),
}

# What a rank is doing whose last event is this one.
STATES = {
    FORWARD: "forward",
    BACKWARD: "backward",
    BACKWARD_END: "own code",
    OPTIMIZER: "optimizer",
    OPTIMIZER_END: "own code",
    WAKE: "own code",
    DATA: "waiting for data",
    DATA_END: "own code",
    COLLECTIVE: "in a collective",
    COLLECTIVE_END: "own code",
    GRAD_END: "own code",
    EVALUATE: "evaluating",
    PAUSE: "own code",
    TURN: "waiting for its turn",
    TURN_END: "own code",
    TURN_LEFT: "own code",
    ARMED: "starting",
    ENDED: "ended",
}
