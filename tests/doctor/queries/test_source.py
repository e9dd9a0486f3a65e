"""Tests of reading names from the script's own lines."""

import pytest
from case_factory import Sheet, make_case, make_wrapper

from scalewise.doctor.queries.source import (
    assigned,
    called_on,
    divided,
    line_that_keeps,
    loader_name,
    optimizer_name,
    text_of,
    wrapper_name,
)
from scalewise.records.examination import PlaceRow


def line(text):
    return PlaceRow(0, "train.py", 3, "main", text)


@pytest.mark.parametrize(
    ("text", "fixed"),
    [
        ("loss.backward()", "(loss / 4).backward()"),
        ("self.loss.backward(retain_graph=True)", "(self.loss / 4).backward(retain_graph=True)"),
        ("scaler.scale(loss).backward()", "scaler.scale(loss / 4).backward()"),
        ("if train: loss.backward()", "if train: (loss / 4).backward()"),
        ("fabric.backward(loss)", "fabric.backward(loss / 4)"),
        (
            "self.accelerator.backward(total, retain_graph=True)",
            "self.accelerator.backward(total / 4, retain_graph=True)",
        ),
        ("trainer.backward(out.loss)", "trainer.backward(out.loss / 4)"),
        ("out.backward(weights)", "(out / 4).backward(weights)"),
        ("criterion(model(x), y).backward()", "(loss / 4).backward()"),
        ("", "(loss / 4).backward()"),
    ],
)
def test_a_backward_call_with_its_loss_divided(text, fixed):
    assert divided(line(text), "4") == fixed


@pytest.mark.parametrize(
    ("text", "name"),
    [("model = DDP(net)", "model"), ("self.model: Any = DDP(net)", "self.model"), ("if x == 3:", "it"), ("f(x)", "it")],
)
def test_the_name_that_a_line_gives(text, name):
    assert assigned(line(text), "it") == name


def test_names_of_the_script():
    sheet = Sheet().forward().backward().zero(line="self.opt.zero_grad()").step(line="self.opt.step()")
    sheet.row(make_wrapper(place=sheet.place("net = DDP(net, device_ids=[0])")))
    rank = make_case(sheet).first
    assert optimizer_name(rank, rank.windows[0].step) == "self.opt"
    assert optimizer_name(rank, rank.windows[0].zeros[0]) == "self.opt"
    assert wrapper_name(rank, rank.wrappers[0]) == "net" and wrapper_name(rank, None) == "model"
    assert text_of(None, "x") == "x" and called_on(None, "step", "opt") == "opt"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("for i, (x, y) in enumerate(self.train_loader, 1):", "self.train_loader"),
        ("for batch in loader:", "loader"),
        ("for batch in tqdm(enumerate(data)):", "data"),
        ("for batch in make_loader():", "loader"),
        ("batch = next(iterator)", "loader"),
    ],
)
def test_the_name_of_a_loader(text, name):
    rank = make_case(Sheet().batch(line=text).forward().backward().step()).first
    assert loader_name(rank, rank.windows[0].batches[0]) == name


def test_a_comment_is_no_part_of_a_line():
    assert text_of(line("loss.backward()  # scaled"), "") == "loss.backward()"
    assert text_of(line('print("# loss")'), "") == 'print("# loss")'


def test_a_step_through_a_scaler_does_not_name_the_scaler():
    rank = make_case(Sheet().window(step={"line": "scaler.step(optimizer)", "scaled": True})).first
    assert optimizer_name(rank, rank.windows[0].step) == "optimizer"


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
    kept = line_that_keeps(script(tmp_path, lines))
    assert (kept.fix, kept.place.line) == (fix, len(lines) + 1)


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
