"""Starts the ranks of one run on this machine, watches over them, and tells how the run ended."""

import sys
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from scalewise.errors import did_you_mean
from scalewise.launch import environment
from scalewise.launch.conclude import Ending, conclude
from scalewise.launch.evidence import MODULE_MISSING, PORT_TAKEN, gather, last_lines
from scalewise.launch.fleet import DirectFleet, Fleet, seconds_since
from scalewise.launch.forkserver import Connection, ServerDied, ServerSource, user_environment
from scalewise.launch.sampler import Sampler
from scalewise.launch.supervise import Supervision, memory_kills
from scalewise.launch.torchrun import TorchrunFleet, first_rank, torchrun_order
from scalewise.launch.world import NoView, OpenWorld, Seat, open_world
from scalewise.launch.world_words import with_world
from scalewise.records.folder import RunFolder
from scalewise.records.machine import MachineFacts
from scalewise.records.orders import ExecOrder, RankOrder
from scalewise.records.outcome import Outcome
from scalewise.records.pulse import BYTES_PER_RANK, Pulse, create_pulses
from scalewise.records.spec import RunSpec

Pulses = tuple[Pulse, ...]


@dataclass(frozen=True)
class Place:
    """Where a run is made: its folder, its machine, and the servers that can start its ranks."""

    folder: RunFolder
    spec_path: Path
    machine: MachineFacts
    servers: ServerSource


def run_one(spec: RunSpec, place: Place, hear: Callable[[Pulses, float], None], stop: Callable[[], bool]) -> Outcome:
    """Makes one run; whatever happens to it is an outcome, and nothing of it is left running."""
    refusal = _refusal(spec)
    if refusal is not None:
        return refusal
    _prepare_pulses(spec, place.folder)
    asked_ns = time.monotonic_ns()
    try:
        visible = environment.visible(spec, user_environment())
        server = place.servers.get(spec.python, spec.cwd, visible, preload=spec.launcher == "fork")
        world = open_world(spec, place.folder, server)
    except NoView as problem:
        return not_started(problem.sentence, problem.hint, seconds_since(asked_ns))
    except ServerDied as death:
        return _server_ended(death, asked_ns)
    try:
        outcome = _supervised(spec, place, _Start(server, visible, world, asked_ns), hear, stop)
    except ServerDied as death:
        outcome = _server_ended(death, asked_ns)
    finally:
        seen = world.close() if world else None
    return with_world(outcome, seen, spec)


@dataclass(frozen=True)
class _Start:
    """What the ranks of a run are started with."""

    server: Connection
    visible: dict[str, str]
    world: OpenWorld | None
    asked_ns: int

    def seat(self, spec: RunSpec, rank: int) -> Seat:
        return self.world.seat(rank) if self.world else Seat(spec.cwd)


def _supervised(
    spec: RunSpec, place: Place, start: _Start, hear: Callable[[Pulses, float], None], stop: Callable[[], bool]
) -> Outcome:
    """Starts the ranks, stays until they are gone, and concludes."""
    kills_before = memory_kills()
    # The time a server takes to start is nobody's standstill: the run's own clock starts here.
    start_ns = time.monotonic_ns()
    fleet = _started(spec, place, start, start_ns)
    supervision = Supervision(spec, place.folder, fleet, start_ns)
    with Sampler(_samples_path(spec, place.folder), place.machine.cores, spec.device == "cuda", start_ns) as sampler:
        verdict = supervision.watch_over(sampler, hear, stop)
    if isinstance(fleet, TorchrunFleet) and not fleet.pids and not fleet.exits and verdict is not None:
        return _torchrun_failed(fleet, seconds_since(start.asked_ns))
    ending = Ending(
        verdict=verdict,
        launch_seconds=(start_ns - start.asked_ns) * 1e-9 + (supervision.launch_seconds or supervision.seconds),
        wall_seconds=seconds_since(start.asked_ns),
        stall_seconds=spec.stall_seconds,
        limit_seconds=spec.limit_seconds,
        memory_kills=memory_kills() - kills_before,
        rehearse=spec.rehearsed,
        without_hooks=spec.without_hooks,
    )
    ranks = [gather(view, place.folder, supervision.stacks.get(view.rank, ())) for view in supervision.last_views]
    return conclude(ranks, ending, _logs(place.folder))


def _server_ended(death: ServerDied, asked_ns: int) -> Outcome:
    return not_started(f"the fork server ended: {death}", "run the same command again", seconds_since(asked_ns))


def not_started(sentence: str, hint: str, wall_seconds: float = 0.0) -> Outcome:
    """The outcome of a run that never came to its ranks."""
    return Outcome("not_started", sentence, hint, None, (), wall_seconds, wall_seconds, ())


def _refusal(spec: RunSpec) -> Outcome | None:
    script = Path(spec.script)
    if not Path(spec.cwd).is_dir():
        return not_started(f"the working folder {spec.cwd} does not exist", "check `cwd`")
    if not script.is_file():
        beside = [path.name for path in script.parent.glob("*.py")] if script.parent.is_dir() else []
        return not_started(
            f"the script {spec.script} does not exist",
            did_you_mean(script.name, beside) or "check the path of the script",
        )
    if spec.nodes is not None and spec.launcher != "torchrun":
        return not_started("several nodes need torchrun", "add --launcher torchrun")
    return None


def _prepare_pulses(spec: RunSpec, folder: RunFolder) -> None:
    """On several nodes the folder is shared, and the file another node's ranks already write must not be touched."""
    size = BYTES_PER_RANK * spec.world_size
    if spec.nodes is None or not folder.pulses.is_file() or folder.pulses.stat().st_size != size:
        create_pulses(folder.pulses, spec.world_size)


def _started(spec: RunSpec, place: Place, start: _Start, start_ns: int) -> Fleet:
    out, server, visible = place.folder.path.resolve(), start.server, start.visible
    hidden = environment.hidden(spec, visible, place.spec_path.resolve(), out, place.machine.isa_cap)
    if spec.launcher == "torchrun" and spec.mode == "torchrun":
        order = torchrun_order(spec, RunFolder(out), visible | hidden)
        return TorchrunFleet(server, _seated(order, start.seat(spec, 0)), spec, place.folder, start_ns)
    orders: dict[int, RankOrder | ExecOrder] = {}
    if spec.launcher == "torchrun":
        orders[0] = _plain_python(spec, RunFolder(out), visible | hidden)
    elif spec.mode == "python":
        orders[0] = _rank_order(spec, 0, place, visible, hidden)
    else:
        port, run_id = server.host_store(), str(uuid.uuid4())
        for rank in range(spec.ranks):
            error_file = out / f"rank{rank}.error.json"
            added = environment.torchrun_variables(spec, rank, port, run_id, error_file, visible)
            orders[rank] = _rank_order(spec, rank, place, visible | added, hidden)
    seated = {rank: _seated(order, start.seat(spec, rank)) for rank, order in orders.items()}
    return DirectFleet(server, seated, place.folder, start_ns)


Order = TypeVar("Order", bound=RankOrder | ExecOrder)


def _seated(order: Order, seat: Seat) -> Order:
    return replace(order, cwd=seat.cwd, view=seat.view)


def _rank_order(spec: RunSpec, rank: int, place: Place, visible: dict[str, str], hidden: dict[str, str]) -> RankOrder:
    folder = RunFolder(place.folder.path.resolve())
    return RankOrder(
        label=f"rank{rank}",
        script=spec.script,
        args=spec.args,
        cwd=spec.cwd,
        stdout=str(folder.stdout(rank)),
        stderr=str(folder.stderr(rank)),
        environment=visible,
        hidden=hidden,
        spec=str(place.spec_path.resolve()),
        out=str(folder.path),
        unbuffered=spec.mode == "torchrun" or bool(visible.get("PYTHONUNBUFFERED")),
    )


def _plain_python(spec: RunSpec, folder: RunFolder, variables: dict[str, str]) -> ExecOrder:
    argv = (spec.python or sys.executable, spec.script, *spec.args)
    return ExecOrder("rank0", argv, spec.cwd, str(folder.stdout(0)), str(folder.stderr(0)), variables)


def _torchrun_failed(fleet: TorchrunFleet, wall_seconds: float) -> Outcome:
    words = fleet.last_words()
    lines = last_lines(words)
    hint = "torchrun.log in the run's folder says why"
    if PORT_TAKEN.search(words):
        hint = "the port of the first node is taken: choose another master port"
    elif MODULE_MISSING.search(words):
        hint = "install torch in the interpreter of the ranks: pip install 'torch>=2.11,<2.16'"
    return not_started(f"torchrun could not start: {lines[-1] if lines else 'it said nothing'}", hint, wall_seconds)


def _samples_path(spec: RunSpec, folder: RunFolder) -> Path:
    if first_rank(spec) == 0:
        return folder.samples
    assert spec.nodes is not None
    return folder.samples.with_name(f"samples.node{spec.nodes.node_rank}.jsonl")


def _logs(folder: RunFolder) -> tuple[str, ...]:
    return tuple(sorted(path.name for path in folder.path.glob("*.log")))
