"""A document that uses every block and every style, for tests of the renderers and for looking at them."""

from dataclasses import replace
from functools import partial
from math import sin

from scalewise.report.cells import count_cell, interval_cell, number_cell, text_cell
from scalewise.report.document import (
    Answer,
    BarPlot,
    Cell,
    Code,
    Column,
    Document,
    Figure,
    Formula,
    Lane,
    LinePlot,
    Listing,
    Paragraph,
    Part,
    PlotSeries,
    Sample,
    Section,
    ShadedSpan,
    StripPlot,
    Summary,
    Table,
    TimelinePlot,
    TitleBlock,
)

around = partial(interval_cell, level=0.95)
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
        (
            Cell("small"),
            Cell("1", 1),
            Cell("4.31", 4.31, 4.2, 4.42, interval="[4.20, 4.42]"),
            Cell("1.00", 1),
            Cell("100", 100),
        ),
        (
            Cell("small"),
            Cell("2", 2),
            Cell("19.4", 19.4, 18.8, 20.1, note="medians of 3 runs", interval="[18.8, 20.1]"),
            Cell("0.22", 0.22, 0.21, 0.23, interval="[0.21, 0.23]"),
            Cell("11.1", 11.1, 10.6, 11.7, interval="[10.6, 11.7]"),
        ),
        (
            Cell("small"),
            Cell("4", 4),
            Cell("27.7", 27.7, 24.0, 33.1, "oversubscribed", interval="[24.0, 33.1]"),
            Cell("–", mark="oversubscribed", note="oversubscribed, not scaling"),
            Cell("–", mark="oversubscribed"),
        ),
        (
            Cell("large"),
            Cell("2", 2),
            Cell("182", 182, mark="emulated"),
            Cell("0.51", 0.51, 0.49, 0.53, "predicted", interval="[0.49, 0.53]"),
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

SPEEDUP = LinePlot(
    "ranks",
    "speedup",
    (
        PlotSeries("ideal", (1, 4), (1, 4), style="ideal"),
        PlotSeries("Amdahl, s = 0.21", (1, 2, 3, 4), (1, 1.65, 2.11, 2.45), style="model"),
        PlotSeries("small", (1, 2), (1, 1.52), (1, 1.42), (1, 1.61)),
        PlotSeries("small", (2, 4), (1.52, 1.71), (1.42, 1.5), (1.61, 1.9), style="oversubscribed"),
        PlotSeries("large", (1, 2, 4), (1, 1.72, 2.9), (1, 1.6, 2.7), (1, 1.8, 3.1), style="emulated"),
    ),
    x_ticks=(1, 2, 4),
)
STEPS = tuple(float(step) for step in range(1, 41))
TRACE = LinePlot(
    "step",
    "step time (ms)",
    (
        PlotSeries(
            "rank 0", STEPS, tuple(4 + sin(step) + (14 if step == 1 else 3 if step < 5 else 0) for step in STEPS)
        ),
        PlotSeries("rank 1", STEPS, tuple(6 + sin(2 * step) + (9 if step < 3 else 0) for step in STEPS)),
    ),
    (ShadedSpan(0.5, 5.5, "warm-up"),),
)
BAND = LinePlot(
    "message (bytes)",
    "time of one all-reduce (us)",
    (
        PlotSeries(
            "measured",
            tuple(4.0 * 2**power for power in range(25)),
            tuple(260 + 4 * 2**power / 980 for power in range(25)),
            tuple(200 + 4 * 2**power / 1200 for power in range(25)),
            tuple(330 + 4 * 2**power / 800 for power in range(25)),
        ),
        PlotSeries("260 us + n / 0.98 GB/s", (4, 67108864), (260, 68739), style="model"),
    ),
    log_x=True,
    log_y=True,
)
MANY = LinePlot(
    "batch per step",
    "samples per second",
    tuple(PlotSeries(f"a rather long name, number {n}", (32, 64, 128), (n, 2 * n, 3 * n)) for n in range(1, 9)),
    x_ticks=(32, 64, 128),
    log_x=True,
)
ANATOMY = BarPlot(
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
MEMORY = BarPlot(("Code 1", "Code 2", "Code 3"), (Part("peak", (4.07, 6.07, 5.2)),), "peak memory (GiB)")
PIPELINE = TimelinePlot(
    tuple(
        Lane(
            f"logical:{device}",
            ((device * 2.0, device * 2.0 + 2, "forward"), (18 - device * 3.0, 21 - device * 3.0, "backward")),
        )
        for device in range(4)
    ),
    "ms since the step's first forward (times of the inspection)",
)


STRONG = Table(
    id="strong",
    title="Strong scaling",
    caption="DIM 1024, DEPTH 2, a global batch of 64; 100 steps, the first 5 left out, 3 repeats. Brackets are 95 % "
    "intervals of the median.",
    columns=(Column("GPUs"), Column("step", "ms"), Column("samples/s"), Column("speedup"), Column("efficiency", "%")),
    rows=(
        (
            count_cell(1),
            around(17.03, 16.6, 17.5),
            around(3758, 3657, 3855),
            number_cell(1),
            text_cell("100"),
        ),
        (
            count_cell(2),
            replace(around(24.3, 22.2, 26.5), doubt="Other programs used 64 % of the cores while this ran."),
            around(2634, 2415, 2883),
            around(0.70, 0.64, 0.77),
            around(35.0, 32.1, 38.4),
        ),
        *(
            (
                count_cell(ranks),
                around(step, step * 0.93, step * 1.07, mark="predicted"),
                around(64e3 / step, 60e3 / step, 69e3 / step, mark="predicted"),
                around(1.45 / step, 1.36 / step, 1.55 / step, mark="predicted"),
                around(145 / step / ranks, 136 / step / ranks, 155 / step / ranks, mark="predicted"),
            )
            for ranks, step in ((1, 1.45), (2, 1.12), (4, 0.98))
        ),
    ),
    notes=("4 ranks on 2 cores took 2.2 times the step of 2 ranks: each core computes for two ranks in turn.",),
    groups=((0, "On this machine, two cores over gloo"), (2, "On H200 GPUs over NVLink 4")),
)
STABILITY = Table(
    id="codes",
    title="Three codes with the same model and data",
    columns=(
        Column("code", numeric=False),
        Column("step", "ms"),
        Column("memory", "MB"),
        Column("stability", numeric=False),
    ),
    rows=(
        (
            text_cell("Code 1, accumulation"),
            around(16.9, 16.2, 17.7),
            number_cell(7.55),
            text_cell("stable: no step skipped, steps vary by 3 %"),
        ),
        (
            text_cell("Code 2, mixed precision"),
            around(36.4, 35.1, 37.7),
            number_cell(7.12),
            text_cell(
                "stable: 1 of 60 steps skipped, scale 65536 to 32768, loss within 0.1 %, 0.9 % of gradients zero"
            ),
        ),
        (
            text_cell("Code 3, both"),
            around(42.8, 41.0, 44.9),
            number_cell(7.31),
            text_cell("stable: no step skipped, steps vary by 4 %"),
        ),
    ),
    caption="DIM 512, DEPTH 4, batch 64, ACCUM_STEPS 4, 2 ranks.",
)
LISTING = Listing(
    "h3-3-init",
    "Placing the layers",
    "practical8_model_parallel.py",
    31,
    """class ModelParallel(LargeLinearModel):
    def __init__(self, dim, depth):
        super().__init__(dim, depth)
        self.devices = [f"cuda:{i}" for i in range(torch.cuda.device_count())]
        per_device = depth / len(self.devices)
        for i, layer in enumerate(self.layers):
            layer.to(self.devices[int(i / per_device)])
""",
    (34, 37),
)
VARIANCE = StripPlot(
    (
        Sample("DP", tuple(12 + 0.6 * sin(3 * n) + 0.3 * sin(7 * n) for n in range(60))),
        Sample("DDP", (*(15.6 + 1.4 * sin(5 * n) + 0.4 * sin(n) for n in range(58)), 95.0, 21.0)),
        Sample("DDP, 4 GPUs", tuple(9 + 0.3 * sin(11 * n) for n in range(20)), "predicted"),
    ),
    "step time (ms)",
)
DDP_STEP = TimelinePlot(
    (
        Lane("computing", ((0, 3.1, "forward"), (3.1, 9.4, "backward"), (12.2, 13.4, "optimizer"))),
        Lane("buckets fill", ((3.1, 5.2, "bucket"), (5.2, 7.4, "bucket"), (7.4, 9.4, "bucket")), (1, 2, 3)),
        Lane("all-reduce", ((5.2, 7.0, "all-reduce"), (7.4, 9.6, "all-reduce"), (9.6, 12.2, "all-reduce")), (1, 2, 3)),
    ),
    "ms since the step began",
)


def schedule(micro_batches: int, devices: int = 4) -> TimelinePlot:
    """A pipeline in which every micro-batch takes 1 forward and 2 backward."""
    scale = 8 / micro_batches
    turn = micro_batches + devices - 1
    lanes = []
    for device in range(devices):
        forward = [((device + m) * scale, (device + m + 1) * scale, "forward") for m in range(micro_batches)]
        backward = [
            (
                (turn + 2 * (devices - 1 - device + m)) * scale,
                (turn + 2 * (devices - device + m)) * scale,
                "backward",
            )
            for m in range(micro_batches)
        ]
        lanes.append(Lane(f"GPU {device}", (*forward, *backward), (*range(1, micro_batches + 1),) * 2))
    return TimelinePlot(tuple(lanes), "time, in forwards of an eighth of the batch")


DELAYS = (0.0, 5.0, 10.0, 20.0, 40.0)
DELAY = LinePlot(
    "delay of one rank (ms)",
    "speedup on 2 GPUs",
    (
        PlotSeries(
            "measured",
            DELAYS,
            (1.8, 1.56, 1.41, 1.3, 1.17),
            (1.7, 1.46, 1.32, 1.2, 1.1),
            (1.9, 1.66, 1.5, 1.4, 1.24),
        ),
        PlotSeries(
            "Amdahl's law",
            tuple(map(float, range(41))),
            tuple((20 + d) / (11.1 + d) for d in range(41)),
            style="model",
        ),
    ),
)
SCALING_LOG = LinePlot(
    "GPUs",
    "samples per second",
    (
        PlotSeries("ideal", (1, 2, 4, 8), (3758, 7516, 15032, 30064), style="ideal"),
        PlotSeries("measured", (1, 2), (3758, 2634), (3657, 2415), (3855, 2883)),
        PlotSeries(
            "H200, predicted",
            (1, 2, 4),
            (44100, 57100, 65300),
            (41000, 53000, 60000),
            (47000, 61000, 70000),
            "predicted",
        ),
    ),
    log_x=True,
    log_y=True,
    x_ticks=(1, 2, 4, 8),
)
FAR_IDEAL = LinePlot(
    "GPUs",
    "speedup",
    (
        PlotSeries("ideal", (1, 8), (1, 8), style="ideal"),
        PlotSeries("small", (1, 2, 4, 8), (1, 0.7, 0.66, 0.6), (1, 0.64, 0.6, 0.5), (1, 0.77, 0.7, 0.7), "predicted"),
        PlotSeries("large", (1, 2, 4, 8), (1, 0.78, 0.8, 0.83), style="predicted"),
    ),
    x_ticks=(1, 2, 4, 8),
)
LOSSES = LinePlot(
    "optimizer step",
    "loss",
    tuple(
        PlotSeries(f"Code {n}", STEPS[:30], tuple(1 + 2 / step + 1e-4 * n for step in STEPS[:30])) for n in (1, 2, 3)
    ),
)
DISTANCES = LinePlot(
    "optimizer step",
    "distance of the loss",
    (PlotSeries("bf16", STEPS[:10], tuple(1e-5 + 2e-6 * step for step in STEPS[:10])),),
)
SHARES = BarPlot(
    ("DIM 1024", "DIM 8192"),
    (Part("forward", (20.0, 30.0)), Part("backward", (40.0, 55.0)), Part("communication", (40.0, 15.0))),
    "share of the step (%)",
)
LINEAR = Answer(
    "H1.2",
    "Is the speedup linear, and where does the efficiency drop?",
    "No: two ranks are slower than one.",
    "On two cores the speedup is 0.700 instead of 2, and the efficiency drops to 35.0 % at the first doubling.",
    "Each rank still reduces all gradients, however small its part of the batch, through memory that both share.",
    "Add GPUs to a model of this size only together with a larger batch.",
    "The upper end of the 95 % interval of the speedup, 0.770, lies below 2.",
    ("strong", "scaling-log", "strong-scaling-ranks2-r0"),
    ("Other programs used 64 % of the cores while 2 ranks ran, so the true speedup is probably higher.",),
    "the speedup at 2 and 4 GPUs in Table 1, and the time of the all-reduces",
)
LAW = Answer(
    "H1.5A",
    "Does the delay reduce the speedup linearly or non-linearly?",
    "Non-linearly: the curve falls fast and then flattens.",
    "A delay of 10 ms takes the speedup from 1.80 to 1.41; the next 10 ms take it to 1.30.",
    "The delay is serial work: it adds the same time to both steps, so their ratio follows a hyperbola.",
    "A slow data loader costs most where steps are already short.",
    "The five measured points lie within their intervals of the hyperbola, and three of them outside a straight line.",
    ("delay",),
    hint="the speedups over the delay in Figure 3",
)


def specimen(most_pages: int | None = None) -> Document:
    """Every type of block: what only tests need, and then a hand-in; the same every time."""
    return Document(
        "specimen",
        "Specimen of every block",
        ("a made-up machine", "measured 2026-01-01"),
        (*_plain_sections(), *_questions(), CLOSING),
        most_pages,
        TitleBlock(
            "Ada Lovelace", "", "Parallel and Distributed Computing", "2026-11-18", "a made-up machine, 2 cores, no GPU"
        ),
        Summary(
            (
                "Two ranks on two cores are slower than one: the speedup is 0.700.",
                "Computing shrinks with the batch of a rank, the all-reduce does not.",
                "On H200 GPUs a larger model would scale, to 1.48 on 4 GPUs (predicted).",
            ),
            ("H1.2: other programs used 64 % of the cores",),
        ),
    )


def hand_in(answers: str = "full") -> Document:
    """The questions alone, with two pages to fill, as a student hands them in."""
    whole = specimen(2)
    return replace(
        whole, id=f"hand-in-{answers}", title="Homework 1", sections=(*_questions(), CLOSING), answers=answers
    )


def generic() -> Document:
    """A report that answers no question of a course."""
    whole = specimen()
    return replace(whole, id="generic", sections=(*_plain_sections()[1:2], CLOSING), title_block=None, summary=None)


def _questions() -> tuple[Section, ...]:
    return (
        Section(
            "strong",
            "Strong scaling",
            (
                STRONG,
                Figure(
                    "scaling-log",
                    "Throughput over GPUs",
                    "Both axes are logarithmic; the grey line is ideal.",
                    SCALING_LOG,
                ),
                LINEAR,
                Figure(
                    "ddp-step", "One step of DDP", "Rank 0, an inspected step of 2 ranks, DIM 1024, DEPTH 2.", DDP_STEP
                ),
            ),
        ),
        Section(
            "variance",
            "DP and DDP",
            (
                Figure(
                    "variance",
                    "Distribution of step times",
                    "Every dot is a step; a box holds the middle half, its line is the median.",
                    VARIANCE,
                ),
                LAW,
            ),
        ),
        Section(
            "delay",
            "Amdahl's law",
            (
                Formula(
                    "S(d) = (T_1 + d) / (T_N + d)",
                    "S(d) = (T1 + d) / (TN + d)",
                    "<mrow><mi>S</mi><mo>(</mo><mi>d</mi><mo>)</mo><mo>=</mo><mfrac><mrow><msub><mi>T</mi><mn>1</mn></msub><mo>+</mo><mi>d</mi></mrow>"
                    "<mrow><msub><mi>T</mi><mi>N</mi></msub><mo>+</mo><mi>d</mi></mrow></mfrac></mrow>",
                ),
                Figure(
                    "delay",
                    "Speedup over the delay",
                    "DIM 1024, DEPTH 2, batch 64, 2 ranks; bars are 95 % intervals.",
                    DELAY,
                ),
                Figure("far", "Speedup", "The ideal line leaves the figure.", FAR_IDEAL),
                LAW,
                STABILITY,
                Answer("H2.3", "Which code is the fastest?", "Code 1, with 16.90 ms a step.", rests_on=("codes",)),
            ),
        ),
        Section(
            "placement",
            "H3.3 Layers on devices",
            (
                LISTING,
                Answer(
                    "H3.3",
                    "How are the layers placed?",
                    "In order, as evenly as the numbers allow.",
                    "7 layers on 5 devices are 2, 1, 2, 1, 1.",
                    rests_on=("h3-3-init",),
                    decided="Counted.",
                ),
                Figure(
                    "gpipe",
                    "A pipeline of 4 GPUs and 8 micro-batches",
                    "Numbers are micro-batches; the shade is idle time.",
                    schedule(8),
                    1.0,
                ),
            ),
        ),
    )


CLOSING = Section("closing", "Machine, caveats, commands to repeat", (Paragraph("Machine: none. " * 20), Code("x")))


def _plain_sections() -> tuple[Section, ...]:
    return (
        Section(
            "tables",
            "Tables and answers",
            (
                Paragraph("A paragraph of plain text that introduces the table below."),
                TABLE,
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
                Figure("losses", "Losses", "Three curves lie on each other.", LOSSES),
                Figure("distances", "Distances", "", DISTANCES),
                Figure("shares", "Shares", "", SHARES),
                Figure("pipeline", "Who works when", "One device at a time.", PIPELINE, 1.0),
            ),
        ),
        Section(
            "nasty",
            NASTY,
            (
                Paragraph(NASTY),
                Code(NASTY),
                Formula("#sys.inputs", NASTY, f"<mi>{NASTY}</mi>"),
                NASTY_TABLE,
                Answer(NASTY, NASTY, NASTY, NASTY, NASTY, NASTY, NASTY, (NASTY,), (NASTY,), NASTY),
                Listing(NASTY, NASTY, NASTY, 1, NASTY, (1,)),
                Figure(
                    "nasty",
                    NASTY,
                    NASTY,
                    LinePlot(NASTY, NASTY, (PlotSeries(NASTY, (1, 2), (1, 2)), PlotSeries("b", (1,), (1,)))),
                ),
            ),
        ),
    )
