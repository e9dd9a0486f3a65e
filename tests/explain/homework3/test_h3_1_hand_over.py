"""H3.1: layers and hand-over as they were seen, with the script's own line where it can be read."""

from course_evidence import depth_evidence
from scalewise.explain.homework3.h3_1_hand_over import answers


def test_layers_of_each_device_are_counted():
    layers, _ = answers(depth_evidence())
    assert layers.text == "With DEPTH=6: 3 on logical:0 and 3 on logical:1, so evenly."


def test_the_line_is_quoted_from_the_script(tmp_path):
    script = tmp_path / "mp.py"
    script.write_text("\n" * 6 + "            x = x.to(layer_device)\n")
    _, where = answers(depth_evidence(script=str(script)))
    assert "Line 7 of mp.py: `x = x.to(layer_device)` copied once" in where.text
    assert "logical:0 to logical:1" in where.text


def test_a_script_that_is_gone_leaves_its_line_number():
    _, where = answers(depth_evidence(script="/nowhere/mp.py"))
    assert "Line 7 of mp.py copied once" in where.text
