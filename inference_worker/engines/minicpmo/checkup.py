"""Checks whether MiniCPM-o can be loaded here: GPU, files, tensors, tokenizer, voice, memory.

Reads no weights. With a card that is not present, it checks what can be checked without it.
"""

from collections.abc import Callable, Iterator
from ctypes.util import find_library
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import torch

from antiphon.inference_worker.engines.minicpmo.checkpoint_files import (
    StoredTensor,
    check_files,
    indexed_names,
    read_config,
    read_header,
)
from antiphon.inference_worker.engines.minicpmo.config import Card, EngineOptions, ModelConfig
from antiphon.inference_worker.engines.minicpmo.device import NO_GPU_REMEDY, pick_device
from antiphon.inference_worker.engines.minicpmo.model.kernel_check import (
    missing_compiler,
    missing_for_triton,
)
from antiphon.inference_worker.engines.minicpmo.model.load import (
    build_on_meta,
    check_capability,
    check_fp8,
    check_tensors,
    some,
)
from antiphon.inference_worker.engines.minicpmo.model.memory import (
    GIB,
    check_memory,
    estimate,
    free_bytes,
)
from antiphon.inference_worker.engines.minicpmo.preprocess.tokenizer import Tokenizer
from antiphon.inference_worker.engines.minicpmo.token2wav.checkpoint_guard import check_yaml
from antiphon.inference_worker.engines.minicpmo.token2wav.voice_files import (
    INSTALL,
    check_imports,
    check_package,
    check_voice,
    voice_folder,
)
from antiphon.inference_worker.engines.plugin import run_check
from antiphon.inference_worker.engines.types import EngineLoadError
from antiphon.shared_schemas.findings import Finding, failure, ok, warning

_FETCH = "download every file of openbmb/MiniCPM-o-4_5: docs/gpu.md has the command"
_AUTO = "set the engine option device to auto"
_ROOM = "--slots is also ANTIPHON_SLOTS; engine options are in ANTIPHON_ENGINE_OPTIONS"
_VOICE = "fetch assets/token2wav too, or set the option vocoder to a folder that has it, or to none"
_FFMPEG = "install FFmpeg (Debian: ffmpeg)"


def examine(folder: Path, options: EngineOptions, card: Card | None = None) -> Iterator[Finding]:
    """Run every check that is possible without the weights, also after others have failed."""
    checkup = _Checkup(folder, options, card)
    yield ok("torch", f"{torch.__version__}, CUDA {torch.version.cuda or 'not built in'}")
    yield checkup.gpu()
    yield checkup.kernels()
    if options.quantize != "none":
        yield run_check("quantize", checkup.quantize, "set --quantize to int8")
    yield run_check("model folder", checkup.files, _FETCH)
    if not checkup.has_config:
        return  # nothing else is known of the folder
    yield checkup.tensors()
    yield run_check("tokenizer", checkup.tokenizer, _FETCH)
    yield checkup.voice()
    yield from checkup.voice_packages()
    yield run_check("model memory", checkup.memory, _ROOM)


@dataclass
class _Checkup:
    folder: Path
    options: EngineOptions
    card: Card | None

    @cached_property
    def config(self) -> ModelConfig:
        """Raises EngineLoadError."""
        return read_config(self.folder)

    @property
    def has_config(self) -> bool:
        return not _fails(lambda: self.config)

    @property
    def uses_cpu(self) -> bool:
        return self.card is None and self.options.device == "cpu"

    def gpu(self) -> Finding:
        if self.card is not None:
            free = f"{self.card.free_gib:g} GiB assumed to be free"
            return ok("gpu", f"{self.card.name}, {free}; what is installed here was not asked")
        if self.uses_cpu:
            found = "not used: on a CPU this model is far slower than real time"
            return warning("gpu", found, _AUTO)
        remedy = f"{NO_GPU_REMEDY}; or name a card to count for: --card h200"
        return run_check("gpu", lambda: _describe(pick_device(self.options.device)), remedy)

    def kernels(self) -> Finding:
        """A missing GPU is reported by another finding; here it counts as a CPU."""
        choice = self.options.kernels
        if choice == "torch" or (choice == "auto" and self.uses_cpu):
            return ok("kernels", "torch's own")
        if self.card is not None:
            lacks, found = missing_compiler(), "a C compiler and Python's headers, for Triton"
        elif choice == "auto" and not torch.cuda.is_available():
            return ok("kernels", "torch's own")
        else:
            name = "cuda" if self.options.device == "auto" else self.options.device
            lacks, found = missing_for_triton(torch.device(name)), "Triton"
        if not lacks:
            return ok("kernels", found)
        if choice == "triton":  # a worker refuses to start
            return failure(
                "kernels", f"Triton lacks {lacks}", "install that, or set kernels to torch"
            )
        found = "torch's own: steps take twice as many launches"
        return warning("kernels", found, f"install {lacks}")

    def quantize(self) -> str:
        if self.card is not None:
            check_capability(self.options, self.card.name, self.card.capability)
        else:
            check_fp8(self.options, pick_device(self.options.device))
        return f"{self.options.quantize}, made at load"

    def files(self) -> str:
        check_files(self.folder)
        files = sorted(set(indexed_names(self.folder).values()))
        size = sum(path.stat().st_size for path in files) / GIB
        return f"{self.folder.resolve()}, {len(files)} weight files, {size:.1f} GiB"

    def tensors(self) -> Finding:
        """Names by the index, also if weight files are missing; shapes and types by those that are there."""
        try:
            names = indexed_names(self.folder)
            stored, unread = _stored(set(names.values()))
            ignored = check_tensors(build_on_meta(self.config), {*names, *stored}, stored)
        except EngineLoadError as error:
            return failure("model tensors", str(error), _FETCH)
        kinds = "".join(f" {kind}" for kind in sorted({each.dtype for each in stored.values()}))
        found = f"all {len(names)} names; shapes and types of {len(stored)}:{kinds or ' none'}"
        if unread:
            lacking = ", ".join(path.name for path in unread)
            return warning("model tensors", f"{found}; {lacking} could not be read", _FETCH)
        if ignored:
            remedy = "nothing, if this is a later revision of the checkpoint"
            text = f"{found}; {len(ignored)} are not used: {some(ignored)}"
            return warning("model tensors", text, remedy)
        return ok("model tensors", found)

    def tokenizer(self) -> str:
        tokenizer = Tokenizer(self.folder)
        if len(tokenizer) > self.config.vocab_size:
            raise EngineLoadError(
                f"the tokenizer has {len(tokenizer)} tokens, config.json {self.config.vocab_size}"
            )
        return f"{len(tokenizer)} tokens"

    def voice(self) -> Finding:
        place = voice_folder(self.folder, self.options)
        if place is None:
            return ok("voice", "switched off: answers are text only")
        try:
            kind = check_voice(place)
            check_yaml(place)
        except EngineLoadError as error:
            if self.options.vocoder == "auto" and not place.is_dir():
                return warning("voice", f"answers are text only: {error}", _VOICE)
            return failure("voice", str(error), _VOICE)
        if self.uses_cpu:
            text = "not used: it needs a GPU, so answers are text only"
            return warning("voice", text, _AUTO)
        return ok("voice", f"{place}, {kind.value}")

    @property
    def speaks(self) -> bool:
        """Whether a worker would load the voice, if its files are complete."""
        place = voice_folder(self.folder, self.options)
        if place is None or self.uses_cpu:
            return False
        return self.options.vocoder != "auto" or place.is_dir()

    def voice_packages(self) -> Iterator[Finding]:
        if not self.speaks:
            return
        yield run_check("voice package", _package, INSTALL)
        if find_library("avcodec") is None:
            yield warning("ffmpeg", "its libraries were not found; Token2wav reads sound", _FFMPEG)

    def memory(self) -> str:
        options, counted = self.options, self.speaks
        if self.card is not None:
            device, free = torch.device("cuda"), int(self.card.free_gib * GIB)
        else:
            device = pick_device(options.device)
            free = free_bytes(device)
        check_memory(self.config, options, device, voices=counted, free=free)
        needed = estimate(self.config, options, device.type, voices=counted)
        most = "" if self.uses_cpu else f"; {needed.fitting(free)} would fit"
        kind = "with a voice" if counted else "text only"
        return (
            f"{options.slots} slots of {options.context_tokens} tokens ({kind}) need "
            f"{needed.of(options.slots) / GIB:.1f} of {free / GIB:.1f} GiB{most}"
        )


def _describe(device: torch.device) -> str:
    if device.type == "cpu":
        return "cpu"
    free, total = free_bytes(device) / GIB, torch.cuda.get_device_properties(device).total_memory
    name = torch.cuda.get_device_name(device)
    return f"{device}, {name}, {free:.0f} of {total / GIB:.0f} GiB free"


def _stored(files: set[Path]) -> tuple[dict[str, StoredTensor], list[Path]]:
    """The tensors of the files that can be read, and the other files."""
    found: dict[str, StoredTensor] = {}
    unread: list[Path] = []
    for path in sorted(files):
        try:
            found |= read_header(path)
        except (EngineLoadError, OSError):  # the check of the folder has the reason
            unread.append(path)
    return found, unread


def _package() -> str:
    check_package()
    check_imports()
    return "minicpmo-utils, for both kinds"


def _fails(step: Callable[[], object]) -> bool:
    try:
        step()
    except EngineLoadError:
        return True
    return False
