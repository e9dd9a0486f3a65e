"""Detects evaluation in training mode: dropout is active, and batch normalisation learns from the evaluation data."""

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from scalewise.doctor.case import Abstain, Case, RankCase
from scalewise.doctor.finding import Check, Finding, Price, Replayed
from scalewise.doctor.queries.inputs import training_loaders
from scalewise.doctor.queries.source import called_model, text_of
from scalewise.records.examination import MeasuredRow
from scalewise.records.notes import NOWHERE, BackwardNote, BatchNote, ForwardNote, StepNote, TrainingModeNote
from scalewise.records.spec import Change
from scalewise.units import counted

CHECK = Check(
    name="evaluation-in-training-mode",
    group="model",
    severity="wrong",
    detects="The model that is trained is evaluated on other data, without gradients, while it is in training mode.",
    why="Dropout makes every figure of the evaluation random and too bad. Batch normalisation uses each batch's own "
    "statistics, and takes those of the evaluation data into the model that is saved.",
    example="with torch.no_grad():\n    for x, y in test_loader:\n        right += (model(x).argmax(1) == y).sum()",
    fix="model.eval()\nwith torch.no_grad():\n    for x, y in test_loader:\n"
    "        right += (model(x).argmax(1) == y).sum()\nmodel.train()",
    needs="passes of the trained model without gradients",
    silent="Several passes over one input (Monte-Carlo dropout), passes over the training data (statistics that are "
    "taken anew), single passes between training passes (pseudo-labels, self-conditioning), a teacher or "
    "a target network, and models without dropout and batch normalisation. Where no DataLoader feeds the passes, "
    "it is a suspicion.",
)
LEAST_ALONE = 3  # passes in a row that no loader feeds


@dataclass(frozen=True)
class _Passes:
    """Consecutive passes without training in between."""

    notes: tuple[TrainingModeNote, ...]
    loaders: tuple[int, ...]  # the loader that fed each pass; NOWHERE: none did
    rows: tuple[int | None, ...]

    @property
    def distinct(self) -> bool:
        """True if each pass had an input of its own."""
        digests = [note.digest for note in self.notes]
        return None not in digests and len(set(digests)) == len(digests)


def examine(case: Case) -> tuple[Finding, ...]:
    """Returns a finding for the first rank that evaluates in training mode; often only one rank evaluates at all."""
    if not any(not note.trains for rank in case.ranks for note in rank.all(ForwardNote)):
        raise Abstain("no model was called without gradients")
    for rank in case.ranks:
        fed = [one for one in _passes(rank) if _evaluates(rank, one)]
        if fed:
            return (_finding(rank, fed, proved=True),)
    for rank in case.ranks:
        alone = [one for one in _passes(rank) if _may_evaluate(rank, one)]
        if alone:
            return (_finding(rank, alone, proved=False),)
    return ()


def _passes(rank: RankCase) -> Iterator[_Passes]:
    """Yields runs of passes in training mode without gradients, each pass with the loader of the batch before it."""
    notes: list[TrainingModeNote] = []
    loaders: list[int] = []
    rows: list[int | None] = []
    loader = NOWHERE
    for note in rank.notes:
        if isinstance(note, BatchNote):
            loader = note.loader
        elif isinstance(note, TrainingModeNote):
            notes.append(note)
            loaders.append(loader)
            rows.append(None)
            loader = NOWHERE
        elif isinstance(note, ForwardNote) and not note.trains and rows:
            rows[-1] = note.rows
        elif isinstance(note, (BackwardNote, StepNote)) or (isinstance(note, ForwardNote) and note.trains):
            if notes:
                yield _Passes(tuple(notes), tuple(loaders), tuple(rows))
            notes, loaders, rows, loader = [], [], [], NOWHERE
    if notes:
        yield _Passes(tuple(notes), tuple(loaders), tuple(rows))


def _evaluates(rank: RankCase, passes: _Passes) -> bool:
    """Returns True for two or more different inputs, each a batch of a loader that does not feed training."""
    feeding = training_loaders(rank)
    other = all(loader != NOWHERE and loader not in feeding for loader in passes.loaders)
    return other and len(passes.notes) > 1 and passes.distinct and all(note.trained for note in passes.notes)


def _may_evaluate(rank: RankCase, passes: _Passes) -> bool:
    """Returns True for likely evaluation without loaders: inputs as large as in training, none of them trained on."""
    if rank.all(BatchNote) or len(passes.notes) < LEAST_ALONE or not passes.distinct:
        return False
    trained = [note for note in rank.all(ForwardNote) if note.trains]
    learnt = {digest for note in trained for digest in note.row_digests}
    seen = {digest for note in passes.notes for digest in note.inputs}
    as_large = set(passes.rows) <= {note.rows for note in trained}
    return as_large and not seen & learnt and all(note.trained for note in passes.notes)


def _finding(rank: RankCase, found: Sequence[_Passes], proved: bool) -> Finding:
    passes = [note for one in found for note in one.notes]
    dropouts, norms = max(note.dropouts for note in passes), max(note.batch_norms for note in passes)
    layers = [f"{counted(dropouts, 'dropout layer')} active"] * bool(dropouts)
    layers += [f"{counted(norms, 'batch-normalisation layer')} learning"] * bool(norms)
    place = rank.place(passes[0])
    model = called_model(place)
    return Finding(
        check=CHECK.name,
        severity="wrong",
        sentence=f"The model is evaluated in training mode: {' and '.join(layers)} in "
        f"{counted(len(passes), 'pass')} without gradients.",
        evidence=(
            f"{passes[0].module} is called without gradients in training mode, "
            f"{len(found[0].notes)} times in a row on different inputs that are not trained on",
            *(["its running statistics now hold those of the evaluation data"] if norms else []),
        ),
        fix=f"{model}.eval()  # before the evaluation\n{text_of(place, f'{model}(x)')}\n"
        f"{model}.train()  # before training goes on",
        where=place,
        proof="observed" if proved else "suspected",
        ranks=(rank.rank,),
        steps_seen=len(rank.windows),
        change=Change("eval_mode"),
    )


def settle(case: Case, finding: Finding, replayed: Replayed) -> Finding:
    """Prices the finding by how far the model's outputs in both modes lie apart on the same inputs, in a replay."""
    rows = [row for rank in replayed.fixed.ranks for row in rank.record.examination]
    apart = [row.value for row in rows if isinstance(row, MeasuredRow) and row.what == "output"]
    if replayed.trouble or not apart:
        return finding
    share = statistics.median(apart)
    price = Price(
        share,
        "share",
        "by which the model's output is off",
        f"measured in a replay: {len(apart)} inputs, each both ways; distance over the length of the right output",
    )
    if not share:
        words = "replayed both ways on the same inputs, the outputs are equal"
        return replace(finding, proof="suspected", evidence=(*finding.evidence, words))
    # A replay does not show that the passes are an evaluation: a suspicion gets its price and remains a suspicion.
    return replace(finding, price=price, proof="replayed" if finding.proof == "observed" else finding.proof)
