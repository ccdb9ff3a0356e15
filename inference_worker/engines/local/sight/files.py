"""The files of the networks: where they are, and whether they are the pinned ones."""

import hashlib
from pathlib import Path
from typing import Any

from antiphon.inference_worker.engines.common.installed_packages import package_folders
from antiphon.inference_worker.engines.common.onnx import cpu_session
from antiphon.inference_worker.engines.types import EngineLoadError

READER_PACKAGE = "rapidocr"
READER_COMMAND = "pip install --no-deps rapidocr==3.10.0"

DETECTOR, CLASSIFIER = "detector.onnx", "classifier.onnx"
TEXT_DETECTOR, TEXT_RECOGNISER = "PP-OCRv6_det_small.onnx", "PP-OCRv6_rec_small.onnx"

SHA256 = {
    DETECTOR: "2ed7f5bc1a516561be874164600398bc3135f700695fbe901d262ac78ffb9cec",
    CLASSIFIER: "c681ec4e0b36bcf03715b033ea077783933bfdeef4d1f8eef5ff2e76d6dec29d",
    TEXT_DETECTOR: "090f04abcd9d9a7498bc4ebf677e4cb9bdce1fe4197ddb7e529f1ef44e1ff94f",
    TEXT_RECOGNISER: "6f327246b50388f3c176ae304bd95767ea6dc0c9ae92153ef8cbe210b3c14884",
}
"""All networks by the names of their files."""

_FOLDER = Path(__file__).parent / "networks"


def load_network(name: str) -> Any:
    """Raises EngineLoadError if the file is missing or is not the pinned one."""
    return cpu_session(str(find_network(name)), keeps_memory=False)


def find_network(name: str) -> Path:
    """Raises EngineLoadError if the file is missing or is not the pinned one."""
    path = _path(name)
    try:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise EngineLoadError(f"a network of the sight cannot be read: {error}") from error
    if digest != SHA256[name]:
        remedy = f"; run: {READER_COMMAND} --force-reinstall" if path.parent != _FOLDER else ""
        raise EngineLoadError(f"{path} is damaged or of another version{remedy}")
    return path


def class_names() -> list[str]:
    """What the classifier names, by its numbers; empty for names that are seldom right."""
    return (_FOLDER / "classes.txt").read_text(encoding="utf-8").split("\n")


def _path(name: str) -> Path:
    """The networks that read are in a package, of which no code is imported."""
    if name in (DETECTOR, CLASSIFIER):
        return _FOLDER / name
    for folder in package_folders(READER_PACKAGE):
        if (path := folder / "models" / name).is_file():
            return path
    raise EngineLoadError(
        f"reading text needs the files of the package {READER_PACKAGE!r}; run: {READER_COMMAND}"
    )
