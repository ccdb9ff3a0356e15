"""Runs a batch of equal steps on the network and its caches; knows tensors, not conversations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from antiphon.inference_worker.engines.minicpmo.bodies import bodies_of
from antiphon.inference_worker.engines.minicpmo.forward import Placed
from antiphon.inference_worker.engines.minicpmo.gpu_process import device_lost, settle_process
from antiphon.inference_worker.engines.minicpmo.graphs import GraphPool
from antiphon.inference_worker.engines.minicpmo.listener import Listener
from antiphon.inference_worker.engines.minicpmo.model.network import MiniCPMO
from antiphon.inference_worker.engines.minicpmo.placing import placed as on_device
from antiphon.inference_worker.engines.minicpmo.sampler import PlainSampler, Sampler
from antiphon.inference_worker.engines.minicpmo.speech_sampler import choose_codes
from antiphon.inference_worker.engines.minicpmo.steps import (
    Choose,
    ChooseWord,
    Clear,
    Condition,
    Fed,
    Feed,
    Hear,
    HearClips,
    Reread,
    See,
    Shift,
    Step,
    Utter,
)


class Runner:
    """The network with the caches of `slots` sessions.

    With `invariant`, every shared batch has the same shape whoever is in it, so a session's numbers
    are the same bit for bit alone or in company; without, shapes follow the sessions in use.
    """

    def __init__(
        self,
        network: MiniCPMO,
        sampler: Sampler,
        *,
        slots: int,
        context: int,
        speech_context: int,
        invariant: bool,
        cuda_graphs: bool = False,
    ) -> None:
        self.network = network
        self.slots = slots
        self._device = network.device
        self._sampler = sampler
        self._plain_sampler = PlainSampler(sampler.ids)
        self._invariant = invariant
        if self._device.type == "cuda":
            settle_process()
        self.graphs = GraphPool(network.device, enabled=cuda_graphs)
        self._text, self._speech, self._audio = bodies_of(
            network,
            self.graphs,
            slots=slots,
            context=context,
            speech_context=speech_context,
            invariant=invariant,
        )
        self.text_cache = self._text.cache
        self.speech_cache = self._speech.cache
        self.audio_cache = self._audio.cache
        self._listener = Listener(network, self._audio)
        self._run_by_type: dict[type[Step], Callable[[Sequence[Any]], Sequence[Any]]] = {
            Feed: self._feed,
            Reread: self._each(self._reread),
            Choose: self._choose,
            ChooseWord: self._choose,
            Hear: self._listener.hear,
            HearClips: self._each(self._hear_clips),
            See: self._each(self._see),
            Condition: self._each(self._condition),
            Utter: self._utter,
            Shift: self._each(self._shift),
            Clear: self._each(self._clear),
        }

    def enter_thread(self) -> None:
        """Called once by the thread that will run steps."""
        if self._device.type == "cuda":
            torch.cuda.set_device(self._device)

    def device_lost(self) -> bool:
        """Whether the device answers no more."""
        return device_lost(self._device)

    @torch.inference_mode()
    def run(self, steps: Sequence[Step]) -> Sequence[Any]:
        """Answers to steps of one group, in order; a row that went wrong is answered by its error."""
        return self._run_by_type[type(steps[0])](steps)

    @torch.inference_mode()
    def capture_graphs(self) -> int:
        """Record the steps of every unit as CUDA graphs, where enabled; how many there are."""
        bodies = (self._text, self._speech, self._audio) if self.graphs.enabled else ()
        return sum(body.capture() for body in bodies)

    @torch.inference_mode()
    def warm_up(self) -> int:
        """Run the steps of a few tokens once at each of their shapes; how many there are."""
        return self._text.warm_up() + self._speech.warm_up()

    @torch.inference_mode()
    def speech_logits(self, utterings: Sequence[Utter]) -> Tensor:
        """Raw scores over the next code, (utterings, codes)."""
        tts = self.network.tts
        embeds = self._embed_spoken(utterings)
        placed = [Placed(u.slot, u.start, e) for u, e in zip(utterings, embeds, strict=True)]
        return self._project(tts.logits, self._speech.forward(placed), placed)

    def _feed(self, feeds: Sequence[Feed]) -> list[Fed]:
        llm = self.network.llm
        embeds = self.embed(feeds)
        placed = [Placed(f.slot, f.start, e) for f, e in zip(feeds, embeds, strict=True)]
        hidden = self._text.forward(placed)
        if not any(feed.want_logits for feed in feeds):
            return [Fed(row, None) for row in hidden]
        logits = self._project(llm.lm_head, hidden, placed)
        return [Fed(*rows) for rows in zip(hidden, logits, strict=True)]

    def _reread(self, step: Reread) -> Tensor:
        [embeds] = self.embed([step])
        return self._text.states(Placed(step.slot, step.start, embeds))

    def _choose(self, choices: Sequence[Choose | ChooseWord]) -> Sequence[Any]:
        sampler = self._sampler if isinstance(choices[0], Choose) else self._plain_sampler
        logits = torch.stack([choice.logits for choice in choices])
        return sampler.choose(logits, [choice.row for choice in choices])

    def _utter(self, utterings: Sequence[Utter]) -> Sequence[Any]:
        return choose_codes(self.speech_logits(utterings), [u.row for u in utterings])

    def _project(
        self, head: Callable[[Tensor], Tensor], hidden: Tensor, placed: Sequence[Placed]
    ) -> Tensor:
        """Scores of `hidden` rows; with fixed shapes through a table of all slots."""
        if not self._invariant:
            return head(hidden).float()
        slots = on_device([p.slot for p in placed], hidden.device)
        table = hidden.new_zeros(self.slots, hidden.shape[1])
        table[slots] = hidden
        return head(table)[slots].float()

    def embed(self, feeds: Sequence[Feed]) -> list[Tensor]:
        """Each feed's embeddings (n, width); all ids are looked up at once."""
        pieces = [piece for feed in feeds for piece in feed.pieces]
        ids = [token for piece in pieces if isinstance(piece, tuple) for token in piece]
        looked_up = self.network.llm.model.embed_tokens(on_device(ids, self._device))
        rows, found = 0, []
        for piece in pieces:
            if isinstance(piece, tuple):
                found.append(looked_up[rows : rows + len(piece)])
                rows += len(piece)
            else:
                found.append(piece)
        parts = iter(found)
        return [_joined([next(parts) for _ in feed.pieces]) for feed in feeds]

    def _embed_spoken(self, utterings: Sequence[Utter]) -> list[Tensor]:
        """Conditions as they are, codes looked up at once, each (n, width)."""
        codes = [u.what for u in utterings if isinstance(u.what, int)]
        table = on_device(codes, self._device)
        looked_up = iter(self.network.tts.embed_codes(table).unsqueeze(1))
        return [next(looked_up) if isinstance(u.what, int) else u.what for u in utterings]

    def _hear_clips(self, step: HearClips) -> list[Tensor]:
        return self.network.hear_clips(step.mels, full_attention=step.full_attention)

    def _see(self, step: See) -> Tensor:
        return self.network.see(step.pixels, step.grids)

    def _condition(self, step: Condition) -> Tensor:
        device = self._device
        states = torch.stack(step.states) if step.states else torch.zeros(0, device=device)
        condition = self.network.tts.condition(on_device(step.tokens, device), states)
        if not step.codes:
            return condition
        codes = self.network.tts.embed_codes(on_device(step.codes, device))
        return torch.cat([condition, codes])

    def _shift(self, step: Shift) -> None:
        inv_freq = self.network.llm.model.inv_freq
        self.text_cache.shift(step.slot, step.source, step.target, step.count, inv_freq)

    def _clear(self, step: Clear) -> None:
        for cache in (self.text_cache, self.audio_cache, self.speech_cache):
            cache.clear(step.slot)

    @staticmethod
    def _each(run_one: Callable[[Any], Any]) -> Callable[[Sequence[Any]], list[Any]]:
        return lambda steps: [run_one(step) for step in steps]


def _joined(parts: list[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts)
