"""Each part of the network against the reference's activations."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.testing import assert_close
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from antiphon.inference_worker.engines.minicpmo.config import SliceConfig
from antiphon.inference_worker.engines.minicpmo.model import layer as decoder_layer
from antiphon.inference_worker.engines.minicpmo.model.attention import GROUPED_SDPA, causal_mask
from antiphon.inference_worker.engines.minicpmo.model.kv_cache import CacheWindow, SlottedCache
from antiphon.inference_worker.engines.minicpmo.model.network import MiniCPMO
from antiphon.inference_worker.engines.minicpmo.preprocess.images import choose_grid, slice_image
from antiphon.inference_worker.engines.minicpmo.preprocess.mel import (
    CLIP_SAMPLES,
    clip_mels,
    log_mel,
)
from antiphon.inference_worker.engines.minicpmo.preprocess.tokenizer import Tokenizer
from antiphon.inference_worker.engines.minicpmo.scheduling.model_runner import ModelRunner
from antiphon.inference_worker.engines.minicpmo.scheduling.steps import SpeechCondition
from support.minicpmo import golden_set
from support.minicpmo.golden_set import CLOSE, LOGITS
from support.minicpmo.network_parts import PARTS, Answer, largest_error, runner_of
from support.minicpmo.step_recorder import stream_embeds


def llm_cache(network: MiniCPMO, positions: int, slots: int = 1) -> Any:
    c = network.config
    return SlottedCache(
        layers=c.num_hidden_layers,
        slots=slots,
        positions=positions,
        heads=c.num_key_value_heads,
        head_dim=c.head_dim,
        device=network.device,
        dtype=network.dtype,
    )


def test_offline_audio(network: MiniCPMO) -> None:
    want, facts = golden_set.tensors("a_audio"), golden_set.facts("a_audio")
    waves = golden_set.waves()
    [mel] = clip_mels(waves["w31"])
    assert_close(mel, want["offline.mel"], atol=1e-4, rtol=0)
    padded = np.pad(waves["w31"], (0, CLIP_SAMPLES - len(waves["w31"])))
    fixed = log_mel(padded, dynamic=False)[:, : mel.shape[1]]
    assert_close(fixed, want["offline.mel_fixed_floor"], atol=1e-4, rtol=0)
    assert_close(network.encode_clips([mel])[0], want["offline.embeds_chunk1s"], **CLOSE)
    full = network.encode_clips([mel], full_attention=True)[0]
    assert_close(full, want["offline.embeds_full_attention"], **CLOSE)
    [short] = clip_mels(waves["w31"][: facts["offline.batch2.short_samples"]])
    assert_close(
        network.encode_clips([mel, short])[1], want["offline.batch2.short_embeds"], **CLOSE
    )
    assert_close(network.encode_clips([short])[0], want["offline.alone.short_embeds"], **CLOSE)


def test_a_clip_over_thirty_seconds_is_cut(network: MiniCPMO) -> None:
    pieces = clip_mels(golden_set.waves()["w34"][:504000])
    assert [piece.shape[1] for piece in pieces] == [3000, 150]
    embeds = network.encode_clips(pieces)
    assert [len(e) for e in embeds] == golden_set.facts("a_audio")["offline.long31_5s.n_embeds"]
    want = golden_set.tensors("a_audio")["offline.long31_5s.second_piece_embeds"]
    assert_close(embeds[1], want, **CLOSE)


def test_streaming_audio(network: MiniCPMO) -> None:
    want, rows = golden_set.tensors("a_audio"), golden_set.facts("a_audio")["stream6"]
    for n, (mel, steps, hidden, embeds, cache) in enumerate(
        stream_embeds(network, golden_set.waves()["w62"], rows)
    ):
        assert_close(mel, want[f"stream6.{n}.mel"], atol=1e-4, rtol=0)
        assert_close(embeds, want[f"stream6.{n}.embeds"], **CLOSE)
        if n < 2:
            assert_close(steps[0], want[f"stream6.{n}.after_cnn_trim"], **CLOSE)
            assert_close(hidden[0], want[f"stream6.{n}.encoder_last_hidden"], **CLOSE)
        if n == 5:
            keys = cache.keys[0][0, :300].transpose(0, 1)
            assert_close(keys, want["stream6.final.whisper_key_layer0"], **CLOSE)


def test_streaming_audio_past_the_end_of_the_position_table(network: MiniCPMO) -> None:
    want, rows = golden_set.tensors("a_audio"), golden_set.facts("a_audio")["stream34"]
    for n, (mel, _, _, embeds, _) in enumerate(
        stream_embeds(network, golden_set.waves()["w34"], rows)
    ):
        assert mel.shape[1] == rows[n]["mel_frames"]
        if f"stream34.{n}.mel" in want:
            assert_close(mel, want[f"stream34.{n}.mel"], atol=1e-4, rtol=0)
        assert_close(embeds, want[f"stream34.{n}.embeds"], **CLOSE)


def vision_cases() -> Any:
    facts = golden_set.facts("b_vision")
    return facts["cases"], facts["same_as"]


def test_slicing_and_pixels() -> None:
    cases, same_as = vision_cases()
    sparse = golden_set.pixels()
    for case in cases:
        name, most = case["image"], case["max_slice_nums"]
        image = golden_set.image(name)
        grid = choose_grid(image.size, most, 448)
        assert (list(grid) if grid else None) == case["grid_cols_rows"]
        picture = slice_image(image, SliceConfig(), most)
        assert [list(g) for g in picture.grids] == case["tgt_sizes_hw"]
        assert [list(p.shape) for p in picture.pixels] == case["pixel_shapes"]
        for n, part in enumerate(picture.pixels):
            key = f"{name}.max{most}.slice{n}.pixels_u8"
            key = same_as.get(key, key)
            ours = ((part * 0.5 + 0.5) * 255).round().to(torch.uint8)
            assert torch.equal(ours.flatten()[::97], sparse[f"{key}.every97th"])


def test_vision_embeddings(network: MiniCPMO) -> None:
    want = golden_set.tensors("b_vision")
    cases, same_as = vision_cases()
    for case in cases:
        picture = slice_image(
            golden_set.image(case["image"]), SliceConfig(), case["max_slice_nums"]
        )
        key = f"{case['image']}.max{case['max_slice_nums']}.embeds"
        seen = network.encode_images(picture.pixels, picture.grids)
        assert_close(seen, want[same_as.get(key, key)], **CLOSE)
    pair = [slice_image(golden_set.image(name), SliceConfig(), 1) for name in "ab"]
    seen = network.encode_images([p.pixels[0] for p in pair], [p.grids[0] for p in pair])
    assert_close(seen, want["ab.max1.embeds"], **CLOSE)


def test_vision_encoder_output(network: MiniCPMO) -> None:
    want = golden_set.tensors("b_vision")
    picture = slice_image(golden_set.image("b"), SliceConfig(), 4)
    slices = network.place_images(picture.pixels, picture.grids)
    hidden, real = network.vpm(slices), slices.places[3] > 0
    assert_close(hidden[:, :32], want["b.max4.vpm_last_hidden_first32"], **CLOSE)
    last = torch.stack([row[:n][-32:] for row, n in zip(hidden, real.sum(1), strict=True)])
    assert_close(last, want["b.max4.vpm_last_hidden_last32_valid"], **CLOSE)


def forward(network: MiniCPMO, cache: SlottedCache, embeds: Tensor, start: int) -> Any:
    positions = torch.arange(start, start + len(embeds))[None]
    length = start + len(embeds)
    window = CacheWindow(cache, 0, positions, length)
    return network.llm.model(embeds[None], positions, causal_mask(positions, length), window)[0]


def test_language_model_in_one_feed(network: MiniCPMO) -> None:
    want = golden_set.tensors("c_llm")
    cache = llm_cache(network, 64)
    embeds, count = network.llm.model.embed_tokens(want["input_ids"]), len(want["input_ids"])
    assert torch.equal(embeds, want["embeds"])
    hidden = forward(network, cache, embeds, 0)
    assert_close(hidden, want["full.hidden_final_norm"], **CLOSE)
    assert_close(network.llm.lm_head(hidden), want["full.logits"], **LOGITS)
    for layer in range(network.config.num_hidden_layers):
        keys = cache.keys[layer][0, :count].transpose(0, 1)
        values = cache.values[layer][0, :count].transpose(0, 1)
        assert_close(keys, want[f"full.key{layer}"], **CLOSE)
        assert_close(values, want[f"full.value{layer}"], **CLOSE)


def test_language_model_in_pieces_at_distant_positions(network: MiniCPMO) -> None:
    want = golden_set.tensors("c_llm")
    cache, done, rows = llm_cache(network, 64), 0, []
    for count in golden_set.facts("c_llm")["incremental.cuts"]:
        rows.append(forward(network, cache, want["embeds"][done : done + count], done))
        done += count
    logits = network.llm.lm_head(torch.cat(rows))
    assert_close(logits, want["incremental.logits"], **LOGITS)
    cache = llm_cache(network, 64)
    positions = torch.arange(5000, 5006)[None]
    mask = torch.ones(6, 6).tril().bool()[None, None]
    window = CacheWindow(cache, 0, positions - 5000, 6)
    hidden = network.llm.model(want["embeds"][None, :6], positions, mask, window)[0]
    assert_close(network.llm.lm_head(hidden), want["offset5000.logits"], **LOGITS)
    assert_close(cache.keys[0][0, :6].transpose(0, 1), want["offset5000.key0"], **CLOSE)


def test_speech_head_is_weight_normalised(network: MiniCPMO) -> None:
    want = golden_set.tensors("f_tts")["head_code_effective_weight"]
    assert_close(network.tts.head_code[0].weight, want, **CLOSE)


def test_speech_conditions_of_several_sessions(network: MiniCPMO, tokenizer: Tokenizer) -> None:
    want, none = golden_set.tensors("f_tts"), torch.zeros(0, network.config.hidden_size)
    steps = [
        SpeechCondition(
            want[f"chunk{chunk}.llm_token_ids"].tolist(),
            list(want.get(f"chunk{chunk}.llm_hidden", none)),
        )
        for chunk in range(5)
    ]
    conditions = runner_of(network, tokenizer).run(steps)
    for chunk, condition in enumerate(conditions):
        assert_close(condition, want[f"chunk{chunk}.condition"], **CLOSE)


@pytest.mark.parametrize("does", PARTS)
def test_the_attention_of_the_library_agrees(
    network: MiniCPMO,
    tokenizer: Tokenizer,
    does: Callable[[ModelRunner], Answer],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def of_the_library(module: Any, query: Tensor, *rest: Any, **named: Any) -> Any:
        module.num_key_value_groups = query.shape[1] // rest[0].shape[1]
        return sdpa_attention_forward(module, query, *rest, **named)

    ours = does(runner_of(network, tokenizer))
    monkeypatch.setattr(decoder_layer, "grouped_sdpa", of_the_library)
    monkeypatch.setitem(ALL_ATTENTION_FUNCTIONS, GROUPED_SDPA, of_the_library)
    assert largest_error(ours, does(runner_of(network, tokenizer))) < 1e-5
