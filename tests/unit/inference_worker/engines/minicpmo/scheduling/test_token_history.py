"""The counts of said tokens on the device, kept up to date by small changes."""

import random

import torch

from antiphon.inference_worker.engines.minicpmo.scheduling.token_choice import (
    RecentTokens,
    TokenHistory,
)

WORDS, WINDOW = 30, 5
CPU = torch.device("cpu")


def test_the_mask_follows_the_window_of_each_slot() -> None:
    """Also after a slot was taken over, after many changes, and with repeated tokens."""
    history, rng = TokenHistory(4, WORDS, CPU), random.Random(3)
    said = [RecentTokens(limit=WINDOW) for _ in range(4)]
    for _ in range(200):
        slots = rng.sample(range(4), rng.randint(1, 4))
        changes = history.changes([(slot, said[slot]) for slot in slots], rng.choice([4, 8]))
        for slot, seen in zip(slots, history.said(changes), strict=False):
            assert seen.nonzero()[:, 0].tolist() == sorted(set(said[slot]))
            if rng.random() < 0.1:
                said[slot] = RecentTokens(rng.choices(range(WORDS), k=rng.choice([0, 2, 9])), 9)
            elif rng.random() < 0.2:
                said[slot].extend(rng.choices(range(WORDS), k=20))
            elif rng.random() < 0.2:
                said[slot].shorten(2)
            elif rng.random() < 0.9:
                said[slot].append(rng.randrange(6))


def test_a_draw_sends_one_token_and_the_one_that_leaves() -> None:
    history, sent = TokenHistory(1, WORDS, CPU), list[int]()
    said = RecentTokens([1, 2, 3], limit=WINDOW)
    for token in range(4, 10):
        changes = history.changes([(0, said)], 2)
        sent.append(int(changes[3:].abs().sum()))
        history.said(changes)
        said.append(token)
    assert sent == [3, 1, 1, 2, 2, 2]


def test_what_a_failed_draw_may_have_counted_is_sent_again() -> None:
    history, said = TokenHistory(2, WORDS, CPU), RecentTokens([1, 2], limit=WINDOW)
    history.said(history.changes([(1, said)], 1))
    said.append(3)
    history.changes([(1, said)], 1)  # and the draw fails
    history.forget([0, 1])
    said.append(4)
    [seen] = history.said(history.changes([(1, said)], 2))[:1]
    assert seen.nonzero()[:, 0].tolist() == [1, 2, 3, 4]


def test_padding_changes_nothing() -> None:
    history = TokenHistory(3, WORDS, CPU)
    said = RecentTokens([7, 7])
    history.said(history.changes([(0, said), (2, RecentTokens([1]))], 2))
    history.said(history.changes([], 4))
    mask = history.said(history.changes([(0, said)], 1))
    assert mask.nonzero().tolist() == [[0, 7]]
