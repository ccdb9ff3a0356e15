"""Checks whether MiniCPM-o can be loaded here: GPU, folder, tensor names, tokenizer, voice, memory.
Reads no weights.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path

import torch

from antiphon.inference_worker.engines.minicpmo.checkpoint_files import check_files, read_config
from antiphon.inference_worker.engines.minicpmo.config import EngineOptions
from antiphon.inference_worker.engines.minicpmo.device import NO_GPU_REMEDY, pick_device
from antiphon.inference_worker.engines.minicpmo.model.kernel_check import missing_for_triton
from antiphon.inference_worker.engines.minicpmo.model.load import (
    build_on_meta,
    check_fp8,
    check_names,
    expected_names,
    find_shards,
)
from antiphon.inference_worker.engines.minicpmo.model.memory import GIB, check_memory, free_bytes
from antiphon.inference_worker.engines.minicpmo.preprocess.tokenizer import Tokenizer
from antiphon.inference_worker.engines.minicpmo.token2wav.checkpoint_guard import check_yaml
from antiphon.inference_worker.engines.minicpmo.token2wav.vocoder import find_token2wav
from antiphon.inference_worker.engines.plugin import run_check
from antiphon.shared_schemas.findings import Finding, FindingStatus, failure, ok, warning

_FETCH = "download every file of openbmb/MiniCPM-o-4_5: docs/gpu.md has the command"
_AUTO = "set the engine option device to auto"
_ROOM = "--slots is also ANTIPHON_SLOTS; engine options are in ANTIPHON_ENGINE_OPTIONS"


def examine(folder: Path, options: EngineOptions) -> Iterator[Finding]:
    """Run every check; a check after a failed one may fail for the same reason.

    The contents are examined only if all files are there and complete.
    """
    yield ok("torch", f"{torch.__version__}, CUDA {torch.version.cuda or 'not built in'}")
    yield _gpu(options)
    yield _kernels(options)
    if options.quantize != "none":
        yield run_check("quantize", lambda: _quantize(options), "set --quantize to int8")
    files = run_check("model folder", lambda: _files(folder), _FETCH)
    yield files
    if files.verdict is FindingStatus.FAILURE:
        return
    yield run_check("model tensors", lambda: _names(folder), _FETCH)
    yield run_check("tokenizer", lambda: f"{len(Tokenizer(folder))} tokens", _FETCH)
    yield _voice(folder, options)
    yield run_check("model memory", lambda: _memory(folder, options), _ROOM)


def _gpu(options: EngineOptions) -> Finding:
    finding = run_check("gpu", lambda: _device(options), NO_GPU_REMEDY)
    if finding.found == "cpu":
        return warning("gpu", "not used: on a CPU this model is far slower than real time", _AUTO)
    return finding


def _device(options: EngineOptions) -> str:
    device = pick_device(options.device)
    if device.type == "cpu":
        return "cpu"
    free, total = free_bytes(device) / GIB, torch.cuda.get_device_properties(device).total_memory
    name = torch.cuda.get_device_name(device)
    return f"{device}, {name}, {free:.0f} of {total / GIB:.0f} GiB free"


def _kernels(options: EngineOptions) -> Finding:
    """A missing GPU is reported by another finding; here it counts as a CPU."""
    wanted = options.kernels == "triton" or (
        options.kernels == "auto" and options.device != "cpu" and torch.cuda.is_available()
    )
    if not wanted:
        return ok("kernels", "torch's own")
    lacks = missing_for_triton(torch.device("cuda" if options.device == "auto" else options.device))
    if not lacks:
        return ok("kernels", "Triton")
    if options.kernels == "triton":  # a worker refuses to start
        return failure("kernels", f"Triton lacks {lacks}", "install that, or set kernels to torch")
    return warning("kernels", "torch's own: steps take twice as many launches", f"install {lacks}")


def _quantize(options: EngineOptions) -> str:
    check_fp8(options, pick_device(options.device))
    return f"{options.quantize}, made at load"


def _names(folder: Path) -> str:
    network = build_on_meta(read_config(folder))
    shards = find_shards(folder)
    check_names(expected=expected_names(network, shards), found=shards)
    return f"all {len(shards)} have the expected names"


def _files(folder: Path) -> str:
    check_files(folder)
    files = sorted(set(find_shards(folder).values()))
    size = sum(path.stat().st_size for path in files) / GIB
    return f"{folder.resolve()}, {len(files)} weight files, {size:.1f} GiB"


def _voice(folder: Path, options: EngineOptions) -> Finding:
    if options.vocoder == "none":
        return ok("voice", "switched off: answers are text only")
    place = find_token2wav(folder, options)
    if place is None or not place.is_dir():
        text = f"no GPU, or no {place or folder / 'assets' / 'token2wav'}: sound is refused"
        return warning("voice", text, "fetch assets/token2wav too, or set the option vocoder")
    if importlib.util.find_spec("stepaudio2") is None:
        remedy = (
            "pip install --no-deps minicpmo-utils==1.0.7, and the extra token2wav; or vocoder=none"
        )
        return failure("voice", "Token2wav's package is not installed", remedy)
    return run_check("voice", lambda: _safe_voice(place), _FETCH)


def _safe_voice(place: Path) -> str:
    check_yaml(place)
    return str(place)


def _memory(folder: Path, options: EngineOptions) -> str:
    config, device = read_config(folder), pick_device(options.device)
    voices = find_token2wav(folder, options) is not None
    check_memory(config, options, device, voices=voices)
    return f"{options.slots} slots of {options.context_tokens} tokens fit on {device}"
