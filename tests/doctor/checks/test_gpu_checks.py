"""Tests of the checks of a GPU's time: what they find in made-up notes, when they abstain, what replays say."""

from dataclasses import replace

import pytest
from case_factory import (
    Sheet,
    make_case,
    make_device_use,
    make_graph,
    make_loader,
    make_optimizer,
    make_settings,
    make_work,
)

from factories import make_estimate
from scalewise.doctor.case import Abstain
from scalewise.doctor.checks import (
    attention_not_fused,
    cache_emptied_in_loop,
    convolutions_not_tuned,
    debugging_left_on,
    launch_bound,
    pageable_copies,
    read_every_step,
    recompiled_in_loop,
    same_copy_every_step,
    tf32_off,
)
from scalewise.doctor.finding import Replayed, TimeSaved
from scalewise.records.examination import AttentionRow, AttentionSeen
from scalewise.records.notes import (
    BackwardNote,
    CompileNote,
    CopyNote,
    ForwardNote,
    HostReadNote,
    HousekeepingNote,
    StepNote,
)
from scalewise.records.spec import Change

MILLISECOND = 1_000_000
CHECKS_OF_A_GPU = (attention_not_fused, convolutions_not_tuned, launch_bound, pageable_copies, tf32_off)


class Loop(Sheet):
    """Steps of ten milliseconds, of which only the first few passes are looked at closely."""

    def steps_of(self, count, act=lambda sheet: None):
        for number in range(count):
            act(self)
            self.window(batch=False, zero="before")
            if number >= 3:
                self._far_on()
            self._stretch(number)
        return self

    def _far_on(self):
        for index in (-3, -2):
            note = self.notes[index]
            if isinstance(note, ForwardNote):
                self.notes[index] = replace(note, digest=None, row_digests=[])
            elif isinstance(note, BackwardNote):
                self.notes[index] = replace(note, factor=None, gained=None)

    def _stretch(self, number):
        """Every note of a step lies in its ten milliseconds, the step itself at the end."""
        begin = max((i for i, one in enumerate(self.notes[:-1]) if isinstance(one, StepNote)), default=-1) + 1
        for index in range(begin, len(self.notes)):
            at_ns = 10 * MILLISECOND * number + 1000 * (index - begin + 1)
            self.notes[index] = replace(self.notes[index], at_ns=at_ns)
        self.notes[-1] = replace(self.notes[-1], at_ns=10 * MILLISECOND * (number + 1))


def on_gpu(*rows, act=lambda sheet: None, steps=40, settings=None, **run):
    sheet = Loop().steps_of(steps, act).row(settings or make_settings())
    for row in rows:
        sheet.row(row)
    return make_case(sheet, ranks=1, wrapped=False, **run)


def replayed(finding, low, high, step=10.0, case=None, fixed=None, trouble=""):
    case = case or make_case(Sheet().windows(2))
    saved = TimeSaved(make_estimate((low + high) / 2, low, high), step, "measured")
    return Replayed(finding.change or Change("none"), case, fixed or case, 3, saved, trouble)


@pytest.mark.parametrize("check", CHECKS_OF_A_GPU)
def test_without_a_gpu_nothing_is_said_to_have_passed(check):
    with pytest.raises(Abstain, match="nothing was trained on a GPU"):
        check.examine(on_gpu(make_graph(device="cpu"), settings=make_settings(device="", capability=())))
    with pytest.raises(Abstain, match="examined on the CPU"):
        check.examine(on_gpu(make_graph(), on_cpu=True))


@pytest.mark.parametrize("check", [attention_not_fused, convolutions_not_tuned, tf32_off])
def test_a_compiled_model_is_not_judged(check):
    with pytest.raises(Abstain, match="compiled"):
        check.examine(on_gpu(make_graph(compiled=True)))
    with pytest.raises(Abstain, match="no backward pass"):
        check.examine(on_gpu())


def test_float32_matmuls_are_a_suspicion_until_tf32_is_measured():
    case = on_gpu(make_graph(matmuls={"float32": 6, "bfloat16": 2}))
    (finding,) = tf32_off.examine(case)
    assert finding.proof == "suspected" and "6 of 8 matmuls" in finding.sentence and finding.change == Change("tf32")
    settled = tf32_off.settle(case, finding, replayed(finding, 4.0, 6.0))
    assert settled.proof == "replayed" and settled.price.value == 5.0


def test_the_losses_of_both_precisions_are_compared():
    plain, fixed = (on_gpu(make_graph(), step={"loss": loss}) for loss in (2.0, 2.001))
    (finding,) = tf32_off.examine(plain)
    settled = tf32_off.settle(plain, finding, replayed(finding, 4.0, 6.0, case=plain, fixed=fixed))
    assert "first 8 steps in both precisions: 5.0e-04 apart" in settled.evidence[-1]


def test_tf32_that_spares_nothing_leaves_no_finding():
    case = on_gpu(make_graph())
    (finding,) = tf32_off.examine(case)
    assert tf32_off.settle(case, finding, replayed(finding, -0.1, 0.2)) is None


@pytest.mark.parametrize(
    ("settings", "graph"),
    [({"matmul_precision": "high"}, {}), ({}, {"matmuls": {"bfloat16": 8}}), ({}, {"matmuls": {}})],
)
def test_tf32_that_is_on_and_models_in_half_precision_pass(settings, graph):
    assert tf32_off.examine(on_gpu(make_graph(**graph), settings=make_settings(**settings))) == ()


def test_a_gpu_without_tf32_is_not_judged():
    with pytest.raises(Abstain, match="has no TF32"):
        tf32_off.examine(on_gpu(make_graph(), settings=make_settings(capability=(7, 0))))


def test_convolutions_of_fixed_shapes_are_a_suspicion():
    rows = [make_graph(step, convolutions=5) for step in (3, 6)]
    (finding,) = convolutions_not_tuned.examine(on_gpu(*rows))
    assert "5 convolutions of fixed shape" in finding.sentence and finding.change == Change("tuned_convolutions")


def test_changing_shapes_tuned_and_deterministic_convolutions_pass():
    changing = [make_graph(step, convolutions=5, shapes=str(step)) for step in (3, 6)]
    fixed = [make_graph(step, convolutions=5) for step in (3, 6)]
    assert convolutions_not_tuned.examine(on_gpu(*changing)) == ()
    for change in ({"cudnn_benchmark": True}, {"cudnn_deterministic": True}):
        assert convolutions_not_tuned.examine(on_gpu(*fixed, settings=make_settings(**change))) == ()
    with pytest.raises(Abstain, match="no convolutions"):
        convolutions_not_tuned.examine(on_gpu(make_graph()))
    with pytest.raises(Abstain, match="only one backward pass"):
        convolutions_not_tuned.examine(on_gpu(fixed[0]))


def test_a_gpu_that_waits_for_launches_is_found_with_the_optimizer_that_makes_them():
    optimizer = make_optimizer(optimizer="AdamW", options={"foreach": False})
    case = on_gpu(make_work(optimizer_kernels=600), optimizer, seconds=0.01)
    (finding,) = launch_bound.examine(case)
    assert finding.change == Change("fused_optimizer") and "launches 500 kernels of 2.0 us" in finding.sentence
    assert finding.price.value == pytest.approx(9.0) and finding.proof == "suspected"
    assert "AdamW, one by one" in finding.evidence[1]


def test_launches_of_the_model_itself_are_mended_by_compiling_it():
    (finding,) = launch_bound.examine(on_gpu(make_work(), make_optimizer(options={"fused": True}), seconds=0.01))
    assert finding.change == Change("compiled_model")
    (compiled,) = launch_bound.examine(on_gpu(make_work(), make_graph(compiled=True), seconds=0.01))
    assert compiled.change is None


@pytest.mark.parametrize("work", [{"busy_ns": 18_000_000}, {"kernels": 100}, {"kernel_ns": 80_000_000}])
def test_a_busy_gpu_few_kernels_and_long_ones_pass(work):
    assert launch_bound.examine(on_gpu(make_work(**work), seconds=0.01)) == ()


def test_launches_cannot_be_judged_without_the_gpus_records():
    with pytest.raises(Abstain, match="recorded no step"):
        launch_bound.examine(on_gpu())
    with pytest.raises(Abstain, match="CUPTI"):
        launch_bound.examine(on_gpu(make_work(kernels=0)))
    with pytest.raises(Abstain, match="CUDA_LAUNCH_BLOCKING"):
        launch_bound.examine(on_gpu(make_work(), settings=make_settings(launch_blocking=True)))


def copies(**values):
    return lambda sheet: sheet.add(CopyNote, line="x = x.to(device)", **values)


def test_copies_from_pageable_memory_are_found_with_the_loader_that_does_not_pin():
    sheet = Loop().steps_of(40, lambda sheet: copies()(sheet.batch())).row(make_settings())
    sheet.row(make_loader(place=sheet.place("loader = DataLoader(data, num_workers=2)")))
    (finding,) = pageable_copies.examine(make_case(sheet, ranks=1))
    assert "copies 16.0 MiB per step" in finding.sentence and finding.change == Change("pinned_memory")
    assert "pin_memory=True" in finding.fix and "x = x.to(device, non_blocking=True)" in finding.fix


def test_pageable_copies_of_no_loader_have_no_fix_from_outside():
    case = on_gpu(make_work(copies={"HtoD (Pageable -> Device)": (2, 3_000_000)}), act=copies())
    (finding,) = pageable_copies.examine(case)
    assert finding.change is None and "pin_memory()" in finding.fix and finding.price.value == 1.5


@pytest.mark.parametrize("values", [{"pinned": True}, {"size_bytes": 4096}, {"again": 1}])
def test_pinned_small_and_repeated_copies_pass(values):
    assert pageable_copies.examine(on_gpu(act=copies(**values))) == ()


def test_the_same_tensor_copied_in_every_step_is_found():
    case = on_gpu(make_device_use("cuda:0"), act=copies(again=1, duration_ns=2 * MILLISECOND))
    (finding,) = same_copy_every_step.examine(case)
    assert finding.where.text == "x = x.to(device)" and finding.change == Change("kept_copies")
    assert finding.price.value == 2.0 and finding.proof == "suspected"
    assert same_copy_every_step.settle(case, finding, replayed(finding, 1.0, 2.0)).proof == "replayed"


def test_the_same_tensor_is_a_suspicion_on_the_cpu_and_small_ones_are_none():
    use = make_device_use("cuda:0")
    (finding,) = same_copy_every_step.examine(on_gpu(use, act=copies(again=1, pinned=None), on_cpu=True))
    assert finding.proof == "suspected" and finding.price is None and finding.change is None
    small = copies(again=1, pinned=None, size_bytes=64)
    assert same_copy_every_step.examine(on_gpu(use, act=small, on_cpu=True)) == ()
    assert same_copy_every_step.examine(on_gpu(use, act=copies(again=1))) == (), "copies that take no time"
    with pytest.raises(Abstain, match="no GPU"):
        same_copy_every_step.examine(make_case(Loop().steps_of(10), ranks=1, wrapped=False))


def tidied(duration_ns=2 * MILLISECOND, call="torch.cuda.empty_cache"):
    return lambda sheet: sheet.add(HousekeepingNote, line=f"{call}()", call=call, duration_ns=duration_ns)


def test_memory_that_is_tidied_up_in_every_step_is_found():
    case = on_gpu(act=tidied())
    (finding,) = cache_emptied_in_loop.examine(case)
    assert finding.counts and "torch.cuda.empty_cache() in most steps, which takes 2.00 ms" in finding.sentence
    assert cache_emptied_in_loop.settle(case, finding, replayed(finding, 2.0, 4.0)).price.value == 3.0
    vague = cache_emptied_in_loop.settle(case, finding, replayed(finding, -0.1, 0.1))
    assert vague.proof == "observed" and vague.price.value == 2.0, "what the calls themselves took is known"


def test_tidying_up_now_and_then_or_at_no_cost_passes():
    assert cache_emptied_in_loop.examine(on_gpu(act=tidied(1000))) == ()
    now_and_then = iter(range(100))
    seldom = lambda sheet: tidied()(sheet) if next(now_and_then) % 10 == 0 else None  # noqa: E731
    assert cache_emptied_in_loop.examine(on_gpu(act=seldom)) == ()
    with pytest.raises(Abstain, match="on the CPU its price"):
        cache_emptied_in_loop.examine(on_gpu(act=tidied(1000), on_cpu=True))


def test_anomaly_detection_in_every_step_is_found_with_its_line():
    sheet = Loop().steps_of(20)
    sheet.row(make_settings(device="", anomaly=True, anomaly_place=sheet.place("set_detect_anomaly(True)")))
    (finding,) = debugging_left_on.examine(make_case(sheet, ranks=1, wrapped=False))
    assert "on in 20 of 20 steps" in finding.evidence[0] and finding.where.text == "set_detect_anomaly(True)"
    assert finding.counts and finding.change == Change("debugging_off")


def test_anomaly_detection_around_a_few_steps_passes():
    rows = [make_settings(1, anomaly=True), make_settings(4)]
    sheet = Loop().steps_of(20)
    for row in rows:
        sheet.row(row)
    assert debugging_left_on.examine(make_case(sheet, ranks=1, wrapped=False)) == ()


def test_launches_that_block_are_found_on_a_gpu_only():
    (finding,) = debugging_left_on.examine(on_gpu(settings=make_settings(launch_blocking=True)))
    assert "CUDA_LAUNCH_BLOCKING" in finding.sentence
    assert debugging_left_on.examine(on_gpu(settings=make_settings(launch_blocking=True, device=""))) == ()


def test_collectives_that_are_compared_first_are_found_on_several_ranks_only():
    sheet = Loop().steps_of(20).row(make_settings(distributed_debug="DETAIL", device=""))
    (finding,) = debugging_left_on.examine(make_case(sheet, ranks=2))
    assert "TORCH_DISTRIBUTED_DEBUG is DETAIL" in finding.sentence
    assert debugging_left_on.examine(make_case(sheet, ranks=1)) == ()
    with pytest.raises(Abstain, match="not seen"):
        debugging_left_on.examine(make_case(Loop().steps_of(20), ranks=1))


def recompiles(times, case_steps=20):
    left = iter([True] * 1 + [True] * times + [False] * 100)  # the first lies in the first step
    act = lambda sheet: sheet.add(CompileNote, duration_ns=50 * MILLISECOND) if next(left) else None  # noqa: E731
    return on_gpu(act=act, steps=case_steps)


def test_a_function_that_is_compiled_again_and_again_is_found_with_its_guard():
    case = recompiles(6)
    (finding,) = recompiled_in_loop.examine(case)
    assert "compiles forward again 6 times in 20 steps: size mismatch" in finding.sentence
    assert finding.price.value == pytest.approx(6 * 50 / 20) and finding.counts
    settled = recompiled_in_loop.settle(case, finding, replayed(finding, 0, 0, case=case, fixed=recompiles(1)))
    assert settled.proof == "replayed" and "6 times as it is, 1 times" in settled.evidence[-1]


def test_two_more_compilations_pass_and_a_script_that_compiles_nothing_is_not_judged():
    assert recompiled_in_loop.examine(recompiles(2)) == ()
    first = on_gpu(act=lambda sheet: sheet.add(CompileNote, reason=""))
    assert recompiled_in_loop.examine(first) == (), "first compilations of many functions"
    with pytest.raises(Abstain, match="nothing was compiled"):
        recompiled_in_loop.examine(on_gpu())


def attention(*shape, times=4, dtype="float32", **changes):
    return make_graph(attention=(AttentionSeen(shape, dtype, times),), **changes)


def test_attention_step_by_step_is_found_with_its_line():
    sheet = Loop().steps_of(40).row(make_settings()).row(attention(16, 8, 1024, 1024))
    sheet.row(AttentionRow(sheet.place("w = softmax(scores, -1)"), "softmax"))
    case = make_case(sheet, ranks=1)
    (finding,) = attention_not_fused.examine(case)
    assert finding.where.text == "w = softmax(scores, -1)" and "2.00 GiB of scores" in finding.sentence
    assert "scores of 16x8x1024x1024 in float32" in finding.evidence[0]
    assert attention_not_fused.settle(case, finding, replayed(finding, 2.0, 3.0)).proof == "replayed"


def test_weights_that_nobody_wants_are_told_apart():
    sheet = Loop().steps_of(40).row(make_settings()).row(attention(16, 8, 1024, 1024))
    sheet.row(AttentionRow(sheet.place("y, _ = mha(x, x, x)"), "multi_head_attention_forward"))
    (finding,) = attention_not_fused.examine(make_case(sheet, ranks=1))
    assert "need_weights=False" in finding.fix


def test_small_scores_and_fused_attention_pass_and_models_without_are_not_judged():
    assert attention_not_fused.examine(on_gpu(attention(8, 4, 16, 16))) == ()
    assert attention_not_fused.examine(on_gpu(make_graph(fused_attention=4))) == ()
    with pytest.raises(Abstain, match="no attention"):
        attention_not_fused.examine(on_gpu(make_graph()))


def read(line="log.info(loss)", **values):
    given = {"wait_ns": 2 * MILLISECOND, **values}
    return lambda sheet: sheet.add(HostReadNote, line=line, **given)


@pytest.mark.parametrize("by", ["logging", "torchmetrics.aggregation", "torch.optim.lr_scheduler", "torch._tensor_str"])
def test_reads_hidden_in_a_library_are_found_at_the_scripts_line(by):
    case = on_gpu(make_device_use("cuda:0"), act=read(call="item, indirect", by=by))
    (finding,) = read_every_step.examine(case)
    assert finding.where.text == "log.info(loss)" and f"(read by {by})" in finding.evidence[0]
    assert finding.change.settings == {"lines": f"train.py:{finding.where.line}"}


@pytest.mark.parametrize("by", ["", "torch.amp.grad_scaler", "torch.optim.adamw", "torch.nn.parallel.distributed"])
def test_reads_of_torchs_own_pass(by):
    assert read_every_step.examine(on_gpu(make_device_use("cuda:0"), act=read(call="item, indirect", by=by))) == ()


def test_reads_that_cost_nothing_stay_a_suspicion():
    case = on_gpu(make_device_use("cuda:0"), act=read())
    (finding,) = read_every_step.examine(case)
    settled = read_every_step.settle(case, finding, replayed(finding, -0.5, 0.5))
    assert finding.counts and not settled.counts and settled.price is None
    assert read_every_step.settle(case, finding, replayed(finding, 1.0, 1.5)).price.value == 1.25
