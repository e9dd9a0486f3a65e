"""A warning names the same file and line with and without the watcher, whatever lies between it and the script."""

import re

import pytest

from scalewise.records.rows import TroubleRow
from scalewise.records.spec import Examined, Inspected


def _warned(ran, rank: int = 0) -> list[str]:
    """What the script was warned of, with file and line; gloo's own lines on the connection differ by run."""
    text = re.sub(r"\S*/(?=[\w.]+:\d+: )", "", ran.stderr[rank])
    return [line for line in text.splitlines() if not line.startswith("[")]


# An inspected run has hooks on all modules, for which torch itself puts a frame more around a model's forward.
@pytest.mark.parametrize(
    ("how", "args"), [({}, ()), ({"kind": Examined()}, ()), ({"kind": Inspected()}, ("not in forward",))]
)
def test_warnings_of_a_script_alone_name_its_own_lines(runner, how, args) -> None:
    raw, watched = runner.raw("warns.py", *args), runner.watched("warns.py", *args, **how)

    assert raw.codes == watched.codes == (0,), watched.stderr
    assert _warned(watched) == _warned(raw)
    assert raw.stderr[0].count("warns.py:") >= 4
    assert not [row for row in watched.rows().rows if isinstance(row, TroubleRow)]


@pytest.mark.parametrize("how", [{}, {"kind": Examined()}])
def test_warnings_of_ddp_name_the_scripts_line(runner, how) -> None:
    raw, watched = runner.raw("warns.py", ranks=2), runner.watched("warns.py", ranks=2, **how)

    assert raw.codes == watched.codes == (0, 0), watched.stderr
    for rank in (0, 1):
        assert _warned(watched, rank) == _warned(raw, rank)
    assert "check_reduction" in raw.stderr[0]
