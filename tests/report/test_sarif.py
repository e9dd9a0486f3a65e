"""Tests of SARIF: what the format requires is there, places are relative, and a moved line keeps its fingerprint."""

import dataclasses
import json
from urllib.parse import unquote, urlparse

import pytest

from diagnosis_specimen import SCRIPT, specimen_diagnosis
from scalewise.doctor.finding import Diagnosis, rules
from scalewise.report.sarif import sarif_log, write_sarif


@pytest.fixture
def log(tmp_path):
    (tmp_path / ".git").mkdir()
    folder = tmp_path / "my code"
    folder.mkdir()
    write_sarif(tmp_path / "out" / "doctor.sarif", specimen_diagnosis(folder))
    return json.loads((tmp_path / "out" / "doctor.sarif").read_text())


def test_the_log_has_what_the_format_requires(log):
    assert log["version"] == "2.1.0" and log["$schema"].endswith("sarif-2.1.0.json")
    (run,) = log["runs"]
    driver = run["tool"]["driver"]
    assert driver["name"] == "scalewise doctor" and driver["semanticVersion"]
    assert run["invocations"][0]["executionSuccessful"] is True
    for rule in driver["rules"]:
        assert rule["id"] and rule["shortDescription"]["text"] and rule["help"]["text"]
        assert rule["defaultConfiguration"]["level"] in ("error", "warning", "note")
    for result in run["results"]:
        assert result["message"]["text"] and result["locations"]
        assert result["level"] in ("error", "warning", "note")


def test_every_check_is_a_rule_and_every_result_points_to_its_own(log):
    (run,) = log["runs"]
    listed = run["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in listed] == [rule.check.name for rule in rules()]
    for result in run["results"]:
        if "ruleIndex" in result:
            assert listed[result["ruleIndex"]]["id"] == result["ruleId"]


def test_levels_follow_the_severity_and_a_suspicion_is_a_note(log):
    levels = {result["ruleId"]: result["level"] for result in log["runs"][0]["results"]}
    assert levels == {
        "loss-not-divided": "error",
        "sync-every-micro-batch": "warning",
        "scheduler-per-micro-batch": "note",
        "group-not-destroyed": "note",
    }


def test_places_are_relative_to_the_repository_and_lead_to_the_line(log, tmp_path):
    (run,) = log["runs"]
    result = run["results"][0]
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"] == {"uri": "my%20code/train.py", "uriBaseId": "SRCROOT"}
    assert place["region"]["startLine"] == 7 and place["region"]["snippet"]["text"] == "loss.backward()"
    assert result["relatedLocations"][0]["physicalLocation"]["region"]["startLine"] == 9
    base = unquote(urlparse(run["originalUriBaseIds"]["SRCROOT"]["uri"]).path)
    assert base == f"{tmp_path}/", "the base ends with a slash"
    file = tmp_path / unquote(place["artifactLocation"]["uri"])
    assert file.read_text().splitlines()[place["region"]["startLine"] - 1].strip() == "loss.backward()"


def test_a_finding_without_a_line_is_shown_at_the_head_of_the_script(log):
    result = log["runs"][0]["results"][-1]
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "my%20code/train.py" and place["region"] == {"startLine": 1}


def test_the_message_has_evidence_price_and_fix_and_no_control_characters(log):
    text = log["runs"][0]["results"][0]["message"]["text"]
    assert "- in 10 of 10 windows" in text and "Price: 4 times" in text and "loss = loss / accumulate" in text
    assert "\x1b" not in text


def test_what_was_not_checked_is_a_notification(log):
    told = log["runs"][0]["invocations"][0]["toolExecutionNotifications"]
    assert told[0]["message"]["text"] == "read-every-step was not checked: the script used no GPU"


def test_a_fingerprint_outlives_a_move_of_its_line_and_tells_findings_apart(tmp_path):
    diagnosis = specimen_diagnosis(tmp_path)
    finding = diagnosis.findings[0]
    moved = dataclasses.replace(finding, where=dataclasses.replace(finding.where, line=8))

    def prints(*findings):
        one = dataclasses.replace(diagnosis, findings=findings)
        return [result["partialFingerprints"]["findingOfLine/v1"] for result in sarif_log(one)["runs"][0]["results"]]

    assert prints(finding) == prints(moved)
    assert len(set(prints(*diagnosis.findings))) == len(diagnosis.findings)


def test_nothing_found_is_an_empty_list_of_results(tmp_path):
    (tmp_path / "train.py").write_text(SCRIPT)
    log = sarif_log(Diagnosis(str(tmp_path / "train.py"), (), (), ()))
    assert log["runs"][0]["results"] == [] and log["runs"][0]["invocations"][0]["exitCode"] == 0
