"""Counts the tokens of what a client sent, while they are fed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from antiphon.inference_worker.engines.common.token_counter import TokenCounter
from antiphon.inference_worker.engines.minicpmo.preprocess.images import SlicedImage
from antiphon.inference_worker.engines.minicpmo.sessions.context import TextContext


@contextmanager
def counting_input(
    counter: TokenCounter, session: TextContext, images: Sequence[object], tokens_per_slice: int
) -> Iterator[None]:
    """Count what the block feeds to `session`; `images` may have other parts, which are ignored.

    Nothing is counted if the block raises.
    """
    length, embeddings = session.length, session.embeddings_fed
    yield
    slices = sum(len(part.pixels) for part in images if isinstance(part, SlicedImage))
    media, vision = session.embeddings_fed - embeddings, slices * tokens_per_slice
    counter.add(
        input_text=session.length - length - media,
        input_audio=media - vision,
        input_vision=vision,
    )
