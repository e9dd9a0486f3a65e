"""H1.1: opposite first steps and opposite losses give opposite answers."""

from dataclasses import replace

from evidence_factories import arm, make_evidence
from factories import noisy
from scalewise.explain.homework1.h1_1 import seed_pairs, seeds_answer, warm_up, warm_up_answer


def traced(first):
    runs = []
    for repeat in range(3):
        steps = noisy(40, 0.010, repeat, step_cv=0.01)
        steps[0] = first
        runs.append(arm("strong-scaling", steps, 2, repeat=repeat))
    return make_evidence(*runs)


def seeded(fixed, free):
    """Losses of two runs with the seed and of two without."""
    runs = []
    for seed, pair in (("0", fixed), ("none", free)):
        for repeat, losses in enumerate(pair):
            run = arm("seeds", [0.01] * len(losses), 2, repeat=repeat, axes={"seed": seed})
            ranks = tuple(
                replace(one, steps=tuple(replace(row, loss=loss) for row, loss in zip(one.steps, losses, strict=True)))
                for one in run.ranks
            )
            runs.append(replace(run, ranks=ranks))
    return make_evidence(*runs)


SAME = ([1.0] * 12, [1.0] * 12)
APART = ([1.0] * 12, [1.0] * 3 + [1.25] * 9)


def test_a_slow_first_step_makes_warm_up_needed_and_gives_the_error_of_the_mean():
    evidence = traced(0.050)
    answer = warm_up_answer(evidence)
    found = warm_up(evidence)
    assert 4 < found.first_over_rest.value < 6
    assert abs(found.mean_error.value - 0.10) < 0.01  # one step of 40 is 4 times too long
    assert "left out, not averaged away" in answer.text
    assert "10." in answer.text or "9." in answer.text


def test_an_even_first_step_makes_it_a_precaution_only():
    answer = warm_up_answer(traced(0.010))
    assert "not clearly slower" in answer.text
    assert "1.05" in answer.condition


def test_too_few_steps_are_a_hole():
    assert "Not answered" in warm_up_answer(make_evidence(arm("strong-scaling", [0.01] * 8, 2))).text


def test_equal_with_and_different_without_a_seed_is_the_lesson():
    answer = seeds_answer(seeded(SAME, APART))
    assert "bit for bit, 12 of 12 recorded" in answer.text
    assert "differ from step 3 on, by at most 20 %" in answer.text
    assert "is chance" in answer.text


def test_different_in_spite_of_the_seed_is_said():
    answer = seeds_answer(seeded(APART, APART))
    assert "not deterministic" in answer.text
    assert "3 of 12" in answer.condition


def test_equal_without_a_seed_is_said():
    assert "decides nothing here" in seeds_answer(seeded(SAME, SAME)).text
    assert "did not help" in seeds_answer(seeded(APART, SAME)).text


def test_one_run_alone_is_no_pair():
    evidence = make_evidence(arm("seeds", [0.01] * 12, 2, axes={"seed": "0"}))
    assert seed_pairs(evidence) == ()
    assert "with the seed and without one" in seeds_answer(evidence).text
