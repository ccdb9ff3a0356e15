"""Token2wav of the package `minicpmo-utils` on the CPU: its networks and loop, small random weights.

`tools/install.py` installs the package outside the environment, because its other top-level names
are not wanted. Its imports for voices are not installed and replaced by empty modules, so a prompt
(codes, speaker, mel) is drawn from the samples of the reference instead.
"""

import importlib
import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

import numpy as np
import soundfile
import torch
import torch._dynamo  # before the replaced modules: it looks for libraries
from torch import Tensor

from antiphon.inference_worker.engines.minicpmo.token2wav.token2wav_vocoder import set_crossfade

PACKAGE = Path(sys.prefix) / "share" / "token2wav" / "stepaudio2"
CODES = 6561
MELS = 80
HEADS = 8
BARE = (
    "hyperpyyaml",
    "librosa.filters",
    "onnxruntime",
    "s3tokenizer",
    "scipy.io.wavfile",
    "scipy.signal",
    "torchaudio.compliance.kaldi",
)
"""Imported by the package; only a window of 16 samples is used here."""

EARLIER, LATER = "1.0.6", "1.0.7"


def package(name: str) -> Any:
    return _modules()[f"stepaudio2.{name}"]


@cache
def _modules() -> dict[str, ModuleType]:
    """The package without the imports of its __init__; other code cannot import it afterwards."""
    package = _folder()
    bare = _bare_modules()
    known = {name: sys.modules.get(name) for name in bare}
    sys.modules.update(bare)
    sys.modules["stepaudio2"] = root = ModuleType("stepaudio2")
    root.__path__ = [str(package)]
    try:
        importlib.import_module("stepaudio2.token2wav")
    finally:
        for name in bare:
            del sys.modules[name]
        sys.modules.update({name: module for name, module in known.items() if module})
        names = [name for name in sys.modules if name.partition(".")[0] == "stepaudio2"]
        found = {name: sys.modules.pop(name) for name in names}
    return found


def _folder() -> Path:
    """The folder of the package. Raises FileNotFoundError."""
    installed = importlib.util.find_spec("stepaudio2")
    places = [PACKAGE, *map(Path, (installed and installed.submodule_search_locations) or [])]
    found = next((place for place in places if place.is_dir()), None)
    if found is None:
        raise FileNotFoundError(f"{PACKAGE} is missing: `make test-all` installs it")
    return found


class _Bare(ModuleType):
    """Has every name that is imported from it; only the window is called."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _hann if name == "get_window" else None


def _bare_modules() -> dict[str, _Bare]:
    made: dict[str, _Bare] = {}
    for whole in BARE:
        parts = whole.split(".")
        for n in range(1, len(parts) + 1):
            name = ".".join(parts[:n])
            module = made.setdefault(name, _Bare(name))
            if n > 1:
                setattr(made[".".join(parts[: n - 1])], parts[n - 1], module)
    return made


def _hann(_name: str, length: int, *, fftbins: bool) -> np.ndarray[Any, Any]:
    return np.hanning(length + 1)[:-1] if fftbins else np.hanning(length)


def token2wav(
    release: str,
    *,
    steps: int = 2,
    blocks: int = 1,
    layers: int | None = 1,
    channels: int = 32,
    width: int = 64,
) -> Any:
    """The package's object after its constructor, with the given sizes.

    The real sizes are 16 blocks, `layers` None, 512 channels and a width of 512.
    """
    torch.manual_seed(0)
    inner = package("token2wav").Token2wav.__new__(package("token2wav").Token2wav)
    inner.float16, inner.n_timesteps = False, steps
    inner.flow = _flow(steps, blocks, layers, width)
    inner.cache = inner.stream_cache = inner._stream_prompt = None
    inner.device, inner.hop_samples = torch.device("cpu"), 480
    inner._prepare_prompt = _prompt
    inner.hift_cache_dict = {}
    (_causal if release == LATER else _original)(inner, channels)
    predictor = inner.hift.f0_predictor.classifier
    with torch.no_grad():  # with random weights no frame would be voiced
        predictor.weight.mul_(300)
        predictor.bias.fill_(20)
    return inner


def _flow(steps: int, blocks: int, layers: int | None, width: int) -> Any:
    encoder = package("cosyvoice2.transformer.upsample_encoder_v2").UpsampleConformerEncoderV2(
        input_size=width,
        output_size=width,
        num_blocks=layers or 6,
        num_up_blocks=layers or 4,
        attention_heads=HEADS,
        linear_units=4 * width,
    )
    place = torch.get_default_device()
    with torch.device("meta"):  # the constructors fill 2 GB
        dit = package("cosyvoice2.flow.decoder_dit").DiT(
            in_channels=4 * MELS,
            out_channels=MELS,
            depth=blocks,
            num_heads=HEADS,
            head_dim=width // HEADS,
            hidden_size=width,
        )
        matching = package("cosyvoice2.flow.flow_matching").CausalConditionalCFM(dit, 0.7)
    for module, sizes in ((matching, (steps, blocks)), (dit, (blocks,))):
        module.att_cache_buffer = torch.zeros(*sizes, 2, HEADS, 1000, 2 * width // HEADS)
        module.cnn_cache_buffer = torch.zeros(*sizes, 2, 2 * width, 2)
    matching.to_empty(device=place)
    matching.rand_noise.normal_()
    scale = (512 / width) ** 0.5
    for parameter in dit.parameters():
        torch.nn.init.normal_(parameter, 0, scale * 0.04 if parameter.ndim > 1 else 0.02)
    flow = package("cosyvoice2.flow.flow").CausalMaskedDiffWithXvec(
        width, MELS, 192, "mel", CODES, encoder, matching
    )
    return flow.eval()


def _original(inner: Any, channels: int) -> None:
    """The vocoder up to release 1.0.6; its network is also in 1.0.7."""
    hifigan = package("flashcosyvoice.modules.hifigan")
    inner.hift = hifigan.HiFTGenerator(
        base_channels=channels,
        f0_predictor=hifigan.ConvRNNF0Predictor(cond_channels=min(512, 4 * channels)),
    ).eval()
    set_crossfade(inner, torch.get_default_device())


def _causal(inner: Any, channels: int) -> None:
    with patch.object(torch, "rand", _short_table):
        model = package("causal_vocoder.generator").CausalHiFTGenerator(
            base_channels=channels,
            sampling_rate=24000,
            upsample_rates=[8, 5, 3],
            upsample_kernel_sizes=[16, 11, 7],
            source_resblock_kernel_sizes=[7, 7, 11],
            source_resblock_dilation_sizes=[[1, 3, 5]] * 3,
            f0_predictor=package("causal_vocoder.f0_predictor").CausalConvRNNF0Predictor(
                cond_channels=min(512, 4 * channels)
            ),
        )
    inner.hift = model.eval()
    inner.bounded_vocoder = package("causal_vocoder.bounded_vocoder").BoundedVocoder(inner.hift)
    inner.vocoder_delay_frames = 8
    inner.source_cache_len = inner.vocoder_delay_frames * inner.hop_samples


def _short_table(*shape: int) -> Tensor:
    """Uniform noise; of the tables of five minutes, which repeat, two seconds on a CPU."""
    real = torch.get_default_device().type == "meta"
    return torch.empty(*(size if real else min(size, 48_000) for size in shape)).uniform_()


def _prompt(path: str) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """A random replacement for the two ONNX networks of a voice, deterministic per reference."""
    wave, rate = soundfile.read(path)
    count = len(wave) * 25 // rate
    draw = torch.Generator().manual_seed(int(abs(wave[:2000]).sum() * 1000))
    codes = torch.randint(0, CODES, (1, count), generator=draw, dtype=torch.int32)
    speaker = torch.randn(1, 192, generator=draw)
    mel = torch.randn(1, 2 * count, MELS, generator=draw)
    return codes, torch.tensor([count]), speaker, mel, torch.tensor([2 * count])


@contextmanager
def still_noise() -> Iterator[None]:
    """Inside the context, the vocoder of earlier releases draws zeros instead of noise."""

    def zeros(*shape: Any, generator: object = None, **how: Any) -> Tensor:
        return torch.zeros(*shape, **how)

    still = {"rand": zeros, "randn_like": torch.zeros_like}
    with patch.multiple(torch, **still):
        yield
