"""Reads the script's own names from the lines that were seen, as a fix in these names is easier to follow."""

import re

from scalewise.doctor.case import RankCase
from scalewise.records.examination import PlaceRow, WrapperRow
from scalewise.records.notes import Note, StepNote, ZeroNote

_NAME = r"[A-Za-z_][\w.]*(?:\[[\w\"']+\])?"


def text_of(place: PlaceRow | None, otherwise: str) -> str:
    """Returns the line without its comment, or `otherwise` if the line is not known."""
    text = place.text if place is not None else ""
    return re.sub(r"\s+#[^\"']*$", "", text) or otherwise


def assigned(place: PlaceRow | None, otherwise: str) -> str:
    """Returns the name that a line gives to what it makes: `model` in `model = DDP(net)`."""
    found = re.match(rf"({_NAME})\s*(?::[^=]+)?=[^=]", text_of(place, ""))
    return found.group(1) if found else otherwise


def called_on(place: PlaceRow | None, method: str, otherwise: str) -> str:
    """Returns the name that a method is called on: `optimizer` in `optimizer.step()`."""
    found = re.search(rf"({_NAME})\.{method}\(", text_of(place, ""))
    return found.group(1) if found else otherwise


def loader_name(rank: RankCase, note: Note | None) -> str:
    """Returns the script's name for the loader that it iterates: `loader` in `for i, x in enumerate(loader):`."""
    found = re.search(rf"\bin (?:enumerate\(|tqdm\()*({_NAME})\b(?!\()", text_of(rank.place(note), ""))
    return found.group(1) if found else "loader"


def wrapper_name(rank: RankCase, wrapper: WrapperRow | None) -> str:
    """Returns the script's name for its wrapped model."""
    return assigned(rank.places.get(wrapper.place) if wrapper is not None else None, "model")


def optimizer_name(rank: RankCase, note: Note | None) -> str:
    """Returns the script's name for the optimizer that was stepped or zeroed."""
    method = "step" if isinstance(note, StepNote) else "zero_grad"
    name = called_on(rank.place(note), method, "optimizer")
    by_another = note.scaled if isinstance(note, StepNote) else isinstance(note, ZeroNote) and note.optimizer < 0
    return "optimizer" if by_another else name


def divided(backward: PlaceRow | None, by: str) -> str:
    """Returns the line that calls backward, with its loss divided: `(loss / 4).backward()`."""
    text = text_of(backward, "loss.backward()")
    scaled = re.search(rf"^(.*\.scale\()({_NAME})(\)\.backward\(.*)$", text)
    if scaled:
        return f"{scaled.group(1)}{scaled.group(2)} / {by}{scaled.group(3)}"
    plain = re.search(rf"^(.*?)({_NAME})(\.backward\(.*)$", text)
    if plain and not re.search(r"[\w)\]]$", plain.group(1)):
        return f"{plain.group(1)}({plain.group(2)} / {by}){plain.group(3)}"
    return f"(loss / {by}).backward()"


def micro_batches_text(count: int) -> str:
    """Returns `1 micro-batch is`, `2 micro-batches are`."""
    return "1 micro-batch is" if count == 1 else f"{count} micro-batches are"


def called_model(place: PlaceRow | None, otherwise: str = "model") -> str:
    """Returns the script's name for the model that a line calls: `self.model` in `logits, loss = self.model(x, y)`."""
    names = re.findall(rf"({_NAME})\(", text_of(place, ""))
    return next((name for name in names if re.search(r"model|net", name.rsplit(".", 1)[-1], re.IGNORECASE)), otherwise)
