"""Tests of the pointer to the line that keeps a loss."""

import pytest

from scalewise.doctor.retained_loss import line_that_keeps
from scalewise.records.examination import PlaceRow


@pytest.mark.parametrize(
    ("lines", "fix"),
    [
        (["loss.backward()", "total += loss"], "total += loss.detach()"),
        (["(loss / 4).backward()", "losses.append(loss)"], "losses.append(loss.detach())"),
        (["scaler.scale(loss).backward()", "total = total + loss"], "total = total + loss.detach()"),
        (["loss = full / 4", "loss.backward()", "sums[0] += full.mean()"], "sums[0] += full.detach().mean()"),
        (["out.loss.backward()", "kept.append({'loss': out.loss})"], "kept.append({'loss': out.detach().loss})"),
    ],
)
def test_the_line_that_keeps_is_pointed_to(tmp_path, lines, fix):
    keeping = line_that_keeps(script(tmp_path, lines))
    assert (keeping.fix, keeping.place.line) == (fix, len(lines) + 1)


@pytest.mark.parametrize(
    "line", ["total += loss.item()", "losses.append(float(loss))", "n += loss.size(0)", "n += loss.shape[0]", "x = 1"]
)
def test_a_line_that_lets_go_is_not_pointed_to(tmp_path, line):
    assert line_that_keeps(script(tmp_path, ["loss.backward()", line])) is None


def test_a_script_that_cannot_be_read_has_no_such_line(tmp_path):
    assert line_that_keeps(None) is None
    assert line_that_keeps(PlaceRow(0, str(tmp_path / "gone.py"), 1, "f", "")) is None
    (tmp_path / "bad.py").write_text("def (")
    assert line_that_keeps(PlaceRow(0, str(tmp_path / "bad.py"), 1, "f", "")) is None


def script(folder, lines):
    """The place of the backward pass in a function of these lines."""
    path = folder / "train.py"
    path.write_text("def train():\n" + "".join(f"    {line}\n" for line in lines))
    number = next(index for index, line in enumerate(lines) if "backward" in line)
    return PlaceRow(0, str(path), number + 2, "train", lines[number])
