"""How a package offers an engine: an entry point of the group `antiphon.engines` names its plugin."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Generic, TypeVar

from pydantic import BaseModel

from antiphon.inference_worker.engines.processor import UnifiedProcessor
from antiphon.inference_worker.engines.types import EngineLoadError
from antiphon.shared_schemas.findings import Finding, failure, ok

OptionsT = TypeVar("OptionsT", bound=BaseModel)


class EnginePlugin(ABC, Generic[OptionsT]):
    """Checks the settings of an engine and builds it.

    A command loads the plugin to check settings, so its module imports no large or optional library.
    `build` and `examine` import them; their ImportError becomes an error with `install`.
    """

    options: type[OptionsT]
    """The keys of ANTIPHON_ENGINE_OPTIONS and `slots`: a frozen model that forbids other fields."""
    install = ""
    """The command that installs the engine's libraries."""

    def check_model(self, path: Path | None) -> None:
        """Check `--model-path`; None if it is not set. Raises EngineLoadError."""
        if path is not None:
            raise EngineLoadError("this engine takes no --model-path")

    @abstractmethod
    def build(self, options: OptionsT, model_path: Path | None) -> UnifiedProcessor:
        """The engine, not loaded yet. The arguments are valid."""

    def examine(self, options: OptionsT, model_path: Path | None) -> Iterable[Finding]:  # noqa: ARG002
        """For `antiphon doctor`: check libraries, weights and device, without loading the weights."""
        return [ok("engine", "nothing to check")]

    def examine_for(
        self,
        card: str,  # noqa: ARG002
        options: OptionsT,  # noqa: ARG002
        model_path: Path | None,  # noqa: ARG002
    ) -> Iterable[Finding]:
        """The same for a GPU that is not present: `antiphon doctor --card`.

        Raises EngineLoadError if the engine knows no such card.
        """
        raise EngineLoadError("this engine knows no cards: leave --card out")


def run_check(about: str, step: Callable[[], str], remedy: str) -> Finding:
    """The result of `step`, or a failure if it raises EngineLoadError."""
    try:
        return ok(about, step())
    except EngineLoadError as error:
        return failure(about, str(error), remedy)
