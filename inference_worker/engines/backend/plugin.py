"""The plugin of the engine `backend`."""

from collections.abc import Iterable
from pathlib import Path

from antiphon.inference_worker.engines.backend.options import BackendOptions
from antiphon.inference_worker.engines.plugin import EnginePlugin
from antiphon.inference_worker.engines.processor import UnifiedProcessor
from antiphon.shared_schemas.findings import Finding


class BackendPlugin(EnginePlugin[BackendOptions]):
    """The servers have the model, so it takes no `--model-path`."""

    options = BackendOptions
    install = "pip install '.[server]' in Antiphon's checkout"

    def build(self, options: BackendOptions, model_path: Path | None) -> UnifiedProcessor:  # noqa: ARG002
        from antiphon.inference_worker.engines.backend.processor import BackendProcessor

        return BackendProcessor(options)

    def examine(self, options: BackendOptions, model_path: Path | None) -> Iterable[Finding]:  # noqa: ARG002
        from antiphon.inference_worker.engines.backend.processor import examine

        return examine(options)


PLUGIN = BackendPlugin()
