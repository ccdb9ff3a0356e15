"""The plugin of the engine `minicpmo`."""

from collections.abc import Iterable
from pathlib import Path

from antiphon.inference_worker.engines.minicpmo.checkpoint_files import check_files
from antiphon.inference_worker.engines.minicpmo.config import Card, EngineOptions, find_card
from antiphon.inference_worker.engines.plugin import EnginePlugin
from antiphon.inference_worker.engines.processor import UnifiedProcessor
from antiphon.inference_worker.engines.types import EngineLoadError
from antiphon.shared_schemas.findings import Finding, failure


class MiniCPMOPlugin(EnginePlugin[EngineOptions]):
    """`--model-path` is the folder of the checkpoint."""

    options = EngineOptions
    install = "pip install '.[minicpmo]' in Antiphon's checkout"

    def check_model(self, path: Path | None) -> None:
        if path is None:
            text = "engine 'minicpmo' needs the checkpoint's folder: --model-path DIR"
            raise EngineLoadError(text)
        check_files(path)

    def build(self, options: EngineOptions, model_path: Path | None) -> UnifiedProcessor:
        from antiphon.inference_worker.engines.minicpmo.processor import MiniCPMOProcessor

        assert model_path is not None, "check_model has refused it"
        return MiniCPMOProcessor(model_path, options)

    def examine(self, options: EngineOptions, model_path: Path | None) -> Iterable[Finding]:
        return _examine(options, model_path, None)

    def examine_for(
        self, card: str, options: EngineOptions, model_path: Path | None
    ) -> Iterable[Finding]:
        return _examine(options, model_path, find_card(card))


def _examine(
    options: EngineOptions, model_path: Path | None, card: Card | None
) -> Iterable[Finding]:
    if model_path is None:
        remedy = "ANTIPHON_MODEL_PATH or --model-path: the folder of the checkpoint"
        return [failure("model folder", "not set", remedy)]
    from antiphon.inference_worker.engines.minicpmo.checkup import examine

    return examine(model_path, options, card)


PLUGIN = MiniCPMOPlugin()
