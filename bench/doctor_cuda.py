"""The doctor on a real GPU: every script of `tests/doctor/corpus_cuda` as it is and fixed, with replays.

Each line is one planted mistake: whether it was found, how it was proved, its price with the interval, and whether the
fixed script gave no finding. What a replay dismisses is no finding; a suspicion is one.
"""

import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from corpus_scripts import CUDA_CORPUS, Clinic, Script, clinic, scripts

from bench.doctor_prices import Tolerant
from scalewise.doctor.finding import Diagnosis, Finding
from scalewise.doctor.replay import replay_findings
from scalewise.jobs.diagnose import maker
from scalewise.jobs.measure import Here
from scalewise.launch.this_machine import machine_facts
from scalewise.records.folder import SuiteFolder

ONE_IN = 4  # of a quick look


@dataclass(frozen=True)
class Judged:
    """A script, and what the doctor said of it after its replays."""

    script: Script
    fixed: bool
    diagnosis: Diagnosis

    @property
    def found(self) -> dict[str, Finding]:
        """By check; of several the first, which is the worst."""
        return {one.check: one for one in reversed(self.diagnosis.findings)}

    @property
    def false(self) -> list[str]:
        """What was found and is not there."""
        allowed = frozenset() if self.fixed else self.script.expect | self.script.also
        return sorted(set(self.found) - allowed)


def table(quick: bool = False, names: Sequence[str] = (), twins: bool = True) -> dict[str, object]:
    """Prints the table and gives it back; `names`: only scripts whose names hold one of these."""
    broken, correct = scripts("broken", CUDA_CORPUS), scripts("correct", CUDA_CORPUS)
    if names:
        broken, correct = (
            tuple(one for one in some if any(part in one.name for part in names)) for some in (broken, correct)
        )
    elif quick:
        broken, correct = broken[::ONE_IN], correct[::ONE_IN]
    rows: list[dict[str, object]] = []
    with clinic() as opened:
        here = Here(opened.servers, machine_facts(opened.servers))
        if not here.facts.gpus:
            print("\nDoctor on a GPU: there is none here, so nothing was run")
            return {"gpu": None}
        print(f"\nDoctor on {here.facts.gpus[0].name}: {len(broken)} broken scripts, and {len(correct)} correct ones")
        for script in broken:
            sick = _judged(opened, here, script)
            rows.append(_print(sick, _judged(opened, here, script, fixed=True) if twins else None))
        sound = [_judged(opened, here, script) for script in correct]
    for one in sound:
        print(f"  {one.script.name:<28}correct  {'silent' if not one.false else 'FALSE ' + ', '.join(one.false)}")
    false = [f"{one.script.name}: {name}" for one in sound for name in one.false]
    false += [str(text) for row in rows for text in row["false"]]  # type: ignore[attr-defined]
    found = sum(bool(row["found"]) for row in rows)
    proved = sum(row["proof"] in ("observed", "replayed") for row in rows)
    print(f"{found} of {len(rows)} planted mistakes found, {proved} proved, {len(false)} findings that are not there")
    for text in false:
        print(f"    false   {text}")
    return {"gpu": here.facts.gpus[0].name, "rows": rows, "correct": len(sound), "false": false}


def _judged(opened: Clinic, here: Here, script: Script, fixed: bool = False) -> Judged:
    examined = opened.examine(script, fixed=fixed, device="cuda")
    diagnosis = examined.diagnosis
    outcome = examined.case.run.outcome
    if outcome is None or outcome.kind != "finished":
        print(f"  {script.name}{', fixed' if fixed else ''} did not get through: {outcome.sentence if outcome else ''}")
    if any(one.change for one in diagnosis.findings):
        folder = Path(tempfile.mkdtemp(dir=opened.folder))
        make = maker(SuiteFolder(folder), here, Tolerant())
        try:
            diagnosis = replay_findings(examined.case, diagnosis, make)
        except Exception as error:  # one script that cannot be replayed must not end the table
            print(f"  {script.name}: the replays failed: {type(error).__name__}: {error}")
        shutil.rmtree(folder, ignore_errors=True)
    return Judged(script, fixed, diagnosis)


def _print(sick: Judged, twin: Judged | None) -> dict[str, object]:
    """One line for each planted mistake."""
    (expected,) = sick.script.expect
    finding = sick.found.get(expected)
    price = finding.price if finding else None
    told = "no price"
    if price is not None:
        interval = f" [{price.low:.3g}, {price.high:.3g}]" if price.low is not None and price.high is not None else ""
        told = f"{price.value:.3g}{interval} {price.unit}"
    false = [
        f"{one.script.name}{', fixed' if one.fixed else ''}: {name}"
        for one in (sick, twin)
        if one
        for name in one.false
    ]
    silent = "not run" if twin is None else "silent" if not twin.false else "NOT SILENT"
    verdict = finding.proof if finding else "MISSED"
    print(f"  {sick.script.name:<28}{expected:<24}{verdict:<11}{told:<44}twin {silent}", flush=True)
    _explain(sick, expected, finding)
    return {
        "script": sick.script.name,
        "check": expected,
        "found": finding is not None,
        "proof": finding.proof if finding else None,
        "sentence": finding.sentence if finding else "",
        "evidence": list(finding.evidence) if finding else [],
        "price": vars(price) if price else None,
        "twin": silent,
        "false": false,
    }


def _explain(sick: Judged, expected: str, finding: Finding | None) -> None:
    """Why a mistake was missed or could not be proved."""
    if finding is None:
        reasons = [one.reason for one in sick.diagnosis.unchecked if one.check == expected]
        print(f"      {reasons[0] if reasons else 'the check passed'}")
    elif finding.proof == "suspected":
        for fact in finding.evidence:
            print(f"      - {fact}")
