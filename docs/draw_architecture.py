"""Draws docs/architecture.svg from the source: rooms in the order of the stairs, the values between them, and a rank.

`make picture` runs this. It reads the source with `ast` and imports nothing of it: the order of the rooms from
`tests/test_architecture.py`, what a room is for from the first clause of its docstring, imports and sizes from its
files, and names of files from `records/folder.py`. A room makes a value if it calls the class, and takes it if it
imports the class. A room that imports one below it on the stairs is an error.
"""

import ast
import html
import math
import re
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parent / "src" / "scalewise"
RULES = HERE.parent / "tests" / "test_architecture.py"
PICTURE = HERE / "architecture.svg"

FLOOR = ("records", "errors", "units")
UPPER = (
    2  # the first rooms, which stand beside the run folder and the rank; `records`, which reads it, comes after them
)
VALUES = ("Run", "Analysis", "Predicted", "Diagnosis", "Section", "Document")
# Attributes of `RunFolder`, by who writes them: the parent before the start, the ranks, the parent at the end.
FILES = (("spec", "machine"), ("rank", "pulses", "stdout"), ("samples", "outcome"))

WIDTH, EDGE = 900, 10
BOX_WIDTH, BOX_HEIGHT, PITCH, STEP = 266, 50, 60, 11
BOX_X, UPPER_Y, UPPER_PITCH = 40, 56, 104
SPLIT = 330  # y at which the upper part ends
LOWER_Y = SPLIT + 26
FOLDER_X, FOLDER_Y, FOLDER_WIDTH = 382, 44, 150
RANK_X, RANK_Y = 576, 10
COLUMN_X, COLUMN_STEP = 470, 72
SMALL, LETTER, MONO = 11.5, 0.515, 0.61  # a size of letters, and their mean widths in parts of their size

STYLE = """
text { font-family: system-ui, -apple-system, "Segoe UI", "Noto Sans", "DejaVu Sans", sans-serif; fill: #1f2328; }
.mono { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; }
.name { font-weight: 650; font-size: 15px; } .what { font-size: 11.5px; fill: #59636e; }
.size, .label { font-size: 11px; fill: #59636e; } .title { font-size: 13px; font-weight: 650; }
.panel { fill: #f6f8fa; stroke: #d1d9e0; } .rank { fill: #fff5e8; stroke: #e6c79c; }
.box { fill: #ffffff; stroke: #b7c0c9; } .inner { fill: #ffffff; stroke: #e6c79c; }
.folder { fill: #fdf6d8; stroke: #d8c46a; } .rule { stroke: #d8c46a; }
.line { stroke: #6e7781; fill: none; stroke-width: 1.5; } .head { fill: #6e7781; } .call { stroke-dasharray: 2 3; }
.typed { fill: #1f2328; } .prompt { fill: #f0f6fc; font-size: 12px; }
.value { fill: #ffffff; font-size: 12px; font-weight: 600; }
"""
DARK = """
text { fill: #f0f6fc; } .what, .size, .label { fill: #a6aeb8; }
.panel { fill: #151b23; stroke: #3d444d; } .rank { fill: #2a2013; stroke: #7a5c2e; }
.box { fill: #212830; stroke: #525b66; } .inner { fill: #352a1a; stroke: #7a5c2e; }
.folder { fill: #2c2912; stroke: #85772f; } .rule { stroke: #85772f; }
.value { fill: #0d1117; } .typed { fill: #010409; stroke: #3d444d; }
.line { stroke: #9198a1; } .head { fill: #9198a1; }
"""
LIGHT_COLOURS = ("#0969da", "#1a7f37", "#8250df", "#cf222e", "#bc4c00", "#0e7490", "#9a6700", "#bf3989")
DARK_COLOURS = ("#4493f8", "#3fb950", "#ab7df8", "#f85149", "#db6d28", "#22b8cf", "#d29922", "#db61a2")


@dataclass(frozen=True)
class Room:
    """A folder of the source, or one of the two files beside the folders."""

    name: str
    what: str  # first clause of its docstring
    files: int
    lines: int
    imports: frozenset[str]  # other rooms
    makes: frozenset[str]  # classes that it calls
    takes: frozenset[str]  # classes that it imports


@cache
def parsed(path: Path) -> ast.Module:
    """Returns the syntax tree of a file."""
    return ast.parse(path.read_text(encoding="utf-8"))


def stairs() -> list[str]:
    """Returns the rooms of the parent process in the order that the test of imports checks."""
    for node in parsed(RULES).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "STAIRS":
            return list(ast.literal_eval(node.value))
    raise SystemExit(f"{RULES} has no list STAIRS")


def first_clause(path: Path) -> str:
    """Returns the docstring up to its first colon, semicolon, or the end of its first sentence."""
    text = " ".join((ast.get_docstring(parsed(path)) or "").split())
    return re.split(r"[:;]|\. |\.$", text)[0]


def imported(node: ast.AST) -> list[tuple[str, str]]:
    """Returns the rooms and names that an import of our own source brings in."""
    if isinstance(node, ast.Import):
        return [(alias.name.split(".")[1], "") for alias in node.names if alias.name.startswith("scalewise.")]
    if not isinstance(node, ast.ImportFrom) or (node.module or "").split(".")[0] != "scalewise":
        return []
    parts = (node.module or "").split(".")
    return [(parts[1] if len(parts) > 1 else alias.name, alias.name) for alias in node.names]


def read_room(name: str) -> Room:
    """Reads all files of a room."""
    folder, single = SOURCE / name, SOURCE / f"{name}.py"
    files = sorted(folder.rglob("*.py")) if folder.is_dir() else [single]
    imports, makes, takes, lines = set(), set(), set(), 0
    for file in files:
        lines += len(file.read_text(encoding="utf-8").splitlines())
        for node in ast.walk(parsed(file)):
            for room, symbol in imported(node):
                imports.add(room)
                takes |= {symbol} - ({symbol} if room == name else set())
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                makes.add(node.func.id)
    what = first_clause(folder / "__init__.py" if folder.is_dir() else single)
    return Room(name, what, len(files), lines, frozenset(imports - {name}), frozenset(makes), frozenset(takes))


def checked(rooms: list[Room]) -> list[Room]:
    """Returns the rooms if every import goes up the stairs; ends with the first that does not."""
    above = set(FLOOR)
    for room in rooms:
        below = room.imports & {one.name for one in rooms} - above
        if below:
            raise SystemExit(f"{room.name} imports {', '.join(sorted(below))}, which lie below it on the stairs")
        above.add(room.name)
    return rooms


def file_names() -> dict[str, str]:
    """Returns the names of the files of a run by the attribute of `RunFolder`: rank -> rank{N}.jsonl."""
    (folder,) = [
        one for one in parsed(SOURCE / "records" / "folder.py").body if getattr(one, "name", "") == "RunFolder"
    ]
    names = {}
    for method in ast.walk(folder):
        if isinstance(method, ast.FunctionDef) and isinstance(method.body[-1], ast.Return):
            value = method.body[-1].value
            if isinstance(value, ast.BinOp) and isinstance(value.right, ast.Constant | ast.JoinedStr):
                names[method.name] = ast.unparse(value.right).strip("f'\"").replace("{rank}", "{N}")
    return names


def rounded(number: int) -> str:
    """Returns a size with one digit, two if it begins with 1: 95 -> 95, 10352 -> 10,000."""
    digits = 2 if str(number)[0] == "1" else 1
    unit = 10 ** max(0, int(math.log10(number)) + 1 - digits)
    return f"{round(number / unit) * unit:,}"


def size(room: Room) -> str:
    """Returns the size for people; it may be a little old, as it changes with every commit."""
    files = "1 file" if room.files == 1 else f"{rounded(room.files)} files"
    return f"{files}, {rounded(room.lines)} lines"


class Drawing:
    """Pieces of an SVG."""

    def __init__(self) -> None:
        self.pieces: list[str] = []

    def text(self, x: float, y: float, text: str, kind: str, anchor: str = "start") -> None:
        """Adds one line of text."""
        self.pieces.append(
            f'<text x="{x:g}" y="{y:g}" class="{kind}" text-anchor="{anchor}">{html.escape(text)}</text>'
        )

    def line(self, x: float, y: float, text: str, width: float) -> None:
        """Adds a line of small text, which must fit."""
        if len(text) * SMALL * LETTER > width:
            raise SystemExit(f"too long for its box, shorten the first clause of the docstring: {text}")
        self.text(x, y, text, "what")

    def rect(self, x: float, y: float, width: float, height: float, kind: str, round_by: float = 7) -> None:
        """Adds a box with round corners."""
        self.pieces.append(
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="{round_by:g}" class="{kind}"/>'
        )

    def path(self, d: str, kind: str = "line") -> None:
        """Adds a path."""
        self.pieces.append(f'<path d="{d}" class="{kind}"/>')

    def head(self, x: float, y: float, towards: str, colour: str = "") -> None:
        """Adds the head of an arrow whose tip is at this point."""
        dx, dy = {"left": (6, 4), "right": (-6, 4), "down": (4, -6), "up": (4, 6)}[towards]
        points = (
            f"{x + dx:g},{y - dy:g} {x + dx:g},{y + dy:g}"
            if towards in ("left", "right")
            else (f"{x - dx:g},{y + dy:g} {x + dx:g},{y + dy:g}")
        )
        self.pieces.append(f'<polygon points="{x:g},{y:g} {points}" class="head{colour}"/>')


def box_place(index: int) -> tuple[float, float]:
    """Returns the upper left corner of a room's box."""
    y = UPPER_Y + index * UPPER_PITCH if index < UPPER else LOWER_Y + (index - UPPER) * PITCH
    return BOX_X + index * STEP, y


def draw_box(drawing: Drawing, room: Room, x: float, y: float, width: float, height: float) -> None:
    """Draws a room: its name, its size and what it is for."""
    drawing.rect(x, y, width, height, "box")
    drawing.text(x + 10, y + 20, room.name, "name mono")
    drawing.text(x + width - 10, y + 19, size(room), "size", "end")
    drawing.line(x + 10, y + 38, room.what, width - 14)


def draw_rooms(drawing: Drawing, rooms: list[Room]) -> None:
    """Draws the boxes, and the dashed line from `jobs` to every room that it calls."""
    for index, room in enumerate(rooms):
        x, y = box_place(index)
        draw_box(drawing, room, x, y, BOX_WIDTH, BOX_HEIGHT)
    (jobs,) = (index for index, room in enumerate(rooms) if room.name == "jobs")
    called = [index for index, room in enumerate(rooms) if room.name in rooms[jobs].imports]
    bus, middle = 24, BOX_HEIGHT / 2
    drawing.path(f"M{box_place(jobs)[0]:g} {box_place(jobs)[1] + middle:g}H{bus}V{UPPER_Y + middle:g}", "line call")
    for index in called:
        x, y = box_place(index)
        drawing.path(f"M{bus} {y + middle:g}H{x - 5:g}", "line call")
        drawing.head(x, y + middle, "right")


def draw_folder(drawing: Drawing, names: dict[str, str]) -> dict[str, float]:
    """Draws the run folder and returns the height of each of its files."""
    x, y, width = FOLDER_X, FOLDER_Y, FOLDER_WIDTH
    height = 44 + 20 * sum(map(len, FILES)) + 14 * (len(FILES) - 1)
    drawing.path(
        f"M{x} {y + 6}q0 -6 6 -6h48l8 8h{width - 68}q6 0 6 6v{height - 20}q0 6 -6 6h-{width - 12}q-6 0 -6 -6z", "folder"
    )
    drawing.text(x + width / 2, y + 28, "run folder", "title", "middle")
    at, places = y + 50.0, {"bottom": y + height}
    for number, group in enumerate(FILES):
        if number:
            drawing.path(f"M{x + 10} {at - 19:g}h{width - 20}", "rule")
        for attribute in group:
            drawing.text(x + width / 2, at, names[attribute], "what mono", "middle")
            places[attribute] = at - 4
            at += 20
        at += 14
    return places


def draw_rank(drawing: Drawing, watch: Room) -> None:
    """Draws the process of a rank: the script, the watcher in it, and the parts of the watcher."""
    x, y, width = RANK_X, RANK_Y, WIDTH - EDGE - RANK_X
    for shift in (8, 4, 0):
        drawing.rect(x + shift, y + shift, width - 8, SPLIT - 2 * EDGE - 8 + 2, "rank", 10)
    drawing.text(x + 14, y + 22, "rank 0, 1, ...", "title")
    drawing.text(x + width - 22, y + 22, "a process each, with torch", "label", "end")
    drawing.rect(x + 12, y + 34, width - 32, 30, "inner")
    drawing.text(x + 24, y + 54, "train.py", "name mono")
    drawing.text(x + width - 32, y + 53, "your script, unchanged", "what", "end")
    drawing.rect(x + 12, y + 76, width - 32, 214, "inner")
    drawing.text(x + 24, y + 97, watch.name, "name mono")
    drawing.text(x + width - 32, y + 96, size(watch), "size", "end")
    drawing.text(x + 24, y + 114, watch.what, "what")
    parts = sorted(one for one in (SOURCE / "watch").iterdir() if (one / "__init__.py").is_file())
    pitch = 167 / len(parts)
    for number, part in enumerate(parts):
        at = y + 138 + number * pitch
        drawing.text(x + 24, at, part.name, "what mono")
        drawing.line(x + 110, at, first_clause(part / "__init__.py"), width - 131)


def draw_values(drawing: Drawing, rooms: list[Room]) -> None:
    """Draws a line for each value, from the rooms that make it to those that take it."""
    makers = {value: [i for i, room in enumerate(rooms) if value in room.makes] for value in VALUES}
    if nobody := [value for value in VALUES if not makers[value]]:
        raise SystemExit(f"no room makes {', '.join(nobody)}: put the new name into VALUES")
    ordered = sorted(VALUES, key=lambda value: (makers[value][0], VALUES.index(value)))
    lines, pills = Drawing(), Drawing()
    for column, value in enumerate(ordered):
        colour, x = f" v{column}", COLUMN_X + column * COLUMN_STEP
        offset = 7 + column * (BOX_HEIGHT - 14) / (len(VALUES) - 1)
        users = [i for i, room in enumerate(rooms) if value in room.takes and i not in makers[value]]
        heights = [box_place(i)[1] + offset for i in (*makers[value], *users)]
        lines.path(f"M{x} {min(heights):g}V{max(heights):g}", f"line{colour}")
        for index in (*makers[value], *users):
            left, y = box_place(index)[0] + BOX_WIDTH, box_place(index)[1] + offset
            begin = left if index in makers[value] else left + 5
            lines.path(f"M{begin:g} {y:g}H{x}", f"line{colour}")
            if index in users:
                lines.head(left, y, "left", colour)
        width, y = len(value) * 12 * MONO + 14, heights[0]
        pills.pieces.append(
            f'<rect x="{x - width / 2:g}" y="{y - 10:g}" width="{width:g}" height="20" rx="10" class="pill{colour}"/>'
        )
        pills.text(x, y + 4, value, "value mono", "middle")
    drawing.pieces += lines.pieces + pills.pieces


def draw_flow(drawing: Drawing, places: dict[str, float]) -> None:
    """Draws the way of a run: planned, launched, written down, read back."""
    (plan_x, plan_y), (launch_x, launch_y), (results_x, results_y) = (box_place(index) for index in range(3))
    middle = plan_x + BOX_WIDTH / 2
    drawing.path(f"M{middle:g} {plan_y + BOX_HEIGHT}V{launch_y - 5:g}")
    drawing.head(middle, launch_y, "down")
    drawing.text(middle + 9, (plan_y + BOX_HEIGHT + launch_y) / 2 + 4, "RunSpec, one for each run", "label mono")
    right, folder_right = launch_x + BOX_WIDTH, FOLDER_X + FOLDER_WIDTH
    turn = (right + FOLDER_X) / 2 + 8
    drawing.path(f"M{right:g} {launch_y + 14:g}H{turn:g}V{places['spec']:g}H{FOLDER_X - 5}")
    drawing.head(FOLDER_X, places["spec"], "right")
    drawing.path(f"M{right:g} {launch_y + 34:g}H{turn:g}V{places['outcome']:g}H{FOLDER_X - 5}")
    drawing.head(FOLDER_X, places["outcome"], "right")
    drawing.path(f"M{folder_right} {places['spec']:g}H{RANK_X - 5}")
    drawing.head(RANK_X, places["spec"], "right")
    drawing.path(f"M{RANK_X} {places['rank']:g}H{folder_right + 5}")
    drawing.head(folder_right, places["rank"], "left")
    low = SPLIT - 22
    drawing.path(f"M{launch_x + 40:g} {launch_y + BOX_HEIGHT}V{low}H{RANK_X - 5}")
    drawing.head(RANK_X, low, "right")
    drawing.text(launch_x + 50, low - 6, "starts, watches over, ends", "label")
    at, entry = FOLDER_X + 24, results_y + 12
    drawing.path(f"M{at} {places['bottom']:g}V{entry:g}H{results_x + BOX_WIDTH + 5:g}")
    drawing.head(results_x + BOX_WIDTH, entry, "left")


def draw_legend(drawing: Drawing, cli: tuple[float, float]) -> None:
    """Draws what is typed, and says what lines mean."""
    x, y, width = 590, cli[1] + 10, 284
    drawing.rect(x, y, width, 32, "typed")
    drawing.text(x + 12, y + 21, "$ scalewise run train.py --ranks 1,2", "prompt mono")
    drawing.path(f"M{x} {y + 16:g}H{cli[0] + BOX_WIDTH + 5:g}")
    drawing.head(cli[0] + BOX_WIDTH, y + 16, "left")
    told = (
        "In colour: a value, from the rooms that make it to those that take it. Dotted: what jobs calls. "
        "A room imports only rooms above it, and the floor."
    )
    drawing.text(WIDTH / 2, cli[1] + BOX_HEIGHT + 26, told, "label", "middle")


def style() -> str:
    """Returns the style sheet for light and dark pages."""

    def painted(colours: tuple[str, ...]) -> str:
        return "".join(
            f".line.v{number} {{ stroke: {one}; }} .head.v{number}, .pill.v{number} {{ fill: {one}; }}\n"
            for number, one in enumerate(colours[: len(VALUES)])
        )

    dark = f"{DARK}{painted(DARK_COLOURS)}"
    return f"<style>{STYLE}{painted(LIGHT_COLOURS)}@media (prefers-color-scheme: dark) {{{dark}}}</style>"


def draw() -> str:
    """Returns the whole picture."""
    order = stairs()
    rooms = checked([read_room(name) for name in (*order[:UPPER], FLOOR[0], *order[UPPER:])])
    floor = [read_room(name) for name in FLOOR[1:]]
    bottom = box_place(len(rooms) - 1)[1] + BOX_HEIGHT + 38
    height = bottom + BOX_HEIGHT + 32
    watch = read_room("watch")
    drawing = Drawing()
    notch, right, r = 366, WIDTH - EDGE, 10
    corner = f"q{r} 0 {r} {r}"
    drawing.path(
        f"M{EDGE + r} {EDGE}H{notch - r}{corner}V{SPLIT - r}q0 {r} {r} {r}H{right - r}{corner}V{bottom - r:g}"
        f"q0 {r} -{r} {r}H{EDGE + r}q-{r} 0 -{r} -{r}V{EDGE + r}q0 -{r} {r} -{r}z",
        "panel",
    )
    drawing.text(EDGE + 14, EDGE + 22, "scalewise", "title")
    drawing.text(notch - 12, EDGE + 22, "one process, without torch", "label", "end")
    draw_rank(drawing, watch)
    draw_rooms(drawing, rooms)
    draw_flow(drawing, draw_folder(drawing, file_names()))
    draw_values(drawing, rooms)
    draw_legend(drawing, box_place(len(rooms) - 1))
    width = (WIDTH - 2 * EDGE - 8 * (len(floor) - 1)) / len(floor)
    for index, room in enumerate(floor):
        x = EDGE + index * (width + 8)
        draw_box(drawing, room, x, bottom + 8, width, BOX_HEIGHT)
    of_watch = " and ".join(name for name in FLOOR if name in watch.imports)
    told = f"The floor: {', '.join(FLOOR[:-1])} and {FLOOR[-1]}. The watcher imports only {of_watch} of all this."
    drawing.text(WIDTH / 2, height - 8, told, "label", "middle")
    body = "\n".join(drawing.pieces)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:g}" width="{WIDTH}" height="{height:g}" '
        'role="img" aria-label="The rooms of scalewise and the values that pass between them">\n'
        f"{style()}\n{body}\n</svg>\n"
    )


def structure(picture: str) -> str:
    """Returns the picture without the sizes of rooms, which change with every commit."""
    return re.sub(r'(class="size"[^>]*>)[^<]*', r"\1", picture)


if __name__ == "__main__":
    PICTURE.write_text(draw(), encoding="utf-8")
    sys.stdout.write(f"{PICTURE}\n")
