"""Tests of the one error a user can cause."""

from scalewise.errors import BadRequest, did_you_mean


def test_a_near_word_is_offered():
    assert did_you_mean("rnaks", ["ranks", "repeat"]) == "did you mean 'ranks'?"


def test_nothing_is_offered_when_no_word_is_near():
    assert did_you_mean("zzz", ["ranks", "repeat"]) == ""
    assert did_you_mean("ranks", []) == ""


def test_a_bad_request_reads_as_its_sentence_and_keeps_its_hint():
    error = BadRequest("It is wrong.", "Do this.")
    assert (str(error), error.sentence, error.hint) == ("It is wrong.", "It is wrong.", "Do this.")
