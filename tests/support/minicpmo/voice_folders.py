"""Folders with the files of Token2wav, whose contents do not count."""

from pathlib import Path

from antiphon.inference_worker.engines.minicpmo.token2wav.voice_files import VoiceKind


def voice_folder(folder: Path, kind: VoiceKind) -> Path:
    """Files with the published names of this kind; those that exist are kept."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in kind.files:
        path = folder / name
        if not path.exists():
            path.write_text("# nothing\n")
    return folder
