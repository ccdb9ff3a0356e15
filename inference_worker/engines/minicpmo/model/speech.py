"""`tts.*`: text states become a condition, the condition becomes audio codes."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, normalize
from torch.nn.utils.parametrizations import weight_norm

from antiphon.inference_worker.engines.minicpmo.config import SpeechConfig
from antiphon.inference_worker.engines.minicpmo.model.decoder import speech_llama
from antiphon.inference_worker.engines.minicpmo.model.layer import Kernels


class _Projector(nn.Module):
    def __init__(self, config: SpeechConfig) -> None:
        super().__init__()
        self.linear1 = nn.Linear(config.llm_dim, config.hidden_size)
        self.linear2 = nn.Linear(config.hidden_size, config.hidden_size)

    def forward(self, states: Tensor) -> Tensor:
        projected: Tensor = self.linear2(torch.relu(self.linear1(states)))
        return projected


class SpeechModel(nn.Module):
    """A Llama over text conditions and audio codes with a weight-normalised head."""

    head_weight: Tensor

    def __init__(self, config: SpeechConfig, kernels: Kernels) -> None:
        super().__init__()
        self.audio_bos = config.audio_bos_token_id
        # Unused, but part of the checkpoint.
        self.projector_spk = _Projector(config)
        self.projector_semantic = _Projector(config)
        self.emb_text = nn.Embedding(config.num_text_tokens, config.hidden_size)
        self.emb_code = nn.ModuleList([nn.Embedding(config.num_audio_tokens, config.hidden_size)])
        self.model = speech_llama(config, kernels)
        self.head_code = nn.ModuleList(
            [weight_norm(nn.Linear(config.hidden_size, config.num_audio_tokens, bias=False))]
        )

    def condition(self, tokens: Tensor, states: Tensor) -> Tensor:
        """(n,) text ids and their (n, llm width) states to (n + 1, width): audio-begin at the end."""
        begin = self.emb_text.weight[self.audio_bos : self.audio_bos + 1]
        if not len(tokens):
            return begin
        meaning = normalize(self.projector_semantic(states), dim=-1)
        return torch.cat([self.emb_text(tokens) + meaning, begin])

    def embed_codes(self, codes: Tensor) -> Tensor:
        """Embeddings of audio codes."""
        embedded: Tensor = self.emb_code[0](codes)
        return embedded

    def logits(self, hidden: Tensor) -> Tensor:
        """Scores over audio codes for final hidden states."""
        return linear(hidden, self.head_weight)

    def fuse_head(self) -> None:
        """Compute the head's effective weight once; call when the weights are in place."""
        head = self.head_code[0]
        assert isinstance(head, nn.Linear)
        self.register_buffer("head_weight", head.weight.detach(), persistent=False)
