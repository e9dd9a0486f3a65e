"""The picture of the rooms is drawn from the source as it is, and can be read."""

import importlib.util
import re
import xml.etree.ElementTree as ET
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).parent.parent / "docs"
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("draw_architecture", FOLDER / "draw_architecture.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def numbers(picture: str) -> list[int]:
    """The sizes that the picture tells, in its order."""
    texts = re.findall(r'class="size"[^>]*>([^<]*)', picture)
    return [int(number.replace(",", "")) for text in texts for number in re.findall(r"[\d,]*\d", text)]


def test_the_picture_shows_the_rooms_and_values_that_the_source_has(script):
    old, new = (FOLDER / "architecture.svg").read_text(encoding="utf-8"), script.draw()
    assert script.structure(old) == script.structure(new), "draw it again: make picture"
    for told, found in zip(numbers(old), numbers(new), strict=True):
        assert told / 1.6 <= found <= told * 1.6, "a room has grown or shrunk by half: make picture"


def test_a_further_value_or_import_changes_the_picture(script, monkeypatch):
    drawn = script.draw()
    monkeypatch.setattr(script, "VALUES", (*script.VALUES, "Suite"))
    assert script.structure(script.draw()) != script.structure(drawn)
    monkeypatch.setattr(script, "stairs", lambda: ["launch", "plan", "analysis", "jobs"])
    read = script.read_room
    monkeypatch.setattr(script, "read_room", lambda name: read("cli" if name == "launch" else name))
    with pytest.raises(SystemExit, match=r"cli imports .*, which lie below it"):
        script.draw()


def test_no_text_of_the_picture_leaves_it_or_covers_another(script):
    """Widths are estimated with the widest of the usual fonts; lines of text are 11 to 15 high."""
    texts = []
    for one in ET.fromstring(script.draw()).iter(f"{SVG}text"):
        kinds = one.attrib["class"].split()
        size = {"name": 15.0, "title": 13.0, "value": 12.0, "prompt": 12.0}.get(kinds[0], 11.5)
        width = len(one.text or "") * size * (script.MONO if "mono" in kinds else script.LETTER)
        left = float(one.attrib["x"]) - width * {"start": 0.0, "middle": 0.5, "end": 1.0}[one.attrib["text-anchor"]]
        base = float(one.attrib["y"])
        texts.append((left, base - 0.75 * size, left + width, base + 0.2 * size, one.text))
    assert len(texts) > 40
    for number, (left, top, right, bottom, text) in enumerate(texts):
        assert left >= 10 and right <= script.WIDTH - 10, text
        for other_left, other_top, other_right, other_bottom, other in texts[number + 1 :]:
            apart = right <= other_left or other_right <= left or bottom <= other_top or other_bottom <= top
            assert apart, f"{text} | {other}"
