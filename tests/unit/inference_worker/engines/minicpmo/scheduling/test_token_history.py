"""The mask of said tokens on the device, kept up to date by small changes."""

import random

import torch

from antiphon.inference_worker.engines.minicpmo.scheduling.sampler import TokenHistory
from antiphon.inference_worker.engines.minicpmo.scheduling.steps import SamplingSettings, TokenRow

WORDS, WINDOW = 30, 5


def row(slot: int, said: list[int]) -> TokenRow:
    return TokenRow(SamplingSettings(), tuple(said[-WINDOW:]), slot=slot)


def test_the_mask_follows_the_window_of_each_slot() -> None:
    """Also after a slot was taken over, a history was replaced, and with repeated tokens."""
    history, rng = TokenHistory(WORDS, torch.device("cpu")), random.Random(3)
    said = {slot: list[int]() for slot in range(4)}
    for _ in range(200):
        slots = rng.sample(range(4), rng.randint(1, 4))
        mask = history.said([row(slot, said[slot]) for slot in slots])
        for slot, seen in zip(slots, mask, strict=True):
            assert seen.nonzero()[:, 0].tolist() == sorted(set(said[slot][-WINDOW:]))
            if rng.random() < 0.1:
                said[slot] = rng.choices(range(WORDS), k=rng.choice([0, 2, 9]))
            elif rng.random() < 0.9:
                said[slot].append(rng.randrange(6))


def test_a_draw_sends_one_token() -> None:
    history, sent = TokenHistory(WORDS, torch.device("cpu")), list[int]()
    change = history._change

    def counted(added: list[int], dropped: list[int], renewed: list[int]) -> None:
        sent.append(len(added) + len(dropped) + len(renewed))
        change(added, dropped, renewed)

    history._change = counted  # type: ignore[method-assign]
    said = [1, 2, 3]
    for token in range(4, 10):
        history.said([row(0, said)])
        said = [*said, token]
    assert sent == [4, 1, 1, 2, 2, 2]
