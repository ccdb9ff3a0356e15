"""The plugin of the engine `local`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from antiphon.inference_worker.engines.local.options import (
    INSTALL_COMMAND,
    LocalOptions,
    check_gguf,
)
from antiphon.inference_worker.engines.plugin import EnginePlugin
from antiphon.inference_worker.engines.processor import UnifiedProcessor
from antiphon.shared_schemas.findings import Finding


class LocalPlugin(EnginePlugin[LocalOptions]):
    """`--model-path` is a GGUF file that replaces the bundled language model, as `--llm-url` does."""

    options = LocalOptions
    install = INSTALL_COMMAND

    def check_model(self, path: Path | None) -> None:
        if path is not None:
            check_gguf(path)

    def build(self, options: LocalOptions, model_path: Path | None) -> UnifiedProcessor:
        from antiphon.inference_worker.engines.local.processor import LocalProcessor

        return LocalProcessor(options.model_copy(update={"model_path": model_path}))

    def examine(self, options: LocalOptions, model_path: Path | None) -> Iterable[Finding]:
        from antiphon.inference_worker.engines.local.dependencies import examine

        return examine(options.model_copy(update={"model_path": model_path}))


PLUGIN = LocalPlugin()
