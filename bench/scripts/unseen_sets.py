"""The sets of models of `python -m bench unseen`; the models of a set lie in `{name}_models.py` beside this file."""

from dataclasses import dataclass


@dataclass(frozen=True)
class ModelSet:
    """What a set of models may be used for."""

    told: str
    taken_apart: bool = False  # further runs of its models take their time apart
    learnt: bool = False  # the errors that predictions expect are learnt from it


SETS = {
    "fresh": ModelSet("written without reading how the prediction works; nothing was tuned on it"),
    "unseen": ModelSet("nothing was tuned on it until all of it had been judged", learnt=True),
    "development": ModelSet("anything may be tuned on it", taken_apart=True, learnt=True),
}
