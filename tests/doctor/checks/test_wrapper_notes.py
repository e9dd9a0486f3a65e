"""Tests of the checks that note DataParallel and DDP's warning of strides."""

from case_factory import Sheet, make_case, make_wrapper

from scalewise.doctor.checks import data_parallel, gradient_strides
from scalewise.records.notes import WarningNote

WARNING = (
    "Grad strides do not match bucket view strides. This may indicate grad was not created according to the gradient "
    "layout contract.\ngrad.sizes() = [8, 1], strides() = [1, 8]\nbucket_view.sizes() = [8, 1], strides() = [1, 1]"
)


def parallel(devices, **forward):
    wrapper = make_wrapper(wrapper="DataParallel", ranks=(), parameter_bytes=10**6, options={"devices": devices})
    return make_case(Sheet().row(wrapper).windows(3, forward={"module": "DataParallel", **forward}))


def test_data_parallel_on_several_devices_is_slow():
    (finding,) = data_parallel.examine(parallel(4))
    assert finding.severity == "slow" and "copies 3 MB of weights to 3 other devices" in finding.sentence
    assert (finding.price.value, finding.price.unit) == (3 * 10**6, "bytes")


def test_data_parallel_without_a_second_device_is_a_note():
    (finding,) = data_parallel.examine(parallel(0))
    assert finding.severity == "note" and not finding.counts and finding.price is None


def test_data_parallel_that_is_not_trained_and_other_wrappers_pass():
    assert not data_parallel.examine(parallel(4, trains=False))
    assert not data_parallel.examine(make_case(Sheet().windows(2), ranks=2))


def test_the_warning_of_strides_is_a_note_with_the_shape():
    (finding,) = gradient_strides.examine(make_case(Sheet().add(WarningNote, text=WARNING).windows(2), ranks=2))
    assert finding.severity == "note" and not finding.counts and finding.ranks == (0, 1)
    assert any("[8, 1], strides() = [1, 8]" in fact for fact in finding.evidence)


def test_other_warnings_pass():
    assert not gradient_strides.examine(make_case(Sheet().add(WarningNote, text="lr_scheduler.step()").windows(2)))
