"""How good the doctor is: over the corpus, how many planted mistakes it finds, what it finds that is not there, and
whether its prices are those of the fixed script.

Every broken script is examined as it is and fixed, every correct one as it is. *Recall* is the share of the planted
mistakes that are found. *Precision* is the share of all findings that are true: planted, or a consequence that the
script's header names. A fixed script counts as a correct one.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from bench.ratios import share_interval

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "doctor"))

from corpus_scripts import Examined, clinic, scripts

from bench import doctor_cuda
from bench.doctor_prices import price_table

ONE_IN = 10  # of a quick look


def run(quick: bool, cuda: bool) -> dict[str, object]:
    """Prints precision, recall and prices, and gives them back; with `cuda` those of the scripts that need a GPU."""
    if cuda:
        return doctor_cuda.table(quick)
    broken, correct = scripts("broken"), scripts("correct")
    if quick:
        broken, correct = broken[::ONE_IN], correct[::ONE_IN]
    print(f"\nDoctor: {len(broken)} broken scripts, the same fixed, and {len(correct)} correct ones")
    with clinic() as opened:
        sick = [opened.examine(script) for script in broken]
        cured = [opened.examine(script, fixed=True) for script in broken]
        sound = [opened.examine(script) for script in correct]
        results = {**_recall(sick), **_precision(sick, cured, sound), **_seconds([*sick, *cured, *sound])}
        return {**results, "prices": price_table(opened, sick, cured)}


def _recall(sick: Sequence[Examined]) -> dict[str, object]:
    planted = sum(len(one.script.expect) for one in sick)
    missed = [f"{one.script.name}: {name}" for one in sick for name in sorted(one.missed)]
    share = _line("recall: planted mistakes found", planted - len(missed), planted, "at least 95 %")
    for name in missed:
        print(f"    missed  {name}")
    return {"planted": planted, "missed": missed, "recall": share}


def _precision(
    sick: Sequence[Examined], cured: Sequence[Examined], sound: Sequence[Examined]
) -> dict[str, object]:  # fmt: skip
    false = [f"{one.script.name}: {name}" for one in sick for name in sorted(one.surplus)]
    false += [f"{one.script.name}, fixed: {name}" for one in cured for name in sorted(one.found)]
    false += [f"{one.script.name}: {name}" for one in sound for name in sorted(one.found)]
    true = sum(len(one.found - one.surplus) for one in sick)
    share = _line("precision: findings that are true", true, true + len(false), "100 %")
    silent = [one for one in (*cured, *sound) if not one.found]
    _line("correct and fixed scripts without any finding", len(silent), len(cured) + len(sound), "100 %")
    for name in false:
        print(f"    false   {name}")
    crashed = sorted({text for one in (*sick, *cured, *sound) for text in one.crashed})
    for text in crashed:
        print(f"    failed  {text}")
    return {"true": true, "false": false, "precision": share, "crashed": crashed}


def _line(title: str, hits: int, total: int, goal: str) -> float:
    low, high = share_interval(hits, total) if total else (0.0, 1.0)
    share = hits / total if total else float("nan")
    text = f"{hits:>4} of {total:<4}= {share * 100:5.1f} % [{low * 100:.1f}, {high * 100:.1f}]"
    print(f"{title:<48}{text}  goal {goal}")
    return share


def _seconds(all_of_them: Sequence[Examined]) -> dict[str, object]:
    seconds = sorted(one.seconds for one in all_of_them)
    middle = seconds[len(seconds) // 2] if seconds else 0.0
    print(f"{len(seconds)} examinations in {sum(seconds):.0f} s, median {middle:.2f} s, longest {seconds[-1]:.1f} s")
    return {"examinations": len(seconds), "seconds": sum(seconds), "median_seconds": middle}
