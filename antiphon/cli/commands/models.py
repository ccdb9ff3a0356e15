"""`antiphon models`: language models of the engine `local`, from the hub of their publishers."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import typer
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from antiphon.cli.common import AsJson, Row, command, fail, print_table, rows_table
from antiphon.cli.help import Command, Group
from antiphon.cli.models.download import (
    Download,
    DownloadFailed,
    DownloadRuns,
    PartialFile,
    Watcher,
    partial_path,
    sha256_of,
)
from antiphon.cli.terminal import Terminal, echo, echo_json
from antiphon.client.errors import without_password
from antiphon.inference_worker.engines.local.gguf_file import GGUF
from antiphon.inference_worker.engines.local.stored_models import (
    BUNDLED,
    PUBLISHED_MODELS,
    SCORES,
    WEIGHTS_COMMAND,
    PublishedModel,
    bundled_model,
    find_published,
    model_names,
    models_folder,
    stored_path,
)
from antiphon.inference_worker.engines.types import EngineLoadError
from antiphon.interrupts import INTERRUPTED

_HUB = "https://huggingface.co"
_STEPS = 10

ModelName = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help="Name of a model, as `antiphon models list` shows it.",
        autocompletion=lambda incomplete: [n for n in model_names() if n.startswith(incomplete)],
    ),
]
Hub = Annotated[
    str,
    typer.Option(
        envvar="HF_ENDPOINT",
        show_envvar=False,
        help=rf"Hugging Face, or a mirror of it. \[default: {_HUB}] \[env: HF_ENDPOINT]",
        show_default=False,
    ),
]


def list_models(as_json: AsJson = False) -> None:
    """List the models, their size and score, and which of them are on this machine."""
    with _readable_errors():
        folder = models_folder()
        rows = [_bundled_row(), *map(_row, PUBLISHED_MODELS)]
    if as_json:
        echo_json(rows, indent=True)
        return
    print_table(rows_table([_in_words(row) for row in rows]))
    echo(f"\nFolder of the downloaded models: {folder}")


def _bundled_row() -> Row:
    try:
        size = bundled_model().stat().st_size
    except EngineLoadError:
        size = 0
    return _facts(BUNDLED, "package" if size else "absent", size, size)


def _row(model: PublishedModel) -> Row:
    target, state = stored_path(model), "absent"
    here = target.stat().st_size if target.exists() else _bytes_here(model)
    if here:
        state = "here" if here == model.size else "unfinished"
    return _facts(model.name, state, here, model.size)


def _facts(name: str, state: str, here: int, size: int) -> Row:
    score = SCORES[name]
    return {
        "model": name,
        "state": state,
        "bytes": here,
        "download_bytes": size,
        "memory_mib": score.memory_mib,
        "everyday": score.everyday,
        "licence": score.licence,
    }


def _in_words(row: Row) -> Row:
    unknown = "not measured"
    return {
        "model": row["model"],
        "here": f"{row['bytes'] / 1e6:.0f} MB ({row['state']})" if row["bytes"] else "no",
        "download": f"{row['download_bytes'] / 1e6:.0f} MB",
        "memory": f"{row['memory_mib']} MiB" if row["memory_mib"] else unknown,
        "everyday": f"{row['everyday']} of 100" if row["everyday"] else unknown,
        "licence": row["licence"],
    }


def get(name: ModelName, hub: Hub = _HUB) -> None:
    """Download a model, or the rest of it, and check its SHA-256."""
    _check_hub(hub)
    with _readable_errors():
        if (model := _find(name)) is None:
            echo(f"{BUNDLED} comes with the engine: {bundled_model()}")
            return
        target = stored_path(model)
    download = Download(model.url(hub), target, model.size, model.sha256, GGUF)
    try:
        if target.exists():
            _check(model, target)
            _discard_part(target)
        else:
            with _watch(model) as watcher:
                download.run(watcher)
    except DownloadRuns as error:
        fail(f"{error}; wait for it, or end it")
    except DownloadFailed as error:
        fail(f"{error}\n{_other_ways(model, hub, target)}")
    except KeyboardInterrupt:
        echo(f"stopped; `{command(f'models get {name}')}` continues", err=True)
        raise typer.Exit(INTERRUPTED) from None
    echo(f"{target}: {model.size / 1e6:.0f} MB, and the SHA-256 is right")
    echo(f"Use it: {command(f'up --model-path {name}')}")


def _check(model: PublishedModel, target: Path) -> None:
    """Check a file that is there, perhaps because somebody has copied it."""
    if target.stat().st_size != model.size or sha256_of(target) != model.sha256:
        again = (
            f"{command(f'models remove {model.name}')}, then {command(f'models get {model.name}')}"
        )
        fail(f"{target} is not the published file; run: {again}")


def _discard_part(target: Path) -> None:
    """Delete what an earlier download left. Raises DownloadRuns."""
    if not partial_path(target).exists():
        return
    try:
        with PartialFile(target) as part:
            part.discard()
    except OSError as error:
        fail(f"cannot delete {partial_path(target)}: {error.strerror}")


def _other_ways(model: PublishedModel, hub: str, target: Path) -> str:
    """What helps without internet, or behind a proxy."""
    return (
        f"Without internet, copy {without_password(model.url(hub))} to {target} by other means; the same "
        "command checks it then. HTTPS_PROXY names a proxy, and --hub a mirror of Hugging Face."
    )


@contextmanager
def _watch(model: PublishedModel) -> Iterator[Watcher]:
    """A bar on a terminal, else a line for each tenth."""
    console = Terminal(stderr=True, soft_wrap=True)
    if not console.is_terminal:
        yield _lines(model)
        return
    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console) as bar:
        task = bar.add_task(model.name, total=model.size)
        yield Watcher(lambda done: bar.update(task, completed=done), bar.console.print)


def _lines(model: PublishedModel) -> Watcher:
    shown = -1

    def progress(done: int) -> None:
        nonlocal shown
        if (step := done * _STEPS // model.size) > shown:
            shown = step
            echo(f"{done / 1e6:.0f} of {model.size / 1e6:.0f} MB", err=True)

    return Watcher(progress, lambda text: echo(text, err=True))


def remove(name: ModelName) -> None:
    """Delete a model, or the part of it that has been downloaded."""
    with _readable_errors():
        if (model := _find(name)) is None:
            fail(f"{BUNDLED} is the package of {WEIGHTS_COMMAND!r}; pip uninstalls it")
        target = stored_path(model)
        there = [one.name for one in PUBLISHED_MODELS if _bytes_here(one)]
    if name not in there:
        fail(f"{name} is not in {target.parent}; there is: {', '.join(there) or 'none'}")
    freed = _bytes_here(model)
    try:
        with PartialFile(target) as part:
            part.discard()
            target.unlink(missing_ok=True)
    except DownloadRuns as error:
        fail(f"{error}; end it first")
    except OSError as error:
        fail(f"cannot delete {target}: {error.strerror}")
    echo(f"deleted {name}: {freed / 1e6:.0f} MB")


def _bytes_here(model: PublishedModel) -> int:
    """What the model takes on the disk, finished or not."""
    target = stored_path(model)
    return sum(path.stat().st_size for path in (target, partial_path(target)) if path.exists())


def _find(name: str) -> PublishedModel | None:
    """None for the bundled model."""
    if name not in model_names():
        fail(f"there is no model {name}; the names are: {', '.join(model_names())}", status=2)
    return find_published(name)


def _check_hub(hub: str) -> None:
    parts = urlsplit(hub)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        fail(f"--hub {without_password(hub)} (HF_ENDPOINT): use an address like {_HUB}", status=2)


@contextmanager
def _readable_errors() -> Iterator[None]:
    try:
        yield
    except EngineLoadError as error:
        fail(str(error))


models = typer.Typer(cls=Group, no_args_is_help=True, add_completion=False)
models.command("list", cls=Command)(list_models)
for _action in (get, remove):
    models.command(cls=Command)(_action)
