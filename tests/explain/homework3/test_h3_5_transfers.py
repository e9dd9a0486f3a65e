"""H3.5: N - 1 is said where it was counted, and not where it was not."""

from course_evidence import devices_evidence
from scalewise.explain.homework3.h3_5_transfers import answers


def test_blocks_hand_over_one_time_less_than_there_are_devices():
    (answer,) = answers(devices_evidence())
    assert answer.text.startswith("N - 1 copies in one forward pass (0 on 1 device, 1 on 2 devices and 4 on 5 devices)")
    assert "one activation, 256 B" in answer.text


def test_layers_dealt_out_one_by_one_move_data_more_often():
    (answer,) = answers(devices_evidence(alternate=True))
    assert answer.text.startswith("Not N - 1: 0 on 1 device, 19 on 2 devices and 19 on 5 devices")
