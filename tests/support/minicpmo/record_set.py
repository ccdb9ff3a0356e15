"""Makes another set of recordings: a checkpoint of another seed, other sizes and another vocabulary.

    PYTHONPATH=tests .venv/bin/python -m support.minicpmo.record_set FOLDER --seed 1
    MINICPMO_GOLDEN_SET=FOLDER .venv/bin/pytest tests/unit/inference_worker/engines/minicpmo

The classes of `transformers` record the language model (c). The engine records the rest with the shapes of a
CPU and without CUDA graphs. So the set shows that no test depends on the numbers of one checkpoint. It does
not show that the engine computes what the reference computes: only the reference can record that. It has no
streamed and unstreamed answers, media, settings of clients and windows of half duplex (i to m).
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from PIL import ImageOps
from safetensors.torch import save_file
from torch import Tensor
from transformers import Qwen3Config, Qwen3ForCausalLM

from antiphon.inference_worker.engines.minicpmo.config import EngineOptions, SliceConfig
from antiphon.inference_worker.engines.minicpmo.conversations.prompts import (
    ANSWER_OPENING,
    USER_CLOSING,
    AudioClip,
)
from antiphon.inference_worker.engines.minicpmo.model.load import load_network
from antiphon.inference_worker.engines.minicpmo.model.network import MiniCPMO
from antiphon.inference_worker.engines.minicpmo.preprocess.images import slice_image
from antiphon.inference_worker.engines.minicpmo.preprocess.mel import clip_mels
from antiphon.inference_worker.engines.minicpmo.preprocess.tokenizer import Tokenizer
from antiphon.inference_worker.engines.minicpmo.scheduling.model_runner import ModelRunner
from antiphon.inference_worker.engines.minicpmo.scheduling.sampler import (
    CodeRow,
    RowSettings,
    SampledToken,
    Sampler,
    SpeechSettings,
    candidate_count,
)
from antiphon.inference_worker.engines.minicpmo.scheduling.steps import (
    EncodeAudio,
    EncodeImages,
    Feed,
    SpeechCondition,
)
from antiphon.inference_worker.engines.minicpmo.scheduling.token_choice import settings_table
from support.minicpmo import golden_set
from support.minicpmo.other_checkpoint import (
    HEAD,
    Ids,
    fitted_head,
    plot_of,
    random_weights,
    write_config,
    write_tokenizer,
)
from support.minicpmo.step_recorder import (
    Recorder,
    adjusted,
    choices_of,
    code_probabilities,
    codes_of,
    forced_speech,
    play,
    row_of_case,
    session_of,
    stream_embeds,
)

SESSIONS = (
    "d_duplex_audio",
    "d_duplex_forcecount",
    "d_duplex_omni",
    "d_duplex_vision",
    "g_window_basic",
    "g_window_context",
)
TEXT = "hello the world and all the others in it, as it is told to them by a machine"

Tensors = dict[str, Tensor]


class SetRecorder:
    """Writes the files of a set, each from the facts and tensors of the set of the repository."""

    def __init__(self, folder: Path, seed: int, network: MiniCPMO, tokenizer: Tokenizer) -> None:
        self._folder, self._network, self._tokenizer = folder, network, tokenizer
        self._noise = torch.Generator().manual_seed(seed)
        self._sampler = Sampler(tokenizer.ids, tokenizer.forbidden, "upstream")
        self._runner = ModelRunner(
            network, self._sampler, slots=3, context=512, speech_context=256, invariant=True
        )

    def audio(self, facts: Any) -> None:
        """The facts are lengths, which do not depend on the weights."""
        network, waves = self._network, golden_set.waves()
        [mel] = clip_mels(waves["w31"])
        [short] = clip_mels(waves["w31"][: facts["offline.batch2.short_samples"]])
        pieces = clip_mels(waves["w34"][:504000])
        found = {
            "offline.mel": mel,
            "offline.mel_fixed_floor": clip_mels(waves["w31"], dynamic=False)[0],
            "offline.embeds_chunk1s": network.encode_clips([mel])[0],
            "offline.embeds_full_attention": network.encode_clips([mel], full_attention=True)[0],
            "offline.batch2.short_embeds": network.encode_clips([mel, short])[1],
            "offline.alone.short_embeds": network.encode_clips([short])[0],
            "offline.long31_5s.second_piece_embeds": network.encode_clips(pieces)[1],
        }
        for name, wave in (("stream6", "w62"), ("stream34", "w34")):
            streamed = stream_embeds(network, waves[wave], facts[name])
            for n, (chunk, steps, hidden, embeds, cache) in enumerate(streamed):
                found[f"{name}.{n}.mel"] = chunk
                found[f"{name}.{n}.embeds"] = embeds
                if name == "stream6" and n < 2:
                    found[f"{name}.{n}.after_cnn_trim"] = steps[0]
                    found[f"{name}.{n}.encoder_last_hidden"] = hidden[0]
                if name == "stream6" and n == 5:
                    keys = cache.keys[0][0, :300].transpose(0, 1)
                    found["stream6.final.whisper_key_layer0"] = keys
        self._write("a_audio", facts, found)

    def vision(self, facts: Any) -> None:
        """The facts are sizes. Equal results are stored once."""
        network, found = self._network, Tensors()
        for case in facts["cases"]:
            name, most = case["image"], case["max_slice_nums"]
            picture = slice_image(golden_set.image(name), SliceConfig(), most)
            embeds = network.encode_images(picture.pixels, picture.grids)
            values = {f"{name}.max{most}.embeds": embeds}
            for n, part in enumerate(picture.pixels):
                pixels = ((part * 0.5 + 0.5) * 255).round().to(torch.uint8).flatten()[::97]
                values[f"{name}.max{most}.slice{n}.pixels_u8.every97th"] = pixels
            for key, value in values.items():
                if key.removesuffix(".every97th") not in facts["same_as"]:
                    found[key] = value
        pair = [slice_image(golden_set.image(name), SliceConfig(), 1) for name in "ab"]
        found["ab.max1.embeds"] = network.encode_images(
            [p.pixels[0] for p in pair], [p.grids[0] for p in pair]
        )
        picture = slice_image(golden_set.image("b"), SliceConfig(), 4)
        slices = network.place_images(picture.pixels, picture.grids)
        hidden, real = network.vpm(slices), slices.places[3] > 0
        found["b.max4.vpm_last_hidden_first32"] = hidden[:, :32]
        last = [row[:n][-32:] for row, n in zip(hidden, real.sum(1), strict=True)]
        found["b.max4.vpm_last_hidden_last32_valid"] = torch.stack(last)
        self._write("b_vision", facts, found)
        save_file({}, self._folder / "b_vision_pixels.safetensors")

    def language_model(self, weights: Tensors) -> None:
        """By the classes of transformers."""
        names = Qwen3Config().to_dict().keys()
        settings = json.loads((self._folder / "ckpt" / "config.json").read_text())
        own = {name: settings[name] for name in names & settings.keys()}
        rope = {"rope_type": "default", "rope_theta": settings["rope_theta"]}
        qwen = Qwen3Config(**own | {"model_type": "qwen3", "rope_parameters": rope})
        model = Qwen3ForCausalLM(qwen).eval()
        part = {n.removeprefix("llm."): each for n, each in weights.items() if n.startswith("llm.")}
        model.load_state_dict(part)
        cuts = [10, 1, 1, 1, 1, 5, 1, 4]
        ids = torch.tensor(self._tokenizer.encode(TEXT)[: sum(cuts)])
        embeds = model.model.embed_tokens(ids)
        full = model(inputs_embeds=embeds[None], output_hidden_states=True)
        far = torch.arange(5000, 5006)[None]
        distant = model(inputs_embeds=embeds[None, :6], position_ids=far)
        found = {
            "input_ids": ids,
            "embeds": embeds,
            "full.hidden_final_norm": full.hidden_states[-1][0],
            "full.logits": full.logits[0],
            "incremental.logits": full.logits[0],
            "offset5000.logits": distant.logits[0],
            "offset5000.key0": distant.past_key_values.layers[0].keys[0],
        }
        for n, layer in enumerate(full.past_key_values.layers):
            found |= {f"full.key{n}": layer.keys[0], f"full.value{n}": layer.values[0]}
        self._write("c_llm", {"incremental.cuts": cuts}, found)

    def session(self, name: str) -> None:
        """Played from its `spec`, which the folder has."""
        units, found, raw, processed = list[Any](), Tensors(), list[Tensor](), list[Tensor]()

        def record(
            n: int, session: Any, recorder: Any, outcome: Any, pending: Any, lengths: Any
        ) -> None:
            fed = recorder.of(Feed)
            last = next(place for place, (step, _) in enumerate(fed) if step.want_logits)
            codes = codes_of(recorder)
            pictures = sum(len(step.grids) for step, _ in recorder.of(EncodeImages))
            sounds = len(recorder.of(EncodeAudio))
            units.append(
                {
                    "unit": n,
                    "prefill_sequence": [{"img": 64}] * pictures + [{"audio": 10}] * sounds,
                    "force_listen_override": specs[n]["force_listen_override"],
                    "kv_len": {
                        "before": fed[0][0].start,
                        "after_prefill": lengths[0],
                        "after_generate": lengths[1],
                        "after_finalize": lengths[2],
                    },
                    "decode_returned_ids": [draw.token.token for draw in recorder.draws],
                    "fed_ids_in_generate": session.memo.fed,
                    "terminator_id": session.memo.terminator,
                    "is_listen": outcome.is_listen,
                    "text": outcome.text,
                    "end_of_turn": outcome.end_of_turn,
                    "n_tokens": len(outcome.tokens),
                    "current_turn_ended": {"after": not session.turn_open},
                    "current_time": session.units_prefilled,
                    "decode_history_len": len(session.history),
                    "tts_text_start_pos": {"after": session.speech.position},
                    "tts": codes
                    and {"tokens": outcome.codes, "sampled": codes[: len(outcome.codes) + 1]},
                    "unit_history": [{"length": unit.length} for unit in session.layout.units],
                    "system_preserve_length": session.layout.protected,
                    "previous_token_ids": list(session.layout.previous),
                    "whisper_kv_len": session.audio_input.position,
                    "audio_buffer_left": len(session.audio_input.stream._waiting),
                }
            )
            found[f"u{n}.pending_logits"] = pending
            found[f"u{n}.pending_hidden"] = fed[last][1].hidden
            for draw in recorder.draws:
                raw.append(draw.logits)
                final = adjusted(self._sampler, draw.logits, draw.row, draw.recent)
                processed.append(final if draw.token.recorded else draw.logits)
            for step, answer in recorder.of(SpeechCondition):
                found[f"u{n}.tts_condition"] = answer
                found[f"u{n}.tts_source_hidden"] = torch.stack(step.states)
            keys = self._runner.text_cache.keys[-1][1, : session.length].transpose(0, 1)
            if name.startswith("g_"):
                found[f"u{n}.kv_key_last_layer_after_finalize"] = keys.clone()

        spec = golden_set.facts(name)["spec"]
        specs = spec["units"]
        session = play(self._network, self._tokenizer, self._runner, name, record)
        cache = self._runner.text_cache
        for kind, part in (("key", cache.keys), ("value", cache.values)):
            found[f"final_kv.{kind}_last"] = part[-1][1, : session.length].transpose(0, 1).clone()
        probe = Recorder(self._runner).run(session.feed([(self._tokenizer.ids.unit,)]))
        found["probe_logits_next_unit_token"] = probe.logits
        found["step_logits_raw"] = torch.stack(raw)
        found["step_logits_processed"] = torch.stack(processed)
        self._write(name, {"spec": spec, "units": units}, found)

    def sampling(self, facts: Any, logits: Tensor, ids: Ids) -> None:
        """The recorded cases, whose logits and histories have the ids of the other vocabulary."""
        kept = torch.zeros(len(ids), dtype=torch.long)
        for old, new in ids.items():
            kept[new] = old
        found, cases = {"logits": logits[:, kept]}, list[Any]()
        for old_case in facts["cases"]:
            case = old_case | {"history": [ids[t] for t in old_case["history"] if t in ids]}
            if "first_draw_forced_to" in case:
                case["first_draw_forced_to"] = ids[case["first_draw_forced_to"]]
            row, given = row_of_case(case), found["logits"][case["logits_row"]]
            [chosen] = choices_of(self._sampler, given[None], [row])
            assert isinstance(chosen, SampledToken)
            case["returned"] = chosen.token
            case["history_after"] = case["history"] + [chosen.token] * chosen.recorded
            cases.append(case)
            final = adjusted(self._sampler, given, row, list(row.recent))
            count = candidate_count(row.settings.top_k, len(given))
            settings = RowSettings(*settings_table([row], given.device))
            ranked, order = self._sampler.probabilities(final[None], settings, count)
            key, mode = f"case{case['case']}", case["settings"]["mode"]
            if mode == "greedy":
                found[f"{key}.final_logits"] = final
            else:
                found[f"{key}.first_probs"] = given.softmax(-1)
                found[f"{key}.final_probs"] = torch.zeros_like(given).scatter(
                    0, order[0], ranked[0]
                )
        self._write("e_sampling", {"cases": cases}, found)

    def speech(self, facts: Any, weights: Tensors) -> None:
        """The recorded numbers of words and codes, with random states and codes."""
        length, direction = (
            weights[f"tts.head_code.0.parametrizations.weight.original{n}"] for n in (0, 1)
        )
        found = {"head_code_effective_weight": length * direction / direction.norm(dim=1)[:, None]}
        end, width = self._network.config.tts_config.end_code, self._network.config.hidden_size
        for n, chunk in enumerate(facts["chunks"]):
            words, draws = chunk["n_llm_tokens"], chunk["n_draws"]
            forced = torch.randint(end, (draws,), generator=self._noise)
            if chunk["n_returned"] < draws - (draws == chunk["max_new_token"]):
                forced[-1] = end
            ids = torch.randint(256, (words,), generator=self._noise)
            states = torch.randn(words, width, generator=self._noise)
            step = SpeechCondition(ids.tolist(), list(states))
            found |= {
                f"chunk{n}.forced_draws": forced,
                f"chunk{n}.returned_tokens": forced[: chunk["n_returned"]],
                f"chunk{n}.llm_token_ids": ids,
                f"chunk{n}.condition": self._runner.run([step])[0],
            }
            if words:
                found[f"chunk{n}.llm_hidden"] = states
        for n, logits, keys in forced_speech(self._runner, found, facts["chunks"]):
            found[f"chunk{n}.raw_logits"] = logits
            found[f"chunk{n}.kv_key_last_layer"] = keys.clone()
            forced, least = found[f"chunk{n}.forced_draws"].tolist(), facts["chunks"][n]
            rows = [
                CodeRow(SpeechSettings(greedy=True), forced[:k], k >= least["min_new_tokens"])
                for k in range(len(forced))
            ]
            found[f"chunk{n}.scores"] = code_probabilities(logits, rows)
        self._write("f_tts", facts, found)

    def cache_drop(self, facts: Any) -> None:
        """Keys behind the hole are rotated by its length, each pair of halves by its frequency."""
        drop, config, found = facts["drop"], self._network.config, Tensors()
        keep, gone = drop["preserve"], drop["length"]
        angles = -gone * config.rope_theta ** -(
            torch.arange(config.head_dim // 2) * 2 / config.head_dim
        )
        shape = (config.num_key_value_heads, drop["total"], config.head_dim)
        for layer in range(2):
            keys, values = (torch.randn(shape, generator=self._noise) for _ in range(2))
            low, high = keys[:, keep + gone :].chunk(2, dim=-1)
            turned = [
                low * angles.cos() - high * angles.sin(),
                high * angles.cos() + low * angles.sin(),
            ]
            found |= {
                f"drop.before.key{layer}": keys,
                f"drop.before.value{layer}": values,
                f"drop.after.key{layer}": torch.cat([keys[:, :keep], torch.cat(turned, -1)], 1),
                f"drop.after.value{layer}": torch.cat(
                    [values[:, :keep], values[:, keep + gone :]], 1
                ),
            }
        self._write("g_cache_drop", facts, found)

    def chats(self, facts: Any) -> None:
        """Texts as recorded, their ids by the other tokenizer; prompts as the engine writes them."""
        waves, found = golden_set.waves(), Tensors()
        voice = AudioClip(clip_mels(waves["w_ref"]))
        user = AudioClip(clip_mels(waves["w_user"]))
        picture = slice_image(golden_set.image("b"), SliceConfig(), 9)
        system = [VOICE[0], voice, VOICE[1]]
        lengths = {}
        for name in ("nonstreaming", "nonstreaming_omni_image", "streaming_red20.0_system"):
            session, recorder = session_of(self._tokenizer), Recorder(self._runner)
            if name == "nonstreaming":
                turns = [("system", system), ("user", [user])]
                recorder.run(session.chat(turns, generation_prompt=False))
            elif name == "nonstreaming_omni_image":
                turns = [("user", [picture, "what is this? ", user])]
                recorder.run(session.chat(turns, joint="", generation_prompt=False))
            else:
                recorder.run(session.system(system))
            ids, embeds = recorder.embeds([step for step, _ in recorder.of(Feed)])
            found[f"{name}.input_ids"] = torch.tensor(ids)
            found[f"{name}.inputs_embeds"] = embeds
            found[f"{name}.last_logits"] = recorder.of(Feed)[-1][1].logits
            lengths[name] = {"kv_len_after": session.length}
        named = ("chat_template_with_generation_prompt", "chat_template_multi_turn")
        written = {
            name: {"text": facts[name]["text"], "ids": self._tokenizer.encode(facts[name]["text"])}
            for name in (*named, "generation_prompt_streaming")
        }
        assert written["generation_prompt_streaming"]["text"] == USER_CLOSING + ANSWER_OPENING
        turn_start = {"user_turn_start_after_generation": facts["user_turn_start_after_generation"]}
        self._write("h_chat", lengths | written | turn_start, found)

    def _write(self, name: str, facts: Any, tensors: Tensors) -> None:
        write_facts(self._folder, name, facts)
        kept = {key: value.contiguous().clone() for key, value in tensors.items()}
        save_file(kept, self._folder / f"{name}.safetensors")


VOICE = (
    "Clone the voice in the provided audio prompt.",
    "As an assistant, you will speak using this voice style.",
)


def write_facts(folder: Path, name: str, facts: Any) -> None:
    (folder / f"{name}.json").write_text(json.dumps(facts))


def write_inputs(folder: Path) -> None:
    """The recorded sounds backwards and the images mirrored: of equal sizes. Videos are the same."""
    inputs = folder / "inputs"
    inputs.mkdir(parents=True)
    sounds = {
        name: torch.from_numpy((wave[::-1] * 32768).round().astype("int16"))
        for name, wave in golden_set.waves().items()
        if name != "w34"
    }
    save_file(sounds, inputs / "audio_int16.safetensors")
    for name in "abc":
        ImageOps.mirror(golden_set.image(name)).save(inputs / f"image_{name}.png")
    for video in (golden_set.FOLDER / "inputs").glob("*.mp4"):
        (inputs / video.name).write_bytes(video.read_bytes())


def tokenizer_facts(tokenizer: Tokenizer, facts: Any, ids: Ids) -> Any:
    decoded = [[ids[token] for token in case["ids"] if token in ids] for case in facts["decode"]]
    return {
        "cases": [{"text": c["text"], "ids": tokenizer.encode(c["text"])} for c in facts["cases"]],
        "decode": [{"ids": found, "text": tokenizer.decode(found)} for found in decoded],
        "special": {text: ids[old] for text, old in facts["special"].items()},
        "bad_token_ids_count": len(tokenizer.forbidden) - 1,
    }


@torch.inference_mode()
def record(folder: Path, seed: int) -> None:
    """Write a whole set to `folder`, which must not exist, from that of the repository."""
    checkpoint, own = folder / "ckpt", golden_set.FOLDER / "ckpt"
    checkpoint.mkdir(parents=True)
    write_inputs(folder)
    ids = write_tokenizer(own, checkpoint)
    weights = random_weights(write_config(own, checkpoint, ids), own, seed)
    names = ("a_audio", "b_vision", "e_sampling", "f_tts", "g_cache_drop", "h_chat", "tokenizer")
    facts = {name: golden_set.facts(name) for name in (*names, *SESSIONS)}
    logits = golden_set.tensors("e_sampling")["logits"]
    first = min(facts["tokenizer"]["special"].values())
    plots = {name: plot_of(facts[name]["units"], ids, first) for name in SESSIONS}

    golden_set.FOLDER = folder
    tokenizer = Tokenizer(checkpoint)
    write_facts(folder, "tokenizer", tokenizer_facts(tokenizer, facts["tokenizer"], ids))
    for name in SESSIONS:
        write_facts(folder, name, {"spec": facts[name]["spec"]})
    network = load(checkpoint, weights)
    weights[HEAD] = fitted_head(network, tokenizer, plots)
    recorder = SetRecorder(folder, seed, load(checkpoint, weights), tokenizer)
    recorder.audio(facts["a_audio"])
    recorder.vision(facts["b_vision"])
    recorder.language_model(weights)
    for name in SESSIONS:
        recorder.session(name)
        planned, found = (kinds(each["units"]) for each in (facts[name], golden_set.facts(name)))
        sys.stdout.write(f"{name}: units {found}, planned {planned}\n")
    recorder.sampling(facts["e_sampling"], logits, ids)
    recorder.speech(facts["f_tts"], weights)
    recorder.cache_drop(facts["g_cache_drop"])
    recorder.chats(facts["h_chat"])


def load(checkpoint: Path, weights: Tensors) -> MiniCPMO:
    save_file(weights, checkpoint / "model.safetensors")
    return load_network(checkpoint, EngineOptions(device="cpu"), lambda _line: None)


def kinds(units: Sequence[Any]) -> str:
    return "".join("l" if unit["is_listen"] else "S" for unit in units)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    record(asked.folder, asked.seed)


if __name__ == "__main__":
    main()
