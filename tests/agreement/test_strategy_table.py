"""What a table of strategies works out from what was measured."""

import pytest

from scalewise.agreement.strategy_table import ring_bytes


@pytest.mark.parametrize(
    ("kind", "counted", "sent"),
    [
        ("all_reduce", 800, 1200),  # 2 (n - 1) / n of it
        ("all_gather", 800, 600),
        ("reduce_scatter", 200, 600),  # counted is the quarter that a rank keeps
        ("broadcast", 800, 600),  # every rank but the last passes it on
        ("send", 800, 800),
        ("recv", 800, 0),
        ("batch_isend_irecv", 800, 800),
    ],
)
def test_four_ranks_send_around_a_ring(kind: str, counted: int, sent: int):
    assert ring_bytes(kind, counted, 4) == sent
