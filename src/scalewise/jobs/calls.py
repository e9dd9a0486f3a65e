"""The calls from Python, such as `scalewise.measure`: each checks its arguments, does its job and returns a result."""

import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Literal

from scalewise.jobs.arguments import Arguments, in_python, public
from scalewise.jobs.measure import Where
from scalewise.jobs.measure import measure as measured
from scalewise.jobs.measure_request import MeasureRequest, suite_of
from scalewise.jobs.reporter import SILENT, Reporter
from scalewise.jobs.results import CompareResult, DiagnoseResult, MeasureResult, RehearseResult, measured_in
from scalewise.plan.adhoc import MOST_DEVICES, check_script
from scalewise.plan.experiment import DeviceChoice
from scalewise.plan.find import find_suite
from scalewise.plan.words import MOST_RANKS, PLAIN, parse_changes, parse_link
from scalewise.predict.answer import Scaling
from scalewise.records.spec import LauncherName

File = str | os.PathLike[str]
Word = str | int | float | Path


@public
def measure(
    what: File,
    args: Sequence[Word] = (),
    *,
    ranks: int | Sequence[int] | None = None,
    repeat: int | None = None,
    change: Sequence[str] = (),
    emulate_link: str | None = None,
    turns: bool = False,
    inspect: bool = False,
    plain: bool = False,
    devices: int | None = None,
    device: DeviceChoice = "auto",
    launcher: LauncherName = "fork",
    steps: int | None = None,
    env: Mapping[str, str] | None = None,
    limit: float | None = None,
    stall: float | None = None,
    full: bool = False,
    in_place: bool = False,
    out: File = "runs",
    again: bool = False,
    reporter: Reporter = SILENT,
) -> MeasureResult:
    """Measures a script or a suite, as `scalewise run` does. The same call continues where it was interrupted."""
    asked = Arguments()
    request = MeasureRequest(
        what=str(asked.path("what", what)),
        args=asked.words("args", args),
        ranks=None if ranks is None else asked.counts("ranks", ranks, MOST_RANKS),
        repeat=None if repeat is None else asked.count("repeat", repeat),
        change=asked.words("change", change),
        emulate_link=None if emulate_link is None else str(emulate_link),
        turns=asked.flag("turns", turns),
        inspect=asked.flag("inspect", inspect),
        plain=asked.flag("plain", plain),
        devices=None if devices is None else asked.count("devices", devices, MOST_DEVICES),
        device=asked.choice("device", device, DeviceChoice),
        launcher=asked.choice("launcher", launcher, LauncherName),
        steps=None if steps is None else asked.count("steps", steps),
        env=asked.variables("env", env or {}),
        limit=None if limit is None else asked.seconds("limit", limit),
        stall=None if stall is None else asked.seconds("stall", stall),
        full=asked.flag("full", full),
        in_place=asked.flag("in_place", in_place),
    )
    where = Where(asked.path("out", out), asked.flag("again", again))
    if request.plain and request.ranks is not None and request.ranks != (1,):
        asked.wrong("plain=True runs one process, which has no ranks.", "Leave one of plain and ranks out.")
    _try_texts(asked, request)
    asked.check()
    folder, complete = measured(suite_of(request, in_python), reporter, where)
    if not complete:
        raise KeyboardInterrupt("the same call continues")
    return measured_in(folder.path)


def _try_texts(asked: Arguments, request: MeasureRequest) -> None:
    """Reads texts that otherwise only the suite's making reads, so that their problems are reported with all others."""
    if request.of_script:
        asked.attempt(partial(check_script, Path(request.what)), None)
    else:
        asked.attempt(partial(find_suite, request.what), None)
    for text in request.change:
        asked.attempt(partial(parse_changes, text), ())
    if request.emulate_link is not None:
        written, hint = in_python("emulate_link", request.emulate_link), "Write it as emulate_link='1ms,1GB/s'."
        asked.attempt(partial(parse_link, request.emulate_link, written, hint), None)


@public
def show(folder: File) -> MeasureResult:
    """Reads what was measured in a folder, or in one run of it, as `scalewise show` does."""
    asked = Arguments()
    path = asked.path("folder", folder)
    asked.check()
    return measured_in(path)


@public
def diagnose(
    script: File,
    args: Sequence[Word] = (),
    *,
    ranks: int = 2,
    plain: bool = False,
    on: Literal["cpu"] | None = None,
    device: DeviceChoice = "auto",
    limit: float = 60.0,
    stall: float = 20.0,
    replay: bool = True,
    in_place: bool = False,
    change: str = PLAIN,
    out: File = "runs",
    reporter: Reporter = SILENT,
) -> DiagnoseResult:
    """Finds what is wrong with a script, with proof and price, as `scalewise doctor` does."""
    from scalewise.jobs.diagnose import DiagnoseRequest, diagnose_script

    asked = Arguments()
    request = DiagnoseRequest(
        script=asked.path("script", script),
        args=asked.words("args", args),
        ranks=asked.count("ranks", ranks, MOST_RANKS),
        plain=asked.flag("plain", plain),
        on_cpu=on is not None and asked.choice("on", on, Literal["cpu"]) == "cpu",
        device=asked.choice("device", device, DeviceChoice),
        limit_seconds=asked.seconds("limit", limit),
        stall_seconds=asked.seconds("stall", stall),
        replays=asked.flag("replay", replay),
        out=asked.path("out", out),
        in_place=asked.flag("in_place", in_place),
        changes=asked.attempt(partial(parse_changes, change), ()),
    )
    if request.on_cpu and request.device == "cuda":
        asked.wrong("on='cpu' and device='cuda' contradict each other.", "Leave one of them out.")
    asked.attempt(partial(check_script, request.script), None)
    asked.check()
    return DiagnoseResult(diagnose_script(request, reporter))


@public
def rehearse(
    script: File,
    args: Sequence[Word] = (),
    *,
    ranks: int | Sequence[int] = (2, 8, 64),
    link: str | None = None,
    per_node: int | None = None,
    scaling: Scaling = "script",
    memory: str | None = None,
    price: float | None = None,
    steps: int | None = None,
    also: Sequence[str] = (),
    check: bool = True,
    advice: bool = True,
    device: DeviceChoice = "auto",
    limit: float = 120.0,
    stall: float = 20.0,
    in_place: bool = False,
    out: File = "runs",
    reporter: Reporter = SILENT,
) -> RehearseResult:
    """Predicts what a script would do on these numbers of ranks, as `scalewise rehearse` does."""
    from scalewise.jobs import rehearse_request as read
    from scalewise.jobs.rehearse import concluded
    from scalewise.jobs.rehearse import rehearse as rehearsed

    asked = Arguments()
    numbers = tuple(sorted(asked.counts("ranks", ranks, read.MOST_RANKS)))
    nodes = None if per_node is None else asked.count("per_node", per_node)
    if price is not None and steps is None:
        asked.wrong("price is there and steps is not.", "Say how many steps the whole training has.")
    request = read.RehearseRequest(
        script=asked.path("script", script),
        args=asked.words("args", args),
        ranks=numbers,
        link=None if link is None else asked.attempt(partial(read.asked_link, str(link), nodes, numbers[-1]), None),
        measured_asked=link is not None and read.is_measured(str(link)),
        per_node=nodes,
        scaling=asked.choice("scaling", scaling, Scaling),
        memory_bytes=asked.attempt(partial(read.size_in_bytes, memory and str(memory), in_python), None),
        price_per_hour=None if price is None else asked.number("price", price),
        steps=None if steps is None else asked.count("steps", steps),
        check=asked.flag("check", check),
        advice=asked.flag("advice", advice),
        also=tuple(asked.attempt(partial(read.words_of, text, in_python), ()) for text in asked.words("also", also)),
        device=asked.choice("device", device, DeviceChoice),
        limit_seconds=asked.seconds("limit", limit),
        stall_seconds=asked.seconds("stall", stall),
        out=asked.path("out", out),
        in_place=asked.flag("in_place", in_place),
    )
    asked.attempt(partial(check_script, request.script), None)
    asked.check()
    answer = rehearsed(request, reporter)
    return RehearseResult(answer, concluded(answer, request))


@public
def compare(a: File | MeasureResult, b: File | MeasureResult, *, allow: Sequence[str] = ()) -> CompareResult:
    """Tells whether B is faster than A, as `scalewise compare` does: two folders, or two results of `measure`."""
    from scalewise.jobs.compare import compare as compared

    asked = Arguments()
    sides = [asked.path(name, getattr(side, "folder", side)) for name, side in (("a", a), ("b", b))]
    differences = asked.words("allow", allow)
    asked.check()
    return CompareResult(compared(sides[0], sides[1], differences))
