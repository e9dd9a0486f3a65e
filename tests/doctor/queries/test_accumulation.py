"""Tests of what is gradient accumulation and what only looks like it."""

import pytest
from case_factory import Sheet, make_case

from scalewise.doctor.case import Abstain
from scalewise.doctor.queries.accumulation import accumulation_of, scheduled, updates_of


def accumulation(sheet):
    return accumulation_of(make_case(sheet).first)


def test_micro_batches_lead_to_an_update():
    found = accumulation(Sheet().windows(3, 4).micro_batch())
    assert (len(found.updates), found.size, found.rest.size) == (3, 4, 1)
    assert found.steady and found.loaders == {0} and not found.shared_batch


def test_one_backward_pass_per_step_is_no_accumulation():
    assert accumulation(Sheet().windows(4)).windows == ()


def test_a_step_left_out_now_and_then_is_no_accumulation():
    assert accumulation(Sheet().windows(6).window(2).windows(6)).windows == ()


def test_windows_may_vary():
    found = accumulation(Sheet().window(2).window(3).window(3).window(5))
    assert len(found.windows) == 4 and found.size == 3 and not found.steady


def test_two_losses_of_one_forward_pass_are_one_micro_batch():
    sheet = Sheet()
    for _ in range(3):
        sheet.batch().forward().backward(line="a.backward(retain_graph=True)").backward(line="b.backward()").step()
    updates, _ = updates_of(make_case(sheet).first)
    assert [update.size for update in updates] == [1, 1, 1] and len(updates[0].backwards) == 2


def test_a_loss_that_is_a_module_is_no_forward_pass_of_the_model():
    sheet = Sheet()
    for _ in range(3):
        sheet.batch().forward(module="Net", wrapper=-1)
        sheet.forward(module="CrossEntropyLoss", wrapper=-1).backward()
        sheet.forward(module="MSELoss", wrapper=-1).backward().step()
    assert accumulation(sheet).windows == ()


def test_optimizers_that_step_together_make_one_update():
    sheet = Sheet()
    for _ in range(3):
        sheet.micro_batch().micro_batch().step(optimizer=0).zero().step(optimizer=1).zero()
    found = accumulation(sheet)
    assert [update.size for update in found.updates] == [2, 2, 2] and len(found.updates[0].steps) == 2


def test_stages_with_an_optimizer_each_are_no_turns():
    sheet = Sheet().windows(12, 2).windows(12, 2, step={"optimizer": 1})
    assert accumulation(sheet).size == 2


def test_the_branch_of_the_last_micro_batch_may_have_lines_of_its_own():
    sheet = Sheet()
    for _ in range(3):
        sheet.micro_batch().batch().forward(line="out = model(x)").backward(line="final.backward()").step()
    assert accumulation(sheet).size == 2, "each has a batch of the same loader"


def test_chunks_of_one_batch_are_accumulation():
    sheet = Sheet()
    for _ in range(3):
        sheet.batch().window(4, batch=False)
    found = accumulation(sheet)
    assert found.size == 4 and found.shared_batch


def test_one_input_for_the_whole_run_is_a_benchmark():
    assert accumulation(Sheet().windows(3, 2, forward={"digest": "same"})).size == 2


def test_a_loader_may_be_made_for_each_epoch():
    sheet = Sheet()
    for epoch in range(3):
        for _ in range(4):
            sheet.batch(loader=epoch).forward().backward().batch(loader=epoch).forward().backward().step()
        sheet.batch(loader=9).forward(trains=False)
    assert accumulation(sheet).loaders == {0, 1, 2}


def gan():
    sheet = Sheet()
    for _ in range(4):
        sheet.micro_batch().micro_batch().step(optimizer=0).forward().backward().step(optimizer=1)
    return sheet


def same_data_twice():
    sheet = Sheet()
    for number in range(4):
        for _ in range(2):
            sheet.forward(digest=f"batch {number}").backward()
        sheet.step()
    return sheet


def two_tasks():
    sheet = Sheet()
    for _ in range(4):
        sheet.batch(loader=0).forward().backward().batch(loader=1).forward().backward().step()
    return sheet


def two_losses():
    sheet = Sheet()
    for _ in range(4):
        sheet.batch().forward(line="a = f(x)").backward(line="a.backward()")
        sheet.forward(line="b = f(z)").backward(line="b.backward()").step()
    return sheet


def unknown_data():
    return Sheet().windows(3, 2, batch=False, forward={"digest": None})


def fixed_input_from_two_lines():
    sheet = Sheet()
    for _ in range(3):
        sheet.forward(digest="x").backward(line="a.backward()").forward(digest="x").backward(line="b.backward()").step()
    return sheet


@pytest.mark.parametrize(
    ("sheet", "reason"),
    [
        (gan(), "several optimizers"),
        (same_data_twice(), "same data"),
        (two_tasks(), "several loaders"),
        (two_losses(), "several lines"),
        (unknown_data(), "is not known"),
        (fixed_input_from_two_lines(), "same input"),
        (Sheet().windows(3, 2, closure=True), "closure"),
        (Sheet().window(4), "needs 2 optimizer steps"),
    ],
)
def test_what_only_looks_like_accumulation_abstains(sheet, reason):
    with pytest.raises(Abstain, match=reason):
        accumulation(sheet)


def test_what_is_applied_is_told_by_the_step_or_else_by_the_clip_before_it():
    sheet = Sheet().micro_batch().clip(ratio=0.5).step(ratio=None).window().micro_batch().clip().step(ratio=None)
    assert [update.applied for update in updates_of(make_case(sheet).first)[0]] == [0.5, 1.0, None]


def test_the_busiest_scheduler_counts():
    sheet = Sheet().micro_batch().schedule().schedule(scheduler=1).micro_batch().schedule().step()
    assert scheduled(updates_of(make_case(sheet).first)[0][0]) == 2


def test_scheduler_steps_at_one_place_of_a_window_are_not_one_per_micro_batch():
    sheet = Sheet().micro_batch().micro_batch().step().schedule().schedule().micro_batch().micro_batch().step()
    assert [scheduled(update) for update in updates_of(make_case(sheet).first)[0]] == [0, 1]
