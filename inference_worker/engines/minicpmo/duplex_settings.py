"""What a duplex conversation chose, and what one of its units came to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from antiphon.inference_worker.engines.minicpmo.config import EngineOptions, Fidelity
from antiphon.inference_worker.engines.minicpmo.sampler import SamplingSettings
from antiphon.inference_worker.engines.minicpmo.window import WindowSettings
from antiphon.shared_schemas.config import DuplexConfig

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class DuplexSettings:
    """What one conversation chose."""

    sampling: SamplingSettings = field(default_factory=SamplingSettings)
    max_tokens: int = 20
    force_listen_count: int = 0
    ls_mode: Literal["explicit", "implicit"] = "explicit"
    generate_speech: bool = True
    window: WindowSettings = field(default_factory=WindowSettings)
    fidelity: Fidelity = "upstream"


@dataclass(slots=True)
class Draft:
    """A unit being generated: the tokens it speaks and their states."""

    said: list[int] = field(default_factory=list)
    states: list[Tensor] = field(default_factory=list)
    is_listen: bool = False
    end_of_turn: bool = False


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What a unit decided; `codes` is its speech, up to 25. Costs are milliseconds."""

    is_listen: bool = True
    text: str = ""
    end_of_turn: bool = False
    tokens: int = 0
    codes: list[int] = field(default_factory=list)
    cost_llm_ms: float = 0.0
    cost_speech_ms: float = 0.0
    restarts_voice: bool = False


def duplex_settings(config: DuplexConfig, options: EngineOptions) -> DuplexSettings:
    """The client's wishes and the operator's choices; temperature 0 chooses the likeliest token."""
    return DuplexSettings(
        sampling=SamplingSettings(
            greedy=config.temperature == 0.0,
            temperature=config.temperature,
            top_k=config.top_k,
            top_p=config.top_p,
            listen_prob_scale=config.listen_prob_scale,
        ),
        max_tokens=config.max_new_speak_tokens_per_chunk,
        force_listen_count=config.force_listen_count,
        ls_mode=config.ls_mode,
        generate_speech=config.generate_audio,
        window=WindowSettings(
            mode=options.window,
            basic_high_tokens=options.basic_high_tokens,
            basic_low_tokens=options.basic_low_tokens,
            context_max_units=options.context_max_units,
            context_previous_max_tokens=options.context_previous_max_tokens,
        ),
        fidelity=options.fidelity,
    )
