"""Detects training that learns nothing: every gradient is exactly zero, or there is none."""

from scalewise.doctor.case import Abstain, Case, RankCase
from scalewise.doctor.finding import Check, Finding, Price
from scalewise.doctor.queries.accumulation import of_kind, updates_of
from scalewise.doctor.queries.source import optimizer_name
from scalewise.records.notes import BackwardNote, GradientsNote, StepNote, ZeroNote

CHECK = Check(
    name="gradients-all-zero",
    group="model",
    severity="wrong",
    detects="In every step that was looked at, all gradients of an optimizer are exactly zero, or it has none at all.",
    why="Nothing is learned: only weight decay and momentum still move the parameters, and the loss stays as it is.",
    example="model = nn.Linear(20, 1)  # one class\nloss = F.cross_entropy(model(x), labels)",
    fix="model = nn.Linear(20, classes)  # two or more\nloss = F.cross_entropy(model(x), labels)",
    needs="three steps whose gradients could be read",
    silent="One step with any gradient is enough to say nothing. Gradients that are zeroed between backward and "
    "step are the business of zeroed-before-step.",
)
LEAST = 3  # steps


def examine(case: Case) -> tuple[Finding, ...]:
    """Returns a finding for an optimizer of rank 0 whose gradients are zero in all steps, on every rank."""
    looked = _looked(case.first)
    known = {number: notes for number, notes in looked.items() if len(notes) >= LEAST}
    if not known:
        raise Abstain(f"the gradients of {LEAST} steps could not be read")
    for number, notes in known.items():
        others = [note for rank in case.ranks[1:] for note in _looked(rank).get(number, [])]
        if all(_empty(note) for note in (*notes, *others)) and not _thrown_away(case.first):
            return (_finding(case.first, notes),)
    return ()


def _looked(rank: RankCase) -> dict[int, list[GradientsNote]]:
    found: dict[int, list[GradientsNote]] = {}
    for note in rank.all(GradientsNote):
        found.setdefault(note.optimizer, []).append(note)
    return found


def _empty(note: GradientsNote) -> bool:
    return note.zero or not note.present


def _thrown_away(rank: RankCase) -> bool:
    """Returns True if a step's gradients were zeroed right before it, or existed after backward."""
    updates, _ = updates_of(rank)
    zeroed = any(zero.had_gradients for update in updates for zero in of_kind(update.tail, ZeroNote))
    alone = len({note.optimizer for note in rank.all(StepNote)}) == 1  # else the gain may belong to another optimizer
    return zeroed or (alone and any(note.gained for note in rank.all(BackwardNote)))


def _finding(rank: RankCase, notes: list[GradientsNote]) -> Finding:
    step = next(one for one in rank.all(StepNote) if one.optimizer == notes[0].optimizer)
    backward = next(iter(rank.all(BackwardNote)), None)
    losses = {note.loss for note in rank.all(BackwardNote) if note.loss is not None}
    absent = all(not note.present for note in notes)
    one_class = notes[0].classes == 1
    name = optimizer_name(rank, step)
    if absent:
        sentence = f"No parameter of {name} has a gradient in any of {len(notes)} steps: backward does not reach them."
    else:
        cause = ": the cross entropy has only one class to choose from" if one_class else ""
        sentence = f"All gradients are exactly zero in all of {len(notes)} steps{cause}."
    evidence = [f"parameters with a gradient at the step: {step.gradients} of {step.parameters}"]
    if losses:
        constant = f"is {next(iter(losses)) or 0.0:.6g} in every step"
        evidence.append(f"the loss {constant if len(losses) == 1 else 'changes with the data only'}")
    return Finding(
        check=CHECK.name,
        severity="wrong",
        sentence=sentence,
        evidence=(*evidence, *_causes(absent, one_class)),
        fix=_fix(absent, one_class, name),
        where=rank.place(backward) or rank.place(step),
        price=Price(1.0, "share", "of the steps looked at that teach nothing", "counted"),
        steps_seen=len(notes),
    )


def _causes(absent: bool, one_class: bool) -> list[str]:
    if one_class:
        return ["the softmax over one class is 1 whatever the model says: the loss is 0, and so is its gradient"]
    if absent:
        return [
            "likely causes: the optimizer was given the parameters of another model (recreated or copied since), "
            "or the loss is made of detached tensors"
        ]
    return [
        "likely causes: a loss that does not depend on the output, an activation that is saturated everywhere "
        "(dead ReLU, clamp), a mask that leaves nothing, or gradients too small for float16"
    ]


def _fix(absent: bool, one_class: bool, name: str) -> str:
    if one_class:
        return (
            "model = nn.Linear(features, classes)  # an output for each class, two or more\n"
            "# for a single output: F.binary_cross_entropy_with_logits, or F.mse_loss for a quantity"
        )
    if absent:
        return (
            f"{name} = torch.optim.SGD(model.parameters(), lr)  # after the model is final, of the model that is called"
        )
    return "for name, value in model.named_parameters():\n    print(name, value.grad.norm())  # where the zeros begin"
