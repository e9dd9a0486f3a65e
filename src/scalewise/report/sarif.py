"""Renders a diagnosis as SARIF 2.1.0, so that editors and code hosts show each finding at its line."""

import hashlib
import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

from scalewise import __version__
from scalewise.doctor.finding import Check, Diagnosis, Finding, Unchecked, price_text, root_of, rules, sure_text
from scalewise.records.examination import PlaceRow
from scalewise.report.view import plain_text

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
ROOT = "SRCROOT"
LEVELS = {"wrong": "error", "slow": "warning", "note": "note"}


def write_sarif(path: Path, diagnosis: Diagnosis) -> None:
    """Writes the log, and makes its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(sarif_log(diagnosis), indent=1) + "\n", encoding="utf-8")


def sarif_log(diagnosis: Diagnosis) -> dict[str, Any]:
    """Returns the log with one run: all checks as rules, findings as results, checks not made as notifications."""
    root = root_of(Path(diagnosis.script))
    checks = [rule.check for rule in rules()]
    driver = {
        "name": "scalewise doctor",
        "semanticVersion": __version__,
        "rules": [_rule(check) for check in checks],
    }
    numbers = {check.name: number for number, check in enumerate(checks)}
    invocation: dict[str, Any] = {
        "executionSuccessful": True,
        "exitCode": diagnosis.exit_code,
        "toolExecutionNotifications": [_notification(one, numbers) for one in diagnosis.unchecked],
    }
    run = {
        "tool": {"driver": driver},
        "invocations": [invocation],
        "originalUriBaseIds": {ROOT: {"uri": f"{root.as_uri().rstrip('/')}/"}},
        "columnKind": "unicodeCodePoints",
        "results": [_result(one, diagnosis, numbers, root) for one in diagnosis.findings],
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(check: Check) -> dict[str, Any]:
    silent = f"\n\n{check.silent}" if check.silent else ""
    needs = f"Needs {check.needs}."
    fixed = f"The mistake:\n\n```python\n{check.example}\n```\n\nFixed:\n\n```python\n{check.fix}\n```"
    return {
        "id": check.name,
        "name": "".join(word.capitalize() for word in check.name.split("-")),
        "shortDescription": {"text": check.detects},
        "fullDescription": {"text": f"{check.detects} {check.why}"},
        "help": {
            "text": f"{check.why}\n\nThe mistake:\n{check.example}\n\nFixed:\n{check.fix}\n\n{needs}{silent}",
            "markdown": f"{check.why}\n\n{fixed}\n\n{needs}{silent}",
        },
        "defaultConfiguration": {"level": LEVELS[check.severity]},
        "properties": {
            "tags": [check.group],
            "problem.severity": LEVELS[check.severity].replace("note", "recommendation"),
        },
    }


def _result(finding: Finding, diagnosis: Diagnosis, numbers: dict[str, int], root: Path) -> dict[str, Any]:
    """Returns one finding; without a line it is placed at the script's first, as code hosts drop what has no place."""
    head = PlaceRow(0, diagnosis.script, 1, "<module>", "")
    price = [f"Price: {price_text(finding.price)}."] if finding.price else []
    lines = [finding.sentence, *(f"- {fact}" for fact in finding.evidence), f"Proof: {sure_text(finding)}.", *price]
    lines += [f"Fix:\n{finding.fix}"] if finding.fix else []
    level = "note" if finding.proof == "suspected" else LEVELS[finding.severity]
    result: dict[str, Any] = {
        "ruleId": finding.check,
        "level": level,
        "message": {"text": plain_text("\n".join(lines))},
        "locations": [_location(finding.where or head, root)],
        "partialFingerprints": {"findingOfLine/v1": _fingerprint(finding, root)},
        "properties": {"proof": finding.proof, "severity": finding.severity, "stepsSeen": finding.steps_seen},
    }
    if finding.check in numbers:
        result["ruleIndex"] = numbers[finding.check]
    if finding.also:
        result["relatedLocations"] = [_location(place, root) for place in finding.also]
    if finding.price:
        result["properties"]["price"] = {"value": finding.price.value, "unit": finding.price.unit}
    return result


def _location(place: PlaceRow, root: Path) -> dict[str, Any]:
    region: dict[str, Any] = {"startLine": max(1, place.line)}
    if place.text:
        region["snippet"] = {"text": place.text}
    location: dict[str, Any] = {"physicalLocation": {"artifactLocation": _artifact(place.file, root), "region": region}}
    if not place.function.startswith("<"):
        location["logicalLocations"] = [{"name": place.function, "kind": "function"}]
    return location


def _artifact(file: str, root: Path) -> dict[str, str]:
    path = Path(file)
    if path.is_relative_to(root):
        return {"uri": quote(path.relative_to(root).as_posix()), "uriBaseId": ROOT}
    return {"uri": path.as_uri() if path.is_absolute() else quote(path.as_posix())}


def _fingerprint(finding: Finding, root: Path) -> str:
    """Returns the same value for the same finding on the same text, even if the line has moved in its file."""
    place = finding.where
    parts = [finding.check, *([_artifact(place.file, root)["uri"], place.function, place.text] if place else [])]
    return hashlib.sha256("\0".join(parts).encode("utf-8", errors="replace")).hexdigest()[:32]


def _notification(unchecked: Unchecked, numbers: dict[str, int]) -> dict[str, Any]:
    rule: dict[str, Any] = {"id": unchecked.check}
    if unchecked.check in numbers:
        rule["index"] = numbers[unchecked.check]
    return {
        "level": "note",
        "message": {"text": plain_text(f"{unchecked.check} was not checked: {unchecked.reason}")},
        "associatedRule": rule,
    }
