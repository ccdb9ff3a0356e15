"""What all services do with their process."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from antiphon.broker.service.process import first_of
from support.fork_server import run_main
from support.processes import without_settings

PROGRAM = """
import gc, weakref
from antiphon.broker.service.process import freeze_heap

class Node: pass

def cycle():
    node = Node()
    node.itself = node
    return weakref.ref(node)

before = cycle()
freeze_heap()
assert before() is None, "garbage is collected, not kept for ever"
assert gc.get_freeze_count() > 10_000
assert len(gc.get_objects()) < 1000
after = cycle()
gc.collect()
assert after() is None, "later garbage is collected as before"
"""

OPEN_FILES = """
import resource
from antiphon.broker.service.process import allow_open_files

resource.setrlimit(resource.RLIMIT_NOFILE, (256, 2000))
allow_open_files()
assert resource.getrlimit(resource.RLIMIT_NOFILE) == (2000, 2000)
"""


def test_a_frozen_heap_is_not_visited_again() -> None:
    subprocess.run([sys.executable, "-c", PROGRAM], check=True, timeout=60)


def test_a_service_may_open_as_many_files_as_the_system_allows() -> None:
    subprocess.run([sys.executable, "-c", OPEN_FILES], check=True, timeout=60)


async def test_the_first_to_end_ends_the_others() -> None:
    over, endless = asyncio.Event(), asyncio.ensure_future(asyncio.Event().wait())

    async def fail() -> None:
        await over.wait()
        raise ValueError("failed")

    asyncio.get_running_loop().call_soon(over.set)
    with pytest.raises(ValueError, match="failed"):
        await first_of(fail(), endless)
    assert endless.cancelled()
    await first_of(over.wait(), asyncio.Event().wait())


SERVICES = {
    "edge": "edge",
    "inference_worker": "worker",
    "recorder_service": "recorder",
    "cleanup_job": "cleanup",
}


@pytest.mark.parametrize(
    ("module", "arguments"),
    [
        *((module, ("--dry-run",)) for module in SERVICES),
        *(("cleanup_job", arguments) for arguments in (("--help",), ("--once", "extra"), ("",))),
    ],
)
def test_a_module_starts_no_service_with_arguments(
    module: str, arguments: tuple[str, ...], tmp_path: Path
) -> None:
    """A cleanup that ignores `--dry-run` deletes."""
    asked = run_main(
        f"antiphon.{module}.__main__", *arguments, folder=tmp_path, environment=without_settings()
    )
    shown = asked.stdout if "--help" in arguments else asked.stderr
    assert asked.returncode == (0 if "--help" in arguments else 2)
    assert f"`python -m antiphon.{module}` takes no arguments" in shown
    assert f"`antiphon {SERVICES[module]}` has flags" in shown
    assert "docs/configuration.md" in shown
    assert list(tmp_path.iterdir()) == []
