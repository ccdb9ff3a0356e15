"""Reads the recorded facts (json), tensors, waveforms and images of the tiny checkpoint."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from safetensors.torch import load_file

from antiphon.shared_schemas.audio import Samples

OWN = Path(__file__).parent / "golden"
FOLDER = Path(os.environ.get("MINICPMO_GOLDEN_SET", OWN))
CHECKPOINT = FOLDER / "ckpt"
LONG_WAVE = ("w_duplex_audio", "w_window", "w_omni", "w62", "w_user", "w31")

CLOSE = {"atol": 1e-4, "rtol": 1e-4}
LOGITS = {"atol": 5e-4, "rtol": 1e-4}


def facts(name: str) -> Any:
    """`real_*` describe the published model, so they are the same for every set."""
    folder = OWN if name.startswith("real_") else FOLDER
    return json.loads((folder / f"{name}.json").read_text())


def facts_if_recorded(name: str) -> Any:
    """Empty if the set does not have them: a parametrized test is then skipped."""
    return facts(name) if (FOLDER / f"{name}.json").is_file() else {}


def system_prompt(name: str) -> str:
    """The instructions of a recorded session, without what encloses them."""
    prefix: str = facts(name)["spec"]["prefix_system_prompt"]
    return prefix.removeprefix("<|im_start|>system\n").removesuffix("\n<|audio_start|>")


def frames(unit: Any) -> list[tuple[str, int]]:
    """The images of a unit, and the number of slices of each: recorded for all, or for each of them."""
    names, most = unit["frames"], unit["max_slice_nums"]
    return list(zip(names, most if isinstance(most, list) else [most] * len(names), strict=True))


def tensors(name: str) -> dict[str, torch.Tensor]:
    return load_file(FOLDER / f"{name}.safetensors")


def pixels() -> dict[str, torch.Tensor]:
    """Every 97th byte of the patches of each slice. A set has some of them whole, or thinned like the
    others.
    """
    thinned = tensors("b_vision")
    whole = FOLDER / "b_vision_pixels.npz"
    if not whole.is_file():
        return thinned | tensors("b_vision_pixels")
    with np.load(whole) as stored:
        more = {f"{key}.every97th": torch.from_numpy(stored[key].ravel()[::97]) for key in stored}
    return thinned | more


def waves() -> dict[str, Samples]:
    stored = load_file(FOLDER / "inputs" / "audio_int16.safetensors")
    found = {name: wave.numpy().astype(np.float32) / 32768.0 for name, wave in stored.items()}
    found["w34"] = np.concatenate([found[name] for name in LONG_WAVE])[: 34 * 16000]
    return found


def image(name: str) -> Image.Image:
    return Image.open(FOLDER / "inputs" / f"image_{name}.png").convert("RGB")


def image_bytes(name: str) -> bytes:
    return (FOLDER / "inputs" / f"image_{name}.png").read_bytes()


def video_bytes(name: str) -> bytes:
    return (FOLDER / "inputs" / name).read_bytes()
