"""Holds what was foreseen against what was measured, from the folders that `bench.unseen` leaves."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import exp, log, sqrt
from pathlib import Path
from statistics import median

from scalewise.analysis.estimate import Estimate, RunMedian, estimate
from scalewise.analysis.series import series
from scalewise.plan.seating import seating
from scalewise.predict.answer import Checked
from scalewise.predict.link import Link
from scalewise.predict.links import AskedLink, Links
from scalewise.predict.prediction import LEVEL, QUANTILE, Spread, predict
from scalewise.predict.probe import LinkProbe
from scalewise.predict.rehearsed import RehearsedRank, rehearsed
from scalewise.predict.seen_errors import expected_error
from scalewise.predict.self_check import held_up, measured, spread_over
from scalewise.records.codec import read_json
from scalewise.records.load import Run, load

SCRIPTS = Path(__file__).parent / "scripts"
GOALS = (0.05, 0.15)  # of errors: median and largest
OF_LINK, OF_MESSAGES = "link", "settings"  # folders beside those of models
COVERED = (0.85, 0.95)  # share of points inside the interval


@dataclass(frozen=True)
class Point:
    """One model on one number of ranks."""

    model: str
    ranks: int
    predicted: Estimate
    measured: Estimate
    checked: Estimate | None  # predicted after one run of each number of ranks; held against `others`
    others: Estimate | None  # measured without the run that was the check
    unshifted: float  # predicted seconds before any expected error was taken out
    communication: float  # share of the step in which messages hold up computing
    apart: float = 0.0  # standard deviation of what the interval holds beside learnt errors: pages, unusual messages

    @property
    def error(self) -> float:
        """Predicted over measured, less 1."""
        return self.predicted.value / self.measured.value - 1

    @property
    def inside(self) -> bool:
        """Whether the interval holds what was measured."""
        return self.predicted.low <= self.measured.value <= self.predicted.high

    @property
    def width(self) -> float:
        """Half the interval, as a logarithm."""
        return log(self.predicted.high / self.predicted.low) / 2


@dataclass(frozen=True)
class Seen:
    """The runs of one model, by their names."""

    model: str
    runs: Mapping[str, Run]

    def rehearsal(self, ranks: int, name: str = "") -> RehearsedRank | None:
        """The rehearsal of that many ranks."""
        run = self.runs.get(f"rehearse{ranks}{name}")
        found = rehearsed(run) if run is not None else None
        return found if isinstance(found, RehearsedRank) else None

    def rounds(self, ranks: int) -> list[Run]:
        """The measured runs of that many ranks, in their order."""
        named = sorted(name for name in self.runs if name.startswith(f"measure{ranks}-round"))
        return [self.runs[name] for name in named if self.runs[name].measured]


def seen(folder: Path) -> list[Seen]:
    """What lies in the folder of a set."""
    found: list[Seen] = []
    for place in sorted(path for path in folder.iterdir() if path.is_dir() and path.name not in (OF_LINK, OF_MESSAGES)):
        runs: dict[str, Run] = {}
        for suite in sorted(path.parent for path in place.glob("*/machine.json")):
            runs |= {run.spec.name: run for run in load(suite).runs}
        found.append(Seen(place.name, runs))
    return found


def points_in(folder: Path) -> list[Point]:
    """The points of all models of a set, by the model of today."""
    probes = [read_json(path, LinkProbe) for path in sorted(folder.glob("probe*.json"))]
    return [point for one in seen(folder) for point in predicted_points(one, probes)]


def judged(folder: Path) -> dict[str, object]:
    """Prints a table with a row for every model and number of ranks, and what they are like together."""
    from bench.unseen_checks import beyond_checks
    from bench.unseen_effects import effects
    from bench.unseen_floor import repeats

    points = points_in(folder)
    print(f"\n{'model':14}{'ranks':>5}  {'predicted, ms':>24}{'measured, ms':>22}{'error':>9}      after a check")
    for point in points:
        _show(point)
    found: dict[str, object] = {"points": [_plain(point) for point in points]}
    for what, chosen in (
        ("all", points),
        *((f"{ranks} ranks", [one for one in points if one.ranks == ranks])
          for ranks in sorted({one.ranks for one in points})),
    ):  # fmt: skip
        found[what] = _summary(what, chosen)
    models = seen(folder)
    found["repeats"] = repeats(models)
    probes = [read_json(path, LinkProbe) for path in sorted(folder.glob("probe*.json"))]
    found["beyond checks"] = beyond_checks(models, probes)
    agree = [same for one in models for same in messages_agree(one)]
    print(f"messages on tape are those that the run counted (kinds, numbers, bytes): {sum(agree)} of {len(agree)}")
    found["messages agree"] = agree
    found["effects"] = effects(models)
    return found


@dataclass(frozen=True)
class Foreseen:
    """The rehearsals of one model and the links between its ranks, from which any step is predicted."""

    taken: Mapping[int, RehearsedRank]
    links: Links

    def expected(self, ranks: int, checks: Sequence[Checked] = ()) -> tuple[Estimate, Spread] | None:
        """The predicted step as `scalewise rehearse` tells it after these checks, and its spread; None: no link."""
        link, found, sharing = self.links.asked(ranks), self.taken[ranks], self.links.sharing(ranks)
        if not isinstance(link, Link):
            return None
        kept = tuple(one for number, one in self.taken.items() if number > 1)
        spread = spread_over(link, kept, checks, found, sharing)
        return predict(found, link, sharing, spread).step, spread

    def communication(self, ranks: int) -> float:
        """The share of the usual step in which messages hold up computing."""
        link = self.links.asked(ranks)
        return held_up(self.taken[ranks], link, self.links.sharing(ranks)) if isinstance(link, Link) else 0.0

    def apart(self, ranks: int, step: Estimate) -> float:
        """The standard deviation, as a logarithm, of what this step's interval holds beside learnt errors."""
        link = self.links.asked(ranks)
        learnt = expected_error(link, ranks, self.communication(ranks)).spread if isinstance(link, Link) else 0.0
        return sqrt(max(0.0, (log(step.high / step.low) / 2 / QUANTILE) ** 2 - learnt**2))


def foreseen_by(one: Seen, probes: Sequence[LinkProbe]) -> Foreseen | None:
    """What lies in the folder of one model; None if no ranks were rehearsed."""
    counts = sorted({run.spec.rehearsed.world_size for run in one.runs.values() if run.spec.rehearsed})
    taken = {ranks: found for ranks in counts if (found := one.rehearsal(ranks)) is not None}
    several = [ranks for ranks in taken if ranks > 1]
    if not several:
        return None
    machine = next(run.machine for run in one.runs.values() if run.machine is not None)
    seats = seating(machine, "cpu", several)
    return Foreseen(taken, Links(AskedLink(None, False, None, max(several)), seats, probes[0], taken))


def predicted_points(one: Seen, probes: Sequence[LinkProbe]) -> list[Point]:
    """The points of one model: predicted as `scalewise rehearse` does, without a check and after one."""
    told = foreseen_by(one, probes)
    if told is None:
        return []
    checks, points = list(checks_of(one, told)), []
    for ranks in (ranks for ranks in told.taken if ranks > 1 and one.rounds(ranks)):
        before, after = told.expected(ranks), told.expected(ranks, checks)
        if before is None or after is None:
            continue
        rounds, rest = one.rounds(ranks), one.rounds(ranks)[1:]
        step, spread = before
        points.append(
            Point(
                model=one.model,
                ranks=ranks,
                predicted=step,
                measured=step_of(rounds, told.taken[ranks].uneven),
                checked=after[0] if rest else None,
                others=step_of(rest, told.taken[ranks].uneven) if rest else None,
                unshifted=step.value * exp(spread.shift),
                communication=told.communication(ranks),
                apart=told.apart(ranks, step),
            )
        )
    return points


def checks_of(one: Seen, told: Foreseen) -> Iterator[Checked]:
    """Yields the first run of each number of ranks, as the check of `scalewise rehearse` would have made it."""
    for ranks, found in told.taken.items():
        runs = one.rounds(ranks)[:1]
        made = measured(runs[0], loop=found.uneven) if runs and ranks > 1 else None
        expected = told.expected(ranks)
        if made is not None and expected is not None:
            yield Checked(ranks, expected[0], made.step)


def messages_agree(one: Seen) -> list[bool]:
    """Tells for each number of ranks whether the rehearsed and the real rank 0 counted the same in a late step."""
    found = []
    for ranks in sorted({run.spec.ranks for run in one.runs.values()} - {1}):
        rehearsal, rounds = one.runs.get(f"rehearse{ranks}"), one.rounds(ranks)
        if rehearsal is not None and rehearsal.measured and rounds:
            late = rounds[0].ranks[0].steps[-1]
            alike = [row for row in rehearsal.ranks[0].steps if row.optimizer == late.optimizer]
            found.append(bool(alike) and alike[-1].collectives == late.collectives)
    return found


def step_of(runs: Sequence[Run], loop: bool = False) -> Estimate:
    """The step as `scalewise run` tells it of these repeats; with `loop` from the end of one to the end of the next."""
    return estimate(list(_medians(runs, loop)), level=LEVEL)


def _medians(runs: Sequence[Run], loop: bool) -> Iterator[RunMedian]:
    for run in runs:
        found = series(run)
        if found is not None and not loop:
            yield found.median()
        elif found is not None and (made := measured(run, loop=True)) is not None:
            step = made.step  # the mean, as some steps send more than others
            yield RunMedian(step.value, step.low, step.high, step.steps, step.level)


def _show(point: Point) -> None:
    text = f"{point.model:14}{point.ranks:5}  {_ms(point.predicted):>24}{_ms(point.measured):>22}"
    text += f"{100 * point.error:+8.1f} % {'in ' if point.inside else 'OUT'}"
    if point.checked and point.others:
        error = point.checked.value / point.others.value - 1
        where = "in" if point.checked.low <= point.others.value <= point.checked.high else "OUT"
        text += f"{_ms(point.checked):>22}{100 * error:+7.1f} % {where}"
    print(text, flush=True)


def _ms(step: Estimate) -> str:
    return f"{step.value * 1e3:.1f} [{step.low * 1e3:.1f}, {step.high * 1e3:.1f}]"


def _summary(what: str, points: Sequence[Point]) -> dict[str, float]:
    if not points:
        return {}
    errors = sorted(abs(one.error) for one in points)
    inside = sum(one.inside for one in points) / len(points)
    found = {
        "points": float(len(points)),
        "median error": median(errors),
        "largest error": errors[-1],
        "median signed error": median(one.error for one in points),
        "inside": inside,
        "median half width": median(one.width for one in points),
        "median half width of measured": median(one.measured.half_width for one in points),
    }
    print(
        f"{what}, {len(points)} points: median error {100 * found['median error']:.1f} % (goal {100 * GOALS[0]:g} %), "
        f"largest {100 * found['largest error']:.1f} % (goal {100 * GOALS[1]:g} %), signed "
        f"{100 * found['median signed error']:+.1f} %; inside {100 * inside:.0f} % (goal {100 * COVERED[0]:.0f} to "
        f"{100 * COVERED[1]:.0f} %), half width {100 * found['median half width']:.0f} %"
    )
    return found


def _plain(point: Point) -> dict[str, object]:
    return {**asdict(point), "error": point.error, "inside": point.inside}
