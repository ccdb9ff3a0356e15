"""An answer whose first words are spoken before the model writes on.

A model that writes on takes the cores from the voice, and the user waits longer for the first words.
"""

from collections.abc import Callable, Generator, Iterator
from contextlib import closing

from antiphon.inference_worker.engines.local.language_model import Generation

FIRST_TOKENS = 12
"""Most first clauses are shorter."""


class HeadStartGeneration(Generation):
    """Writes FIRST_TOKENS, and the rest when its reader wants more.

    The first part may end within a word, which a model continues badly. So that word is written again.
    """

    def __init__(self, begin: Callable[[str, int], Generation], limit: int) -> None:
        """`begin` continues a text by at most so many tokens; `limit` is that of the answer."""
        super().__init__()
        self._begin = begin
        self._limit = limit
        self._part = begin("", min(FIRST_TOKENS, limit))

    def cancel(self) -> None:
        self._stop.set()
        self._part.cancel()

    def __iter__(self) -> Generator[str, None, None]:  # its reader closes it
        said, last_word = "", list[str]()
        for text in self._texts():
            word = text.lstrip()
            if last_word and word != text:  # a space ends the last word
                last_word[-1] += text[: len(text) - len(word)]
                said += "".join(last_word)
                yield from last_word
                last_word = []
                text = word
            last_word += [text] if text else []
        first = self._part
        again = len(last_word) if said else 0
        left = self._limit - first.written_tokens + again
        is_cut = first.written_tokens >= FIRST_TOKENS and not first.complete
        goes_on = is_cut and left > again and not self._stop.is_set()
        if not goes_on or not said:
            said += "".join(last_word)
            yield from last_word
        if goes_on:
            yield from self._rest(said, left)

    def _rest(self, said: str, tokens: int) -> Iterator[str]:
        self._part = self._begin(said.rstrip(), tokens)
        if self._stop.is_set():  # `cancel` has seen the first part only
            self._part.cancel()
        is_spaced = said[-1:].isspace()
        for text in self._texts():
            rest = text.lstrip() if is_spaced else text
            is_spaced = is_spaced and not rest
            if rest:
                yield rest

    def _texts(self) -> Iterator[str]:
        part, before = self._part, self.written_tokens
        try:
            with closing(iter(part)) as texts:
                yield from texts
        finally:
            self.complete = part.complete
            self.thought = self.thought or part.thought
            self.context_tokens = part.context_tokens
            self.written_tokens = before + part.written_tokens
