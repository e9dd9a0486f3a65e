"""How good `parity` is: over its corpus, how many mistakes it finds and explains, and what it says of correct scripts.

Every broken script is compared as it is and mended, every correct one as it is. *Recall* is the share of broken scripts
that are called different. A *false alarm* is a correct or mended script that is called different. A *cause* counts as
named if it is the one that the script's header expects, and was proved.
"""

import sys
import time
from pathlib import Path

from bench.ratios import share_interval

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "parity"))

from parity_corpus import bench, subjects, told

ONE_IN = 6  # of a quick look


def run(quick: bool, cuda: bool) -> dict[str, object]:
    """Prints recall, false alarms and named causes, and gives them back."""
    broken, correct = subjects("broken"), subjects("correct")
    if quick:
        broken, correct = broken[::ONE_IN], correct[::ONE_IN]
    print(f"\nParity: {len(broken)} scripts with a mistake, the same mended, and {len(correct)} correct ones")
    began = time.monotonic()
    with bench() as opened:
        sick = [(one, opened.compare(one)) for one in broken]
        sound = [(f"{one.name}, mended", opened.compare(one, mend=True, causes=False)) for one in broken]
        sound += [(one.name, opened.compare(one, causes=False)) for one in correct]
    missed = [one.name for one, answer in sick if answer.kind != "differs"]
    named = [one.name for one, answer in sick if one.cause and answer.cause and answer.cause.name == one.cause]
    wrongly = [one.name for one, answer in sick if answer.cause and answer.cause.name != one.cause]
    false = [name for name, answer in sound if answer.kind == "differs"]
    untold = [name for name, answer in sound if answer.kind == "untold"]
    worst = max((step.worst.roundings for _, answer in sound if answer.compared for step in answer.compared.steps
                 if step.worst and answer.kind == "same"), default=0.0)  # fmt: skip
    least = min((step.worst.roundings for _, answer in sick if answer.compared and answer.kind == "differs"
                 for step in answer.compared.steps if step.worst and step.parted()), default=0.0)  # fmt: skip
    _line("recall: mistakes called different", len(broken) - len(missed), len(broken), "at least 95 %")
    _line("cause named, and proved", len(named), len(broken), "at least 80 %")
    _line("correct and mended scripts called different", len(false), len(sound), "0")
    _line("correct and mended scripts not told", len(untold), len(sound), "-")
    print(f"furthest apart of all correct: {worst:.3g} roundings; nearest of all mistakes: {least:.3g}")
    for title, names in (("missed", missed), ("false", false), ("untold", untold), ("wrong cause", wrongly)):
        for name in names:
            print(f"    {title}  {name}")
    seconds = sorted(answer.seconds for _, answer in (*((one.name, answer) for one, answer in sick), *sound))
    print(f"{len(seconds)} comparisons in {time.monotonic() - began:.0f} s, longest {seconds[-1]:.1f} s")
    for _, answer in sick:
        if answer.kind != "differs":
            print(told(answer))
    return {
        "broken": len(broken), "correct": len(correct), "missed": missed, "named": named, "wrong_cause": wrongly,
        "false": false, "untold": untold, "worst_correct_roundings": worst, "least_mistake_roundings": least,
        "seconds": sum(seconds),
    }  # fmt: skip


def _line(title: str, hits: int, total: int, goal: str) -> None:
    low, high = share_interval(hits, total) if total else (0.0, 1.0)
    share = hits / total if total else float("nan")
    text = f"{hits:>4} of {total:<4}= {share * 100:5.1f} % [{low * 100:.1f}, {high * 100:.1f}]"
    print(f"{title:<48}{text}  goal {goal}")
