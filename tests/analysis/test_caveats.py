"""Each caveat: shown when it applies, with numbers and a remedy, and absent when it does not."""

from dataclasses import replace

import numpy as np
import pytest

from factories import make_outcome, make_run, noisy, quiet_sample
from scalewise.analysis.arms import arm_of
from scalewise.analysis.caveats import CHECKS, caveats_of, relative_drift
from scalewise.plan.words import parse_changes
from scalewise.records.machine import GpuSample
from scalewise.records.outcome import ReadFile, World
from scalewise.records.rows import RootRow, TroubleRow
from scalewise.records.spec import Turns


def named(*runs):
    return {caveat.name: caveat for caveat in caveats_of(arm_of(runs))}


def good(**changes):
    seconds = changes.pop("seconds", noisy(80, 0.005, 1))
    return make_run(seconds, samples=changes.pop("samples", (quiet_sample(),) * 4), **changes)


def with_rank(run, **changes):
    return replace(run, ranks=(replace(run.ranks[0], **changes), *run.ranks[1:]))


def gpus(count=6, **changes):
    gpu = replace(GpuSample(0, 0.9, 10**9, 1980, 600.0, 60, ()), **changes)
    return tuple(quiet_sample(gpus=(gpu,)) for _ in range(count))


def test_a_good_run_has_no_caveat():
    assert named(good(ranks=2)) == {}


def test_every_caveat_has_evidence_in_numbers_and_a_remedy():
    sleep = parse_changes("sleep_before_backward:0.01")
    bad = good(
        seconds=np.linspace(9, 1, 12) ** 2,
        ranks=4,
        shares=((0,), (1,), (0,), (1,)),
        oversubscribed=True,
        emulated=True,
        machine={"isa_cap": "AVX2"},
        samples=gpus(throttle_reasons=("sw_power_cap",)),
        changes=sleep,
        turns=Turns("ring", 0, 2),
    )
    bad = with_rank(replace(bad, samples=tuple(replace(row, foreign=0.3) for row in bad.samples)), torn_lines=1)
    bad = replace(bad, outcome=replace(bad.outcome, world=World("in_place", read=(ReadFile("last.pt", "exp-r0"),))))
    failed = good(outcome=make_outcome("killed", "Rank 1 was killed by SIGKILL."))
    found = named(bad, failed)
    assert set(found) == {
        "failed runs",
        "oversubscribed",
        "emulated",
        "loaded machine",
        "too few steps",
        "warm-up not over",
        "turns broken",
        "throttled",
        "restricted ISA",
        "watcher incomplete",
        "read an earlier run's file",
    }
    others = "drift, hooks left out, ranks apart, unknown samples, short steps, unlike hosts have tests of their own"
    assert len(CHECKS) == len(found) + 6, others
    for caveat in found.values():
        assert caveat.remedy
        assert any(letter.isdigit() for letter in caveat.evidence), caveat


@pytest.mark.parametrize(("taken", "severity"), [(39, None), (25, "note"), (10, "doubt")])
def test_steps_out_of_turn_are_said_where_they_are_many_and_doubted_where_they_count(taken, severity):
    run = good(seconds=[0.005] * 40, turns=Turns("ring", 1, 2))
    steps = tuple(replace(row, turn_ns=5 if row.step < taken else None) for row in run.ranks[0].steps)
    found = named(with_rank(run, steps=steps)).get("turns broken")
    assert (found and found.severity) == severity
    assert found is None or f"{taken} of 40 steps" in found.evidence


def test_a_failed_and_an_unfinished_run_are_told_apart():
    killed = named(good(), good(outcome=make_outcome("killed", "Rank 1 was killed.")))["failed runs"]
    assert killed.evidence == "1 of 2 runs: Rank 1 was killed."
    assert named(good(unfinished=True))["failed runs"].evidence == "1 of 1 runs: not finished yet"


@pytest.mark.parametrize(
    ("changes", "loaded"),
    [
        ({"foreign": 0.2}, True),
        ({"foreign": 0.08}, False),
        ({"steal": 0.1}, True),
        ({"pressure": 0.9}, False),
        ({"pressure": 0.5, "foreign": 0.07}, True),
        ({"steal": None, "pressure": None}, False),
    ],
)
def test_a_loaded_machine_is_told_from_foreign_load_steal_and_pressure(changes, loaded):
    found = named(good(samples=(quiet_sample(**changes),) * 5))
    assert ("loaded machine" in found) == loaded


def test_one_loaded_moment_is_no_loaded_run():
    samples = (quiet_sample(),) * 5 + (quiet_sample(foreign=0.9),)
    assert "loaded machine" not in named(good(samples=samples))


def test_few_or_noisy_steps_are_too_few():
    assert "18 steps after warm-up" in named(good(seconds=[0.005] * 19))["too few steps"].evidence
    assert "at least 30" in named(good(seconds=[0.005] * 19))["too few steps"].remedy
    assert named(good(seconds=noisy(80, 0.005, 1, step_cv=0.6)))["too few steps"].remedy.startswith("they vary much")
    assert "too few steps" not in named(good(seconds=[0.005] * 31))


def test_steps_of_all_runs_count_together_and_only_what_the_arm_says_is_judged():
    assert "too few steps" not in named(*(good(seconds=[0.005] * 19, repeat=repeat) for repeat in range(2)))
    one, two, three = (good(seconds=noisy(80, 0.005, seed, step_cv=0.3), repeat=seed) for seed in range(3))
    assert "too few steps" in named(one)
    assert "too few steps" not in named(one, two, three)


def test_drift_is_told_when_it_is_more_than_chance_and_more_than_three_percent():
    steps = np.arange(200)
    assert named(good(seconds=noisy(200, 0.005, 2) * (1 + 0.1 * steps / 200)))["drift"].severity == "doubt"
    faster = named(good(seconds=noisy(200, 0.005, 2) * (1 - 0.1 * steps / 200)))["drift"]
    assert "faster over exp-ranks1-r0" in faster.evidence
    assert "drift" not in named(good(seconds=0.005 * (1 + 0.02 * steps / 200)))


def test_noise_alone_is_rarely_called_drift():
    called = [abs(relative_drift(noisy(100, 0.005, seed))) > 0.03 for seed in range(200)]
    assert np.mean(called) <= 0.05


@pytest.mark.parametrize(
    ("samples", "evidence"),
    [
        (gpus(throttle_reasons=("sw_power_cap",)), "GPU 0 reported sw_power_cap in 6 of 6 samples"),
        (gpus(3) + gpus(5, sm_clock_mhz=1425), "GPU 0 fell from 1980 to 1425 MHz under load"),
        (gpus(3) + gpus(5, sm_clock_mhz=1425, utilisation=0.1), None),
        (gpus(throttle_reasons=("gpu_idle",)), None),
        (gpus(), None),
    ],
)
def test_throttling_is_told_from_reasons_and_from_clocks_under_load(samples, evidence):
    found = named(good(samples=samples, device="cuda"))
    assert (evidence in found["throttled"].evidence) if evidence else ("throttled" not in found)


def test_a_restricted_instruction_set_matters_on_the_cpu_only():
    assert "AVX512_CORE" in named(good(machine={"isa_cap": "AVX512_CORE"}))["restricted ISA"].evidence
    assert "restricted ISA" not in named(good(machine={"isa_cap": "AVX512_CORE"}, device="cuda"))


@pytest.mark.parametrize(
    ("changes", "evidence"),
    [
        ({"trouble": (TroubleRow("forward", "KeyError: 1"),)}, "rank 0: forward: KeyError: 1"),
        ({"torn_lines": 1}, "rank 0: 1 line torn or damaged"),
        ({"bad_lines": ("a", "b")}, "rank 0: 2 lines torn or damaged"),
        ({"end": None}, "rank 0: no end row"),
    ],
)
def test_gaps_in_the_records_of_a_rank_are_told(changes, evidence):
    assert evidence in named(with_rank(good(ranks=2), **changes))["watcher incomplete"].evidence


def test_missing_ranks_and_steps_are_told():
    run = good(ranks=2)
    lost = replace(run, ranks=run.ranks[:1])
    assert "1 of 2 ranks left no records" in named(lost)["watcher incomplete"].evidence
    short = with_rank(run, steps=run.ranks[0].steps[:70])
    assert "between 70 and 80 steps" in named(short)["watcher incomplete"].evidence
    damaged = replace(run, notes=("machine.json: bad",))
    assert named(damaged)["watcher incomplete"].evidence == "machine.json: bad"


def test_a_change_that_was_never_applied_is_told_unless_there_is_nothing_to_apply_it_to():
    for text, ranks, told in (
        ("sleep_before_backward:0.01", 1, True),
        ("remove_communication", 2, True),
        ("remove_communication", 1, False),
    ):
        run = good(ranks=ranks, changes=parse_changes(text))
        assert "watcher incomplete" not in named(run)
        never = tuple(replace(rank, end=replace(rank.end, changes_applied={})) for rank in run.ranks)
        assert ("watcher incomplete" in named(replace(run, ranks=never))) == told


def test_steps_that_differ_by_design_are_not_called_too_few_or_drifting():
    sizes = [4 * 8 ** (step % 9) for step in range(45)]
    run = good(seconds=np.array([1e-3 + size / 1e9 for size in sizes]), ranks=2)
    assert "too few steps" in named(run)
    swept = replace(
        run,
        ranks=tuple(
            replace(
                rank,
                steps=tuple(
                    replace(row, collectives={"all_reduce": (1, size)})
                    for row, size in zip(rank.steps, sizes, strict=True)
                ),
            )
            for rank in run.ranks
        ),
    )
    assert not {"too few steps", "drift", "warm-up not over"} & set(named(swept))


def test_a_reason_to_distrust_looks_other_than_a_wish_for_more_steps():
    found = named(with_rank(good(seconds=noisy(12, 0.005, 1)), torn_lines=1))
    assert found["watcher incomplete"].sign == "DOUBT"
    assert found["too few steps"].sign == "IMPRECISE"
    assert {found[name].severity for name in ("watcher incomplete", "too few steps")} == {"doubt"}
    assert named(good(oversubscribed=True, shares=((0,),)))["oversubscribed"].sign == "note"


@pytest.mark.parametrize(("hook", "sign"), [("hooks/backward", "note"), ("hooks/forward", "DOUBT")])
def test_what_was_not_observed_is_said_and_doubted_where_the_step_itself_rests_on_it(hook, sign):
    found = named(good(without_hooks={hook: "TypeError: no such argument"}))
    assert list(found) == ["not observed"]
    assert found["not observed"].sign == sign
    assert hook in found["not observed"].evidence and "TypeError: no such argument" in found["not observed"].evidence


def test_a_checkpoint_of_the_users_own_is_a_note_and_one_of_an_earlier_run_a_doubt():
    def reading(*files):
        return good(outcome=replace(make_outcome(), world=World("in_place", read=files)))

    (own,) = named(reading(ReadFile("last.pt"))).values()
    assert (own.name, own.severity) == ("read a checkpoint", "note")
    assert own.evidence == "1 of 1 runs read last.pt, which was there before the run"
    (earlier,) = named(reading(ReadFile("last.pt", "exp-ranks1-r0"), ReadFile("other.pt"))).values()
    assert (earlier.name, earlier.severity) == ("read an earlier run's file", "doubt")
    assert "last.pt, which exp-ranks1-r0 had written" in earlier.evidence and "--in-place" in earlier.remedy
    assert named(good(outcome=replace(make_outcome(), world=World("overlay")))) == {}


def test_samples_that_could_not_be_counted_are_said_with_the_module_and_the_reason():
    run = good(samples_in_all=None, step={"samples_unknown": "several calls", "samples_at": 3, "opened_by": 3})
    found = named(with_rank(run, roots=(RootRow(3, "Tower"),)))["samples unknown"]
    assert found.severity == "note"
    assert "samples/s is not given: Tower is called several times" in found.evidence


def test_old_files_give_no_reason_and_get_no_caveat():
    assert named(good(samples_in_all=None)) == {}


def test_steps_that_watching_makes_longer_are_said_and_longer_ones_are_not():
    (short,) = (one for one in named(good(seconds=noisy(80, 0.0002, 1))).values() if one.name == "short steps")
    assert short.severity == "note"
    assert "watching one took 55.0 us where that was measured" in short.evidence
    assert "short steps" not in named(good(seconds=noisy(80, 0.0012, 1)))
