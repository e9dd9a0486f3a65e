"""Judges what `bench.wild` saw of a script against what its list says is true, and prints the table."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from bench.wild_list import Script

Part = dict[str, Any]


@dataclass(frozen=True)
class Judged:
    """One row of the table."""

    name: str
    alone: str  # works, or fails
    verbs: dict[str, str]  # ok, refused, BROKEN (works alone, fails under scalewise), or fails alone too
    step_errors: dict[int, float] = field(default_factory=dict)  # told over hand-timed, same runs, less 1
    steps_by_step: dict[int, float] = field(default_factory=dict)  # the same, every step with itself
    disturbances: dict[int, float] = field(default_factory=dict)  # hand-timed, watched over bare, less 1
    samples_errors: dict[int, float] = field(default_factory=dict)
    speedup: str = ""
    true_findings: tuple[str, ...] = ()
    false_findings: tuple[str, ...] = ()
    unknown_findings: tuple[str, ...] = ()
    missed_findings: tuple[str, ...] = ()
    prediction_errors: dict[int, float] = field(default_factory=dict)  # predicted over measured, less 1
    inside: bool | None = None
    seconds: float = 0.0

    @property
    def broken(self) -> bool:
        """Whether a script that works alone fails under any verb."""
        return "BROKEN" in self.verbs.values()


def judge(script: Script, parts: dict[str, Part]) -> Judged:
    """What the parts of one script come to."""
    works = works_alone(parts)
    found = [one["check"] for one in (parts.get("doctor") or {}).get("found") or [] if one["counts"]]
    true = script.true_findings | script.expected_findings
    steps, disturbances, samples = _timed_errors(script, parts.get("timed") or {})
    predicted, inside = _prediction(parts.get("rehearse"))
    examined = (parts.get("doctor") or {}).get("found") is not None
    return Judged(
        name=script.name,
        alone={True: "works", False: "fails", None: "not run"}[works],
        verbs={verb: _verdict(verb, parts[verb], works) for verb in ("run", "doctor", "rehearse") if verb in parts},
        step_errors=steps,
        steps_by_step=_by_step(script, parts.get("timed") or {}),
        disturbances=disturbances,
        samples_errors=samples,
        speedup=_speedup(script, parts.get("run") or {}),
        true_findings=tuple(name for name in found if name in true),
        false_findings=tuple(name for name in found if name in script.false_findings),
        unknown_findings=tuple(name for name in found if name not in true | script.false_findings),
        missed_findings=tuple(sorted(script.expected_findings - set(found))) if examined else (),
        prediction_errors=predicted,
        inside=inside,
        seconds=sum(_seconds(part) for part in parts.values()),
    )


def _seconds(part: Part) -> float:
    if "seconds" in part:
        return float(part["seconds"])
    return sum(float(one["seconds"]) for one in part.values())


def works_alone(parts: dict[str, Part]) -> bool | None:
    """Whether the script ended well without scalewise, with every number of ranks; None: not tried."""
    return all(one["code"] == 0 for one in parts["alone"].values()) if "alone" in parts else None


def _verdict(verb: str, part: Part, works_alone: bool | None) -> str:
    if "skipped" in part:
        return "-"
    ok = {"run": _run_worked, "doctor": _doctor_worked, "rehearse": _rehearse_worked}[verb](part)
    if ok != "failed":
        return ok
    return "fails alone too" if works_alone is False else "BROKEN"


def _run_worked(part: Part) -> str:
    rows = part["rows"] or []
    return "ok" if rows and all(row["mark"] not in ("failed", "unfinished") for row in rows) else "failed"


def _doctor_worked(part: Part) -> str:
    return "ok" if part["found"] is not None and not part.get("failure") else "failed"


def _rehearse_worked(part: Part) -> str:
    if part["predicted"]:
        return "ok"
    return "refused" if part["refused"] or part["code"] in (1, 2) else "failed"


def _speedup(script: Script, run: Part) -> str:
    """A speedup of ranks that train apart is none, whatever its size."""
    told = [(row["ranks"], row["speedup"]) for row in run.get("rows") or [] if row["ranks"] > 1 and row["speedup"]]
    if not told:
        return ""
    text = ", ".join(f"{speedup:.2f}" for _, speedup in told)
    return f"{text} FALSE" if script.parallel == "apart" else text


def _timed_errors(script: Script, timed: Part) -> tuple[dict[int, float], dict[int, float], dict[int, float]]:
    """Medians over the rounds; a round in which one of both has no time does not count."""
    steps: dict[int, float] = {}
    disturbances: dict[int, float] = {}
    samples: dict[int, float] = {}
    for index, ranks in enumerate(script.ranks):
        watched = [_hand_and_row(one["watched"], ranks) for one in timed.get("rounds", [])]
        pairs = [(hand, row) for hand, row in watched if hand and row and row["step_seconds"]]
        _put(steps, ranks, [row["step_seconds"] / hand["step_seconds"] - 1 for hand, row in pairs])
        both = [
            (hand, one["bare"][str(ranks)]["hand"])
            for (hand, _), one in zip(watched, timed.get("rounds", []), strict=True)
        ]
        _put(
            disturbances,
            ranks,
            [hand["step_seconds"] / bare["step_seconds"] - 1 for hand, bare in both if hand and bare],
        )
        if script.samples:
            truth = script.samples[index]
            ratios = [
                row["samples_per_second"] * hand["loop_seconds"] / truth - 1
                for hand, row in pairs
                if row["samples_per_second"]
            ]
            _put(samples, ranks, ratios)
    return steps, disturbances, samples


def _by_step(script: Script, timed: Part) -> dict[int, float]:
    errors: dict[int, float] = {}
    for ranks in script.ranks:
        told = [one["watched"].get("by_step", {}).get(str(ranks)) for one in timed.get("rounds", [])]
        _put(errors, ranks, [error for error in told if error is not None])
    return errors


def _hand_and_row(watched: Part, ranks: int) -> tuple[Part | None, Part | None]:
    row = next((row for row in watched["rows"] or [] if row["ranks"] == ranks), None)
    return watched["hand"][str(ranks)], row


def _put(into: dict[int, float], ranks: int, values: Sequence[float]) -> None:
    if values:
        into[ranks] = median(values)


def _prediction(part: Part | None) -> tuple[dict[int, float], bool | None]:
    """By the rehearsal's own check: real ranks, measured in the same minutes."""
    checks = [one for one in (part or {}).get("checks") or [] if one.get("ratio")]
    errors = {int(one["ranks"]): one["ratio"] - 1 for one in checks}
    return errors, all(one["inside"] for one in checks) if checks else None


def print_table(judged: Iterable[Judged]) -> None:
    """One line for each script; below it what does not fit into a column, and the sums."""
    rows = list(judged)
    heads = ("script", "alone", "run", "doctor", "rehearse", "step error", "by step", "watched/bare", "samples/s",
             "speedup", "findings t/f/?/missed", "prediction", "seconds")  # fmt: skip
    table = [heads, *(_cells(row) for row in rows)]
    widths = [max(len(line[column]) for line in table) for column in range(len(heads))]
    for line in table:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
    for row in rows:
        for word, names in (("true", row.true_findings), ("FALSE", row.false_findings),
                            ("not judged", row.unknown_findings), ("missed", row.missed_findings)):  # fmt: skip
            if names:
                print(f"{row.name}: {word}: {', '.join(names)}")
    print_sums(rows)


def _cells(row: Judged) -> tuple[str, ...]:
    found = (row.true_findings, row.false_findings, row.unknown_findings, row.missed_findings)
    inside = {True: " inside", False: " OUTSIDE", None: ""}[row.inside]
    return (
        row.name,
        row.alone,
        *(row.verbs.get(verb, "not run") for verb in ("run", "doctor", "rehearse")),
        _percents(row.step_errors),
        _percents(row.steps_by_step),
        _percents(row.disturbances),
        _percents(row.samples_errors),
        row.speedup or "-",
        "/".join(str(len(names)) for names in found) if "doctor" in row.verbs else "-",
        _percents(row.prediction_errors) + inside,
        f"{row.seconds:.0f}",
    )


def _percents(errors: dict[int, float]) -> str:
    return " / ".join(f"{error * 100:+.1f} %" for _, error in sorted(errors.items())) or "-"


def print_sums(rows: Sequence[Judged]) -> None:
    """The four figures that this benchmark is for."""
    broken = [row.name for row in rows if row.broken]
    wrong = [row.name for row in rows if row.speedup.endswith("FALSE")]
    false, unknown = (sum(len(names) for names in which) for which in (
        [row.false_findings for row in rows], [row.unknown_findings for row in rows]))  # fmt: skip
    print(f"\n{len(rows)} scripts; broken by scalewise: {len(broken)}{_named(broken)}")
    for what, kinds in (
        ("step error", [row.step_errors for row in rows]),
        ("by step", [row.steps_by_step for row in rows]),
    ):
        sizes = [abs(error) for errors in kinds for error in errors.values()]
        if sizes:
            print(f"{what}: median {median(sizes) * 100:.1f} %, worst {max(sizes) * 100:.1f} % of {len(sizes)} times")
    print(f"findings: {sum(len(row.true_findings) for row in rows)} true, {false} false, {unknown} not judged")
    print(f"speedups of ranks that train apart: {len(wrong)}{_named(wrong)}")


def _named(names: Sequence[str]) -> str:
    return f" ({', '.join(names)})" if names else ""
