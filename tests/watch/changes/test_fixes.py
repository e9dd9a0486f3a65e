"""The fixes of findings in real ranks: each does what mending the script would do, counts itself, or says why not."""

import json

import pytest

from scalewise.records.examination import AppliedRow
from scalewise.records.inspection import GradientRow
from scalewise.records.rows import EndRow, StepRow, TroubleRow
from scalewise.records.spec import Change, Examined


def _of(ran, kind, rank=0):
    return [row for row in ran.rows(rank).rows if isinstance(row, kind)]


def _mended(runner, script, *args, ranks=2, change, **settings):
    ran = runner.watched(script, *args, ranks=ranks, changes=(Change(change, settings),), enough_steps=1000)
    assert set(ran.codes) == {0}, ran.stderr
    return ran


def _applied(ran, change):
    (end,) = _of(ran, EndRow)
    return end.changes_applied.get(change, 0)


def _said(ran, rank=0):
    return json.loads(ran.stdout[rank])


def _close(one, other, tolerance=1e-6):
    scale = max(map(abs, other))
    return all(abs(a - b) <= tolerance * scale for a, b in zip(one, other, strict=True))


def _all_reduced(ran):
    return sum(row.collectives.get("all_reduce", (0, 0))[1] for row in _of(ran, StepRow))


def test_no_sync_from_outside_is_no_sync_bit_by_bit_with_a_quarter_of_the_bytes(runner) -> None:
    every = runner.watched("ddp_accumulate.py", "every", ranks=2)
    inside = runner.raw("ddp_accumulate.py", "no_sync", ranks=2)
    outside = _mended(runner, "ddp_accumulate.py", "every", change="no_sync", window=4)

    assert outside.stdout == inside.stdout
    assert not _of(outside, TroubleRow)
    assert 4 * _all_reduced(outside) == _all_reduced(every) > 0
    assert _applied(outside, "no_sync") == 6 * 3
    assert _of(outside, AppliedRow)[-1] == AppliedRow("no_sync", 4 * 3)  # after step 4, the last power of two


def test_a_window_that_ends_early_is_reduced_all_the_same(runner) -> None:
    plain = runner.raw("changed_loop.py", "short", ranks=2)
    mended = _mended(runner, "changed_loop.py", "short", change="no_sync", window=4)

    assert _said(mended, 0)["weights"] == _said(mended, 1)["weights"]
    assert _close(_said(mended)["weights"], _said(plain)["weights"])


def test_sync_last_brings_ranks_together_that_never_reduced(runner) -> None:
    right = runner.raw("changed_loop.py", "parts", ranks=2)
    apart = runner.raw("changed_loop.py", "under_no_sync", ranks=2)
    mended = _mended(runner, "changed_loop.py", "under_no_sync", change="sync_last", window=4)

    assert _said(apart, 0)["weights"] != _said(apart, 1)["weights"]
    assert _said(mended, 0)["weights"] == _said(mended, 1)["weights"]
    assert _close(_said(mended)["weights"], _said(right)["weights"])
    assert _applied(mended, "sync_last") == 3


@pytest.mark.parametrize("words", [("parts",), ("parts", "scaled")])
def test_a_divided_loss_gives_the_gradient_of_the_full_batch(runner, words) -> None:
    full = runner.watched("changed_loop.py", "full", ranks=2, kind=Examined(show_gradients=True))
    change = (Change("divide_loss", {"by": 4}),)
    mended = runner.watched("changed_loop.py", *words, ranks=2, changes=change, kind=Examined(show_gradients=True))

    for one, reference in zip(_said(mended)["gradient"], _said(full)["gradient"], strict=True):
        assert _close(one, reference)
    assert len(_of(full, GradientRow)) == 3
    for one, reference in zip(_of(mended, GradientRow), _of(full, GradientRow), strict=True):
        assert one.norm == pytest.approx(reference.norm, rel=1e-6)
        assert one.projection == pytest.approx(reference.projection, rel=1e-5, abs=1e-7)
    assert _applied(mended, "divide_loss") == 3 * 4


def test_shares_are_disjoint_and_in_another_order_every_epoch(runner) -> None:
    mended = _mended(runner, "changed_loader.py", "plain", change="shard_data")
    epochs = [_said(mended, rank) for rank in (0, 1)]

    for first, second in zip(*epochs, strict=True):
        assert not set(first) & set(second)
        assert sorted(first + second) == [float(one) for one in range(24)]
    assert epochs[0][0] != epochs[0][1]
    assert _applied(mended, "shard_data") == 1


def test_the_epoch_is_set_where_the_script_forgets(runner) -> None:
    plain = runner.raw("changed_loader.py", "sampler", ranks=2)
    mended = _mended(runner, "changed_loader.py", "sampler", change="set_epoch")

    assert _said(plain)[0] == _said(plain)[1]
    assert _said(mended)[0] == _said(plain)[0] != _said(mended)[1]
    assert _applied(mended, "set_epoch") == 1


def test_cached_batches_come_again_and_as_many_as_before(runner) -> None:
    mended = _mended(runner, "changed_loader.py", "sampler", change="cached_input", batches=2)

    first, second = _said(mended)
    assert len(first) == len(second) == 12
    assert first == second == first[:8] + first[:4]
    assert _applied(mended, "cached_input") == 1 + 3


def test_a_stream_without_a_length_is_left_alone(runner) -> None:
    for change in ("cached_input", "shard_data"):
        mended = _mended(runner, "changed_loader.py", "stream", change=change)
        assert _said(mended) == [[float(one) for one in range(24)]] * 2
        assert _applied(mended, change) == 0


def test_options_and_threads_are_those_of_the_change(runner) -> None:
    mended = runner.watched(
        "changed_loader.py",
        "plain",
        ranks=2,
        threads_per_rank=2,
        changes=(Change("ddp_option", {"find_unused_parameters": False}), Change("threads", {"count": 1})),
    )
    assert mended.codes == (0, 0), mended.stderr
    assert "False 1" in mended.stderr[0]
    assert (_applied(mended, "ddp_option"), _applied(mended, "threads")) == (1, 2)


@pytest.mark.parametrize("words", [(), ("clip",)])
def test_a_scaler_from_outside_saves_gradients_that_vanish(runner, words) -> None:
    plain = _said(runner.raw("changed_half.py", *words))
    ran = _mended(runner, "changed_half.py", *words, ranks=0, change="scaler")
    mended = _said(ran)

    assert min(plain["zeros"]) > 0.5 and max(mended["zeros"]) < 0.4
    assert mended["moved"] > 0
    assert all(0 < norm < 1e-3 for norm in mended["norms"])  # clipped unscaled, or the norm would be 65536 times larger
    assert _applied(ran, "scaler") == 3
    assert not _of(ran, TroubleRow)


def test_a_step_with_an_infinite_gradient_is_skipped(runner) -> None:
    ran = _mended(runner, "changed_half.py", "overflow", ranks=0, change="scaler", init_scale=2.0**40)
    assert any(row.skipped for row in _of(ran, StepRow))


@pytest.mark.parametrize("late", [(), ("late",)])
def test_gradients_are_unscaled_before_they_are_clipped(runner, late) -> None:
    plain = _said(runner.raw("changed_half.py", "scaler", "clip"))
    ran = _mended(runner, "changed_half.py", "scaler", "clip", *late, ranks=0, change="unscale_before_clip")

    for before, after in zip(plain["norms"][:1], _said(ran)["norms"][:1], strict=True):
        assert after == pytest.approx(before / 65536, rel=1e-3)
    assert _applied(ran, "unscale_before_clip") == 3


def test_a_needless_scaler_is_disabled(runner) -> None:
    ran = _mended(runner, "changed_half.py", "scaler", "bfloat16", ranks=0, change="no_scaler")
    assert not _said(ran)["scaler"]
    assert _applied(ran, "no_scaler") == 1


@pytest.mark.parametrize(
    ("change", "settings", "words"),
    [
        ("no_such_change", {}, "there is no such change among"),
        ("no_sync", {"window": 0}, "a window of 0 micro-batches"),
        ("no_sync", {}, "KeyError"),
        ("divide_loss", {"by": 0}, "cannot be divided by 0"),
        ("ddp_option", {"buckets": 3}, "no option buckets"),
        ("cached_input", {"batches": 0}, "0 batches to repeat"),
    ],
)
def test_a_change_that_cannot_be_is_a_trouble_and_the_script_runs_as_it_is(runner, change, settings, words) -> None:
    ran = runner.watched("plain.py", changes=(Change(change, settings),))
    assert ran.codes == (0,), ran.stderr
    assert ran.stdout == runner.raw("plain.py").stdout
    (trouble,) = _of(ran, TroubleRow)
    assert trouble.where == f"change {change}" and words in trouble.error


@pytest.mark.parametrize("how", ["function", "hand"])
def test_shards_clipped_by_the_norm_of_all_are_those_of_the_mended_script(runner, how) -> None:
    right, plain = runner.raw("changed_shards.py", "right", ranks=2), runner.raw("changed_shards.py", how, ranks=2)
    mended = _mended(runner, "changed_shards.py", how, change="clip_by_whole_norm", limit=0.5)

    assert not _of(mended, TroubleRow)
    assert _applied(mended, "clip_by_whole_norm") == 4
    for rank in (0, 1):
        assert _close(_said(mended, rank)["weights"], _said(right, rank)["weights"], 1e-5)
    assert not _close(_said(plain)["weights"], _said(right)["weights"], 1e-3)


def test_gradients_to_which_more_was_done_than_clipping_stay_as_they_are(runner) -> None:
    plain = runner.raw("changed_shards.py", "other", ranks=2)
    mended = _mended(runner, "changed_shards.py", "other", change="clip_by_whole_norm", limit=0.5)

    assert mended.stdout == plain.stdout
    assert _applied(mended, "clip_by_whole_norm") == 0
