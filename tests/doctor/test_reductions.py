"""Tests of what a script sends between ranks by itself."""

from case_factory import Sheet, make_case

from scalewise.doctor.reductions import averages_by_hand, averages_models, reduces_by_hand, sent_bytes


def window(*sizes, operation="all_reduce"):
    sheet = Sheet().forward().backward()
    for size in sizes:
        sheet.collective(operation, size_bytes=size)
    return make_case(sheet.step()).first.windows[0]


def test_the_gradients_of_all_parameters_add_up():
    assert sent_bytes(window(400, 100).collectives) == 500
    assert reduces_by_hand(window(*[100] * 40), 4000)


def test_a_loss_is_no_gradient():
    assert not reduces_by_hand(window(4), 4000)
    assert not reduces_by_hand(window(), 4000)


def test_messages_and_barriers_average_nothing():
    assert not reduces_by_hand(window(4000, operation="send"), 4000)
    assert not reduces_by_hand(window(0, operation="barrier"), 0)


def test_whole_models_now_and_then_are_averaging():
    assert averages_by_hand((window(), window(4000)), 4000)
    assert not averages_by_hand((window(), window(400)), 4000)


def test_models_are_averaged_between_a_step_and_the_next_forward_pass():
    sheet = Sheet().collective("broadcast", size_bytes=4000).windows(2)
    assert not averages_models(make_case(sheet).first.windows, 4000)
    sheet.collective(size_bytes=4000).window()
    assert averages_models(make_case(sheet).first.windows, 4000)
