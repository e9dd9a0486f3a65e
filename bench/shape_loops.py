"""Training loops of every shape that people write, each timed by hand where its step begins and ends.

A loop is a generator that makes one iteration per `next`. `hand.begin()` stands right before the first forward of the
module that is trained, `hand.end()` right after the optimizer, and `hand.fetch` around waiting for a DataLoader.
"""

import copy
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch.func import functional_call, grad_and_value

from bench.shape_hand import BATCH, Centres, Hand, Jitter, loader, update

functional: Any = nn.functional


def plain(hand: Hand) -> Iterator[None]:
    """For comparison: a loader, a model, an optimizer."""
    yield from _from_loader(hand, loader(hand))


def transforms_in_dataset(hand: Hand) -> Iterator[None]:
    """Modules called for each sample while a batch is fetched."""
    yield from _from_loader(hand, loader(hand, transform=nn.Sequential(Jitter(), Jitter())))


def module_in_collate(hand: Hand) -> Iterator[None]:
    """A module with parameters called in the collate function."""
    embed = nn.Linear(hand.dim, hand.dim)

    def collate(rows: Any) -> Any:
        x, y = (torch.stack(part) for part in zip(*rows, strict=True))
        return embed(x).detach(), y

    yield from _from_loader(hand, loader(hand, collate_fn=collate))


def generator_of_batches(hand: Hand) -> Iterator[None]:
    """A generator that transforms, without a DataLoader."""
    augment = Jitter()

    def batches() -> Iterator[Any]:
        while True:
            x, y = hand.batch()
            yield augment(x), y

    yield from _train(hand, batches())


def augmentation_in_loop(hand: Hand) -> Iterator[None]:
    """A module without parameters, on the device, before the model."""
    augment, batches = Jitter(), loader(hand)
    yield from _train(hand, ((augment(x), y) for x, y in iter(lambda: hand.fetch(batches), None)))


def _from_loader(hand: Hand, batches: Iterator[Any]) -> Iterator[None]:
    yield from _train(hand, iter(lambda: hand.fetch(batches), None))


def _train(hand: Hand, batches: Iterator[Any], model: Any = None) -> Iterator[None]:
    model = model or hand.model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for x, y in batches:
        hand.begin()
        update(hand, optimizer, functional.mse_loss(model(x), y))
        yield


def frozen_teacher(hand: Hand) -> Iterator[None]:
    """In training mode, without no_grad."""
    yield from _taught(hand, hand.model().requires_grad_(False))


def teacher_left_trainable(hand: Hand) -> Iterator[None]:
    """Nobody froze it, and no optimizer holds it."""
    yield from _taught(hand, hand.model())


def moving_average(hand: Hand) -> Iterator[None]:
    """The teacher is an average of the student, updated after each step."""
    student = hand.model()
    yield from _taught(hand, copy.deepcopy(student), student)


def _taught(hand: Hand, teacher: Any, student: Any = None) -> Iterator[None]:
    average, student = student is not None, student or hand.model()
    optimizer = torch.optim.SGD(student.parameters(), lr=0.01)
    while True:
        x, _ = hand.batch()
        wanted = teacher(x).detach()
        hand.begin()
        update(hand, optimizer, functional.mse_loss(student(x), wanted))
        if average:
            with torch.no_grad():
                for mean, new in zip(teacher.parameters(), student.parameters(), strict=True):
                    mean.lerp_(new, 0.1)
        yield


def evaluation_without_gradients(hand: Hand) -> Iterator[None]:
    """Every third step, in training mode, under no_grad."""
    yield from _evaluated(hand, torch.no_grad)


def evaluation_with_gradients(hand: Hand) -> Iterator[None]:
    """Every third step, careless: in training mode, with gradients."""
    yield from _evaluated(hand, torch.enable_grad)


def _evaluated(hand: Hand, how: Any) -> Iterator[None]:
    model = hand.model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    held_out, _ = hand.batch(2 * BATCH)
    number = 0
    while True:
        number += 1
        if number % 3 == 0:
            with how():
                for _ in range(2):
                    model(held_out).sum().item()
        x, y = hand.batch()
        hand.begin()
        update(hand, optimizer, functional.mse_loss(model(x), y))
        yield


def gan(hand: Hand) -> Iterator[None]:
    """Critic, then generator: an iteration is both."""
    yield from _gan(hand, critic_steps=1, penalty=False)


def gan_with_penalty(hand: Hand) -> Iterator[None]:
    """Two critic steps with a gradient penalty to one of the generator."""
    yield from _gan(hand, critic_steps=2, penalty=True)


def _gan(hand: Hand, critic_steps: int, penalty: bool) -> Iterator[None]:
    generator, critic, batches = hand.model(), hand.model(last=1), loader(hand)
    making, judging = (torch.optim.Adam(one.parameters(), lr=1e-4) for one in (generator, critic))
    while True:
        real, _ = hand.fetch(batches)
        hand.begin()
        for number in range(critic_steps):
            if number:
                real, _ = hand.fetch(batches)
            fake = generator(torch.randn_like(real)).detach()
            loss = critic(fake).mean() - critic(real).mean()
            if penalty:
                mixed = torch.lerp(real, fake, 0.5).requires_grad_()
                (slope,) = torch.autograd.grad(outputs=critic(mixed).sum(), inputs=mixed, create_graph=True)
                loss = loss + (slope.norm(dim=1) - 1).pow(2).mean()
            judging.zero_grad()
            loss.backward()
            judging.step()
        making.zero_grad()
        (-critic(generator(torch.randn_like(real))).mean()).backward()
        making.step()
        hand.end()
        yield


def rollouts_without_gradients(hand: Hand) -> Iterator[None]:
    """A policy acts, then is updated twice on what it saw."""
    yield from _rollouts(hand, torch.no_grad)


def rollouts_with_gradients(hand: Hand) -> Iterator[None]:
    """The same, careless."""
    yield from _rollouts(hand, torch.enable_grad)


def _rollouts(hand: Hand, how: Any) -> Iterator[None]:
    policy = hand.model()
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-4)
    state, _ = hand.batch(8)
    while True:
        seen = []
        with how():
            for _ in range(8):
                state = torch.tanh(policy(state).detach())
                seen.append(state)
        states = torch.cat(seen)
        for _ in range(2):
            hand.begin()
            update(hand, optimizer, policy(states).pow(2).mean())
            yield


def siamese(hand: Hand) -> Iterator[None]:
    """Two calls on two views of a batch."""
    model, batches = hand.model(), loader(hand)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    while True:
        x, y = hand.fetch(batches)
        hand.begin()
        update(hand, optimizer, functional.mse_loss(model(x), model(y)))
        yield


def unrolled_by_hand(hand: Hand) -> Iterator[None]:
    """A cell called six times."""
    cell, batches = nn.GRUCell(hand.dim, hand.dim).to(hand.device), loader(hand)
    optimizer = torch.optim.SGD(cell.parameters(), lr=0.01)
    while True:
        x, _ = hand.fetch(batches)
        state = torch.zeros_like(x)
        hand.begin()
        for _ in range(6):
            state = cell(x, state)
        update(hand, optimizer, state.pow(2).mean())
        yield


def parts_of_a_batch(hand: Hand) -> Iterator[None]:
    """Four calls on parts, one backward."""
    model, batches = hand.model(), loader(hand)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    while True:
        x, _ = hand.fetch(batches)
        hand.begin()
        parts = [model(part).pow(2).mean() for part in x.chunk(4)]
        update(hand, optimizer, torch.stack(parts).mean())
        yield


def micro_batches(hand: Hand) -> Iterator[None]:
    """Two backward passes, the second batch fetched inside the step."""
    model, batches = hand.model(), loader(hand)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    while True:
        x, y = hand.fetch(batches)
        hand.begin()
        functional.mse_loss(model(x), y).backward()
        x, y = hand.fetch(batches)
        functional.mse_loss(model(x), y).backward()
        optimizer.step()
        hand.end()
        optimizer.zero_grad()
        yield


def loss_with_parameters(hand: Hand) -> Iterator[None]:
    """A centre loss."""
    model, centres, batches = hand.model(), Centres(hand.dim).to(hand.device), loader(hand)
    optimizer = torch.optim.SGD([*model.parameters(), *centres.parameters()], lr=0.01)
    while True:
        x, _ = hand.fetch(batches)
        hand.begin()
        update(hand, optimizer, centres(model(x)))
        yield


def called_functionally(hand: Hand) -> Iterator[None]:
    """torch.func.functional_call."""
    model, batches = hand.model(), loader(hand)
    parameters = dict(model.named_parameters())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    while True:
        x, y = hand.fetch(batches)
        hand.begin()
        update(hand, optimizer, functional.mse_loss(functional_call(model, parameters, (x,)), y))
        yield


def gradients_by_func(hand: Hand) -> Iterator[None]:
    """torch.func.grad_and_value, gradients given to the optimizer by hand."""
    model, batches = hand.model(), loader(hand)
    parameters = dict(model.named_parameters())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def loss_of(values: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        loss: torch.Tensor = functional.mse_loss(functional_call(model, values, (x,)), y)
        return loss

    while True:
        x, y = hand.fetch(batches)
        values = {name: one.detach() for name, one in parameters.items()}
        hand.begin()
        gradients, _ = grad_and_value(loss_of)(values, x, y)
        for name, gradient in gradients.items():
            parameters[name].grad = gradient
        optimizer.step()
        hand.end()
        yield


def plain_tensors(hand: Hand) -> Iterator[None]:
    """No module at all."""
    weights = [(torch.randn(hand.dim, hand.dim, device=hand.device) / hand.dim).requires_grad_() for _ in range(4)]
    optimizer, batches = torch.optim.SGD(weights, lr=0.01), loader(hand)
    while True:
        x, y = hand.fetch(batches)
        hand.begin()
        for weight in weights:
            x = functional.linear(x, weight).relu()
        update(hand, optimizer, functional.mse_loss(x, y))
        yield


def compiled_model(hand: Hand) -> Iterator[None]:
    """torch.compile around the model."""
    yield from _train(hand, _batches(hand), torch.compile(hand.model(), backend="aot_eager"))


def scripted_model(hand: Hand) -> Iterator[None]:
    """torch.jit.script."""
    yield from _train(hand, _batches(hand), torch.jit.script(hand.model()))


def traced_model(hand: Hand) -> Iterator[None]:
    """torch.jit.trace, which calls the model before the loop."""
    yield from _train(hand, _batches(hand), torch.jit.trace(hand.model(), hand.batch()[:1]))


def _batches(hand: Hand) -> Iterator[Any]:
    batches = loader(hand)
    while True:
        yield hand.fetch(batches)


def compiled_step(hand: Hand) -> Iterator[None]:
    """torch.compile around forward, backward and optimizer."""
    model, batches = hand.model(), loader(hand)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def step(x: torch.Tensor, y: torch.Tensor) -> None:
        functional.mse_loss(model(x), y).backward()
        optimizer.step()

    compiled = torch.compile(step, backend="eager")
    while True:
        x, y = hand.fetch(batches)
        optimizer.zero_grad()
        hand.begin()
        compiled(x, y)
        hand.end()
        yield


def steps_in_backward(hand: Hand) -> Iterator[None]:
    """One optimizer per parameter, in a hook of its gradient."""
    model, batches = hand.model(), loader(hand)
    optimizers = {one: torch.optim.SGD([one], lr=0.01) for one in model.parameters()}

    def apply(parameter: torch.Tensor) -> None:
        optimizers[parameter].step()
        optimizers[parameter].zero_grad()

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(apply)
    while True:
        x, y = hand.fetch(batches)
        hand.begin()
        functional.mse_loss(model(x), y).backward()
        hand.end()
        yield


def closures(hand: Hand) -> Iterator[None]:
    """LBFGS."""
    model, batches = hand.model(depth=1), loader(hand)
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=3, history_size=2)
    while True:
        x, y = hand.fetch(batches)

        def closure(x: torch.Tensor = x, y: torch.Tensor = y) -> torch.Tensor:
            optimizer.zero_grad()
            loss: torch.Tensor = functional.mse_loss(model(x), y)
            loss.backward()
            return loss

        hand.begin()
        optimizer.step(closure)
        hand.end()
        yield


def sharpness_aware(hand: Hand) -> Iterator[None]:
    """Two passes on one batch."""
    model, batches = hand.model(), loader(hand)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    while True:
        x, y = hand.fetch(batches)
        hand.begin()
        functional.mse_loss(model(x), y).backward()
        with torch.no_grad():
            for one in model.parameters():
                one.add_(one.grad, alpha=0.01)
        optimizer.zero_grad()
        functional.mse_loss(model(x), y).backward()
        optimizer.step()
        hand.end()
        optimizer.zero_grad()
        yield


def attacked_input(hand: Hand) -> Iterator[None]:
    """The gradient of the input first, by autograd.grad."""
    model, batches = hand.model(), loader(hand)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    while True:
        x, y = hand.fetch(batches)
        x.requires_grad_()
        hand.begin()
        (slope,) = torch.autograd.grad(functional.mse_loss(model(x), y), [x])
        update(hand, optimizer, functional.mse_loss(model((x + 0.01 * slope.sign()).detach()), y))
        yield


# Each loop with the samples that an iteration trains on, or None where nothing in the loop tells.
SHAPES: dict[Callable[[Hand], Iterator[None]], int | None] = {
    plain: BATCH,
    transforms_in_dataset: BATCH,
    module_in_collate: BATCH,
    generator_of_batches: BATCH,
    augmentation_in_loop: BATCH,
    frozen_teacher: BATCH,
    teacher_left_trainable: BATCH,
    moving_average: BATCH,
    evaluation_without_gradients: BATCH,
    evaluation_with_gradients: BATCH,
    gan: BATCH,
    gan_with_penalty: 2 * BATCH,
    rollouts_without_gradients: BATCH,
    rollouts_with_gradients: BATCH,
    siamese: BATCH,
    unrolled_by_hand: BATCH,
    parts_of_a_batch: BATCH,
    micro_batches: 2 * BATCH,
    loss_with_parameters: BATCH,
    called_functionally: BATCH,
    gradients_by_func: BATCH,
    plain_tensors: None,
    compiled_model: BATCH,
    compiled_step: None,
    scripted_model: BATCH,
    traced_model: BATCH,
    steps_in_backward: BATCH,
    closures: BATCH,
    sharpness_aware: BATCH,
    attacked_input: BATCH,
}
