"""H2.1: Code 3 trains as Code 1 does: bit for bit without mixed precision, within rounding with it."""

from scalewise.analysis.stability import TOLERATED_ROUNDINGS, Curve, curve_of, tolerance_of
from scalewise.explain.answer import Answer, unanswered
from scalewise.explain.arms import figures_of, hole, usable
from scalewise.explain.evidence import Evidence
from scalewise.explain.homework2.codes import ACCUMULATION, BOTH
from scalewise.explain.words import listed

ROW = "H2.1"
QUESTION = "Does Code 3 train as Code 1 does?"


def curve_between(evidence: Evidence, experiment: str) -> Curve | None:
    """Code 3's losses beside Code 1's; with mixed precision its rounding is tolerated, without it none."""
    one, three = (figures_of(evidence, usable(evidence, experiment, code=code)) for code in (ACCUMULATION, BOTH))
    if not one or not three:
        return None
    mixed = any("autocast" in word for word in three[0].precision)
    return curve_of(three[0].losses, one[0].losses, tolerance_of(three[0].precision) if mixed else 0.0)


def answers(evidence: Evidence) -> tuple[Answer, ...]:
    """One answer from the two pairs of curves."""
    plain, mixed = (curve_between(evidence, name) for name in ("same-loss", "codes"))
    if plain is None and mixed is None:
        missing = listed([hole(evidence, name, code=BOTH) for name in ("same-loss", "codes")])
        return (unanswered(ROW, QUESTION, missing),)
    said, conditions = [_verdict(plain, mixed)], []
    if plain is None:
        said.append(f"With AMP=0: not told, {hole(evidence, 'same-loss', code=BOTH)}.")
    else:
        said.append(_plain_words(plain))
        conditions.append(f"AMP=0: {_plain_rule(plain)}")
    if mixed is None:
        said.append(f"With AMP=1: not told, {hole(evidence, 'codes', code=BOTH)}.")
    else:
        said.append(_mixed_words(mixed))
        relation = "<=" if mixed.within else ">"
        conditions.append(f"AMP=1: {mixed.largest_distance:.1e} {relation} {mixed.tolerance:.1e}")
    return (Answer(ROW, QUESTION, " ".join(said), "; ".join(conditions), ("h2-loss-curves",)),)


def _verdict(plain: Curve | None, mixed: Curve | None) -> str:
    known = [curve.within for curve in (plain, mixed) if curve]
    if not all(known):
        return "No."
    return "Yes." if len(known) == 2 else "As far as it was measured."


def _plain_rule(curve: Curve) -> str:
    return "no loss differs" if curve.same else f"losses differ by up to {curve.largest_distance:.1e}"


def _plain_words(curve: Curve) -> str:
    if curve.same:
        return f"With AMP=0 all {curve.steps} losses are those of Code 1, bit for bit: the accumulation is unchanged."
    return (
        f"With AMP=0 the losses differ from Code 1's by up to {curve.largest_distance:.1e}, so something other than "
        f"precision was changed."
    )


def _mixed_words(curve: Curve) -> str:
    rule = f"{TOLERATED_ROUNDINGS} roundings of its precision allow {curve.tolerance:.1e}"
    if curve.within:
        return f"With AMP=1 they lie within {curve.largest_distance:.1e} of them ({rule})."
    return (
        f"With AMP=1 they lie up to {curve.largest_distance:.1e} from them, more than rounding alone explains ({rule})."
    )
