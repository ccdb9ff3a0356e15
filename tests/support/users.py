"""What a command finds in the folder of another user."""

import codecs
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_NOBODY = 65534


@contextmanager
def folder_of_another_user(folder: Path) -> Iterator[None]:
    """A new folder with sessions/ that this process may not enter until the block ends."""
    user = os.geteuid()
    (folder / "sessions").mkdir(parents=True)
    inherited = folder.parent.resolve()
    modes = {path: path.stat().st_mode for path in (inherited, *inherited.parents)}
    closed = [path for path, mode in modes.items() if mode & 0o011 != 0o011]
    for path in closed:
        path.chmod(modes[path] | 0o011)  # as in a home folder that others may pass
    folder.chmod(0)
    codecs.lookup("idna")  # sockets import it, and the other user may not read this Python
    try:
        if user == 0:
            os.seteuid(_NOBODY)
        yield
    finally:
        os.seteuid(user)
        folder.chmod(0o700)
        for path in closed:
            path.chmod(modes[path])
