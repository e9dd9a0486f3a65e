"""A document that uses every block and every style, for tests of the renderers and for looking at them."""

from math import sin

from scalewise.explain.answer import Answer
from scalewise.report.document import (
    Bars,
    Cell,
    Code,
    Column,
    Document,
    Figure,
    Formula,
    Lane,
    Lines,
    Paragraph,
    Part,
    Section,
    Series,
    Span,
    Table,
    Timeline,
)

NASTY = "#import \"x\" $y$ <script>alert('1')</script> \\ *a* _b_ `c` @d {{body}} --> ]]> é 漢 \x1b[31m"
FORMULA = '=cmd|" /C calc"!A0'

TABLE = Table(
    id="h1-2-strong-scaling",
    title="Strong scaling at a global batch of 64",
    columns=(
        Column("case", numeric=False),
        Column("ranks"),
        Column("time/step", "ms"),
        Column("speedup"),
        Column("efficiency", "%"),
    ),
    rows=(
        (Cell("small"), Cell("1", 1), Cell("4.31 [4.20, 4.42]", 4.31, 4.2, 4.42), Cell("1.00", 1), Cell("100", 100)),
        (
            Cell("small"),
            Cell("2", 2),
            Cell("19.4 [18.8, 20.1]", 19.4, 18.8, 20.1, note="medians of 3 runs"),
            Cell("0.22 [0.21, 0.23]", 0.22, 0.21, 0.23),
            Cell("11.1 [10.6, 11.7]", 11.1, 10.6, 11.7),
        ),
        (
            Cell("small"),
            Cell("4", 4),
            Cell("27.7 [24.0, 33.1]", 27.7, 24.0, 33.1, "oversubscribed"),
            Cell("–", mark="oversubscribed", note="oversubscribed, not scaling"),
            Cell("–", mark="oversubscribed"),
        ),
        (
            Cell("large"),
            Cell("2", 2),
            Cell("182", 182, mark="emulated"),
            Cell("0.51 [0.49, 0.53]", 0.51, 0.49, 0.53, "predicted"),
            Cell("25.3", 25.3),
        ),
        (Cell("large"), Cell("4", 4), *(Cell("–", mark="failed", note="Rank 1 ran out of memory."),) * 3),
    ),
    notes=("The course asks for DIM 8192; 2048 was chosen because 8192 does not fit into 23.5 GiB.",),
    runs=(("a-ranks1-r0", "a-ranks1-r1"), ("a-ranks2-r0",), (), (), ()),
)

NASTY_TABLE = Table(
    id="../nasty id",
    title=NASTY,
    columns=(Column(NASTY, numeric=False), Column("=1+1", "m/s")),
    rows=((Cell(FORMULA, note=NASTY), Cell("-3.00", -3.0)), (Cell("+1|2"), Cell("@x"))),
    notes=(NASTY,),
)

SPEEDUP = Lines(
    "ranks",
    "speedup",
    (
        Series("ideal", (1, 4), (1, 4), style="ideal"),
        Series("Amdahl, s = 0.21", (1, 2, 3, 4), (1, 1.65, 2.11, 2.45), style="model"),
        Series("small", (1, 2), (1, 1.52), (1, 1.42), (1, 1.61)),
        Series("small", (2, 4), (1.52, 1.71), (1.42, 1.5), (1.61, 1.9), style="oversubscribed"),
        Series("large", (1, 2, 4), (1, 1.72, 2.9), (1, 1.6, 2.7), (1, 1.8, 3.1), style="emulated"),
    ),
    x_ticks=(1, 2, 4),
)
STEPS = tuple(float(step) for step in range(1, 41))
TRACE = Lines(
    "step",
    "step time (ms)",
    (
        Series("rank 0", STEPS, tuple(4 + sin(step) + (14 if step == 1 else 3 if step < 5 else 0) for step in STEPS)),
        Series("rank 1", STEPS, tuple(6 + sin(2 * step) + (9 if step < 3 else 0) for step in STEPS)),
    ),
    (Span(0.5, 5.5, "warm-up"),),
)
BAND = Lines(
    "message (bytes)",
    "time of one all-reduce (us)",
    (
        Series(
            "measured",
            tuple(4.0 * 2**power for power in range(25)),
            tuple(260 + 4 * 2**power / 980 for power in range(25)),
            tuple(200 + 4 * 2**power / 1200 for power in range(25)),
            tuple(330 + 4 * 2**power / 800 for power in range(25)),
        ),
        Series("260 us + n / 0.98 GB/s", (4, 67108864), (260, 68739), style="model"),
    ),
    log_x=True,
    log_y=True,
)
MANY = Lines(
    "batch per step",
    "samples per second",
    tuple(Series(f"a rather long name, number {n}", (32, 64, 128), (n, 2 * n, 3 * n)) for n in range(1, 9)),
    x_ticks=(32, 64, 128),
    log_x=True,
)
ANATOMY = Bars(
    ("1 rank", "2 ranks", "4 ranks", "2 ranks on 2 logical devices", "8 ranks", "16 ranks"),
    (
        Part("data", (0.1, 0.1, 0.1, 0.1, 0.1, 0.0)),
        Part("forward", (1.2, 0.7, 0.5, 0.8, 0.3, 0.0)),
        Part("backward", (2.2, 1.4, 1.1, 1.5, 0.8, 0.0)),
        Part("communication", (0.0, 1.9, 3.0, 1.2, 4.0, 0.0)),
        Part("optimizer", (0.4, 0.4, 0.4, 0.4, 0.4, 0.0)),
        Part("rest", (0.1, 0.2, 0.2, 0.2, 0.2, 0.0)),
    ),
    "ms per step",
    (3.8, 4.5, 5.0, 4.0, 5.5, 0.0),
    (4.2, 4.9, 5.7, 4.4, 6.1, 0.0),
    ("measured", "measured", "oversubscribed", "emulated", "predicted", "failed"),
)
MEMORY = Bars(("Code 1", "Code 2", "Code 3"), (Part("peak", (4.07, 6.07, 5.2)),), "peak memory (GiB)")
PIPELINE = Timeline(
    tuple(
        Lane(
            f"logical:{device}",
            ((device * 2.0, device * 2.0 + 2, "forward"), (18 - device * 3.0, 21 - device * 3.0, "backward")),
        )
        for device in range(4)
    ),
    "ms since the step's first forward (times of the inspection)",
)


def specimen(most_pages: int | None = None) -> Document:
    """The same every time."""
    return Document(
        "specimen",
        "Specimen of every block",
        "a made-up machine · measured 2026-01-01",
        (
            Section(
                "tables",
                "Tables and answers",
                (
                    Paragraph("A paragraph of plain text that introduces the table below."),
                    TABLE,
                    Answer(
                        "H1.2",
                        "Is the speedup linear, and where does the efficiency drop?",
                        "No. At 2 ranks the speedup is 0.22 [0.21, 0.23] instead of 2. A step of 19.4 ms holds 15.8 ms "
                        "[15.1, 16.6] of communication that computing does not hide.",
                        "the interval of the speedup at 2 ranks lies below 1.9",
                        ("h1-2-strong-scaling", "a-ranks1-r0", "a-ranks1-r1", "a-ranks2-r0", "a-ranks2-r1"),
                    ),
                    Formula("S(p) = 1 / (s + (1 - s) / p), quad s = 0.21", "S(p) = 1 / (s + (1 - s) / p), s = 0.21"),
                    Code("x = x.to(layer_device)  # course/practical8_model_parallel.py:41"),
                ),
            ),
            Section(
                "figures",
                "Figures",
                (
                    Figure("speedup", "Speedup", "Bars are 95 % intervals.", SPEEDUP),
                    Figure("trace", "Step by step", "Shaded: left out.", TRACE),
                    Figure("band", "The link", "", BAND),
                    Figure("many", "Many lines", "", MANY),
                    Figure("anatomy", "Where the time of a step goes", "Mean over ranks.", ANATOMY),
                    Figure("memory", "Memory", "", MEMORY),
                    Figure("pipeline", "Who works when", "One device at a time.", PIPELINE, 1.0),
                ),
            ),
            Section(
                "nasty",
                NASTY,
                (
                    Paragraph(NASTY),
                    Code(NASTY),
                    Formula("#sys.inputs", NASTY),
                    NASTY_TABLE,
                    Answer(NASTY, NASTY, NASTY, NASTY, (NASTY,)),
                    Figure(
                        "nasty",
                        NASTY,
                        NASTY,
                        Lines(NASTY, NASTY, (Series(NASTY, (1, 2), (1, 2)), Series("b", (1,), (1,)))),
                    ),
                ),
            ),
            Section("closing", "Machine, caveats, commands to repeat", (Paragraph("Machine: none. " * 20), Code("x"))),
        ),
        most_pages,
    )
