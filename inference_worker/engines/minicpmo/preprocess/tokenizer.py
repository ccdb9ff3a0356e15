"""Text to ids and back, special tokens by name, and the chat template. Runs no remote code."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Annotated, Any, get_type_hints

from transformers import PreTrainedTokenizerFast

from antiphon.inference_worker.engines.minicpmo.checkpoint_files import TOKENIZER, read_json
from antiphon.inference_worker.engines.types import EngineLoadError

TemplateMessage = dict[str, Any]
"""One chat message: "role" and "content", and "tool_calls" in the form of OpenAI's API."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecialIds:
    """Ids of the tokens that control a conversation, annotated with the text of the token."""

    unit: Annotated[int, "<unit>"]
    unit_end: Annotated[int, "</unit>"]
    image: Annotated[int, "<image>"]
    image_end: Annotated[int, "</image>"]
    slice: Annotated[int, "<slice>"]
    slice_end: Annotated[int, "</slice>"]
    listen: Annotated[int, "<|listen|>"]
    speak: Annotated[int, "<|speak|>"]
    tts_bos: Annotated[int, "<|tts_bos|>"]
    tts_eos: Annotated[int, "<|tts_eos|>"]
    tts_pad: Annotated[int, "<|tts_pad|>"]
    audio: Annotated[int, "<|audio_start|>"]
    audio_end: Annotated[int, "<|audio_end|>"]
    chunk_eos: Annotated[int, "<|chunk_eos|>"]
    chunk_tts_eos: Annotated[int, "<|chunk_tts_eos|>"]
    turn_eos: Annotated[int, "<|turn_eos|>"]
    eos: Annotated[int, "<|im_end|>"]
    unknown: Annotated[int, "<unk>"]

    answer_ends: tuple[int, ...] = ()
    """Tokens that end a written answer; they are not fed."""

    chat_ends: tuple[int, ...] = ()
    """Tokens that end the answer of a chat that is not streamed."""

    unspeakable: tuple[int, ...] = ()
    """Tokens that a spoken answer must not contain."""

    @property
    def chunk_ends(self) -> frozenset[int]:
        """Tokens that end the generation of a unit and are not fed at once."""
        return frozenset({self.listen, self.chunk_eos, self.chunk_tts_eos})


NO_TOKEN = -1

UNSPEAKABLE = ":：；#“”‘’@*【】「」()（）[]&/$"
"""Characters that a spoken answer must not contain. The reference looks each one up as a token: those
beyond ASCII are none, so that `<unk>` is forbidden instead of them.
"""


class Tokenizer:
    """The checkpoint's tokenizer, read from tokenizer.json and tokenizer_config.json."""

    def __init__(self, folder: Path) -> None:
        settings = read_json(folder / "tokenizer_config.json")
        self._inner = _load_fast(folder, settings)
        hints = get_type_hints(SpecialIds, include_extras=True)
        marks = {name: hint for name, hint in hints.items() if hasattr(hint, "__metadata__")}
        ids = {name: self._id_of(hint.__metadata__[0]) for name, hint in marks.items()}
        bad: list[int] = settings.get("bad_token_ids", [])
        unknown = ids["unknown"]
        ends = (ids["tts_eos"], ids["eos"], self._find("</s>", unknown))
        chat_ends = (ids["eos"], self._find("<|endoftext|>", ids["eos"]))
        unspeakable = [self._find(mark, unknown) for mark in UNSPEAKABLE]
        self.ids = SpecialIds(
            **ids,
            answer_ends=ends,
            chat_ends=chat_ends,
            unspeakable=tuple(sorted({*unspeakable, *bad})),
        )
        self.forbidden: tuple[int, ...] = (self.ids.tts_pad, *bad)
        """Ids that the duplex decoder must not produce."""
        self._characters = cache(lambda token: len(self.decode([token])))
        self._special = frozenset(self._inner.all_special_ids) | self._added_special()

    def encode(self, text: str) -> list[int]:
        """Ids of `text`. Special tokens written in it are parsed as such."""
        ids: list[int] = self._inner.encode(text, add_special_tokens=False)
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        """Text of `ids` without special tokens."""
        text = self._inner.decode(
            self.plain(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        return str(text)

    def has_characters(self, ids: Sequence[int], count: int) -> bool:
        """Whether the text of `ids` has `count` characters or more."""
        # A character that is divided among tokens counts in each, so the text has at most so many.
        most = sum(map(self._characters, ids))
        return most >= count and len(self.decode(ids)) >= count

    def encoded_length(self, ids: Sequence[int]) -> int:
        """How many ids the text of `ids` has, with special tokens. Other ids may write the same text."""
        return len(self.encode(self._inner.decode(ids, clean_up_tokenization_spaces=False)))

    def plain(self, ids: Sequence[int]) -> list[int]:
        """`ids` without special tokens."""
        return [token for token in ids if token not in self._special]

    def chat(
        self,
        messages: Sequence[TemplateMessage],
        *,
        add_generation_prompt: bool = False,
        thinking: bool = False,
        speak: bool = True,
        tools: Sequence[dict[str, Any]] = (),
    ) -> str:
        text = self._inner.apply_chat_template(
            list(messages),
            tools=list(tools) or None,
            tokenize=False,
            add_generation_prompt=add_generation_prompt,
            enable_thinking=thinking,
            use_tts_template=speak,
        )
        return str(text)

    @cached_property
    def knows_tools(self) -> bool:
        function = {"name": "probe", "description": "A probe.", "parameters": {}}
        messages = [{"role": "user", "content": "Hello."}]
        return "probe" in self.chat(messages, tools=[{"type": "function", "function": function}])

    def __len__(self) -> int:
        return len(self._inner)

    def _id_of(self, name: str) -> int:
        token = self._find(name, NO_TOKEN)
        if token == NO_TOKEN:
            raise EngineLoadError(
                f"the tokenizer has no token {name!r}: not a MiniCPM-o 4.5 folder"
            )
        return token

    def _find(self, name: str, otherwise: int) -> int:
        token = self._inner.convert_tokens_to_ids(name)
        if isinstance(token, int) and self._inner.convert_ids_to_tokens(token) == name:
            return token
        return otherwise

    def _added_special(self) -> frozenset[int]:
        added = self._inner.added_tokens_decoder
        return frozenset(token for token, entry in added.items() if entry.special)


def _load_fast(folder: Path, settings: dict[str, Any]) -> PreTrainedTokenizerFast:
    path = folder / TOKENIZER
    if not path.is_file():
        raise EngineLoadError(f"{folder} has no {TOKENIZER}")
    template = folder / "chat_template.jinja"
    try:
        return PreTrainedTokenizerFast(
            tokenizer_file=str(path),
            chat_template=(
                template.read_text(encoding="utf-8")
                if template.is_file()
                else settings.get("chat_template")
            ),
        )
    except Exception as error:  # tokenizers raises no other
        raise EngineLoadError(f"{path} is no tokenizer: {error}; download it again") from error
