"""Prints the answer to whether B is faster than A."""

from collections.abc import Sequence

from scalewise.analysis.comparison import Comparison
from scalewise.analysis.estimate import level_text
from scalewise.console.analysis_view import show_caveats
from scalewise.console.output import Output
from scalewise.console.terminal import show_paragraph
from scalewise.units import seconds_text


def show_comparisons(output: Output, comparisons: Sequence[Comparison]) -> None:
    """Prints one paragraph per comparison: the two medians, the verdict and what qualifies it."""
    for one in comparisons:
        for name, step in ((one.a, one.a_step_seconds), (one.b, one.b_step_seconds)):
            if step is not None:
                interval = f"{level_text(step.level)} interval {seconds_text(step.low)} to {seconds_text(step.high)}"
                output.show(f"{name}: {seconds_text(step.value)} a step ({interval})")
        for text in (one.sentence, *one.notes):
            show_paragraph(output, text)
        show_caveats(output, one.caveats)
        output.show()
