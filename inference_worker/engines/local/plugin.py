"""The plugin of the engine `local`."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from antiphon.inference_worker.engines.local.options import (
    CHINESE_NEEDS,
    INSTALL_COMMAND,
    LocalOptions,
)
from antiphon.inference_worker.engines.local.stored_models import check_gguf, resolve_model
from antiphon.inference_worker.engines.plugin import EnginePlugin
from antiphon.inference_worker.engines.processor import UnifiedProcessor
from antiphon.inference_worker.engines.types import EngineLoadError
from antiphon.shared_schemas.findings import Finding


class LocalPlugin(EnginePlugin[LocalOptions]):
    """`--model-path` is a GGUF file, or the name of one of `antiphon models`.

    It replaces the bundled language model, as `--llm-url` does.
    """

    options = LocalOptions
    install = INSTALL_COMMAND

    def check_model(self, path: Path | None) -> None:
        if (found := resolve_model(path)) is not None:
            check_gguf(found)

    def build(self, options: LocalOptions, model_path: Path | None) -> UnifiedProcessor:
        from antiphon.inference_worker.engines.local.processor import LocalProcessor

        path = resolve_model(model_path)
        if options.language == "zh" and path is None and options.llm_url is None:
            raise EngineLoadError(CHINESE_NEEDS)
        chosen: dict[str, Any] = {"model_path": path}
        if options.rules is None and path != model_path and path is not None:
            chosen["rules"] = True  # the scores of the named models were measured so
        return LocalProcessor(options.model_copy(update=chosen))

    def examine(self, options: LocalOptions, model_path: Path | None) -> Iterable[Finding]:
        from antiphon.inference_worker.engines.local.dependencies import examine

        return examine(options.model_copy(update={"model_path": model_path}))


PLUGIN = LocalPlugin()
