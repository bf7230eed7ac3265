"""Files and folders that only their owner can read."""

import os
import stat
import tempfile
from pathlib import Path

from apps.development.supervise.errors import SuperviseError

MARK = "created-by-lifeboat"  # a folder without this file is never removed


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner can read. It is replaced as a whole."""
    descriptor, temporary = tempfile.mkstemp(dir=path.parent)  # mkstemp gives it mode 0600
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    os.replace(temporary, path)


def private_folder(path: Path, *, owner: int, home: Path) -> Path:
    """Create or check a folder of mode 0700 that belongs to `owner` (a uid), for the run in `home`.

    A folder that was begun by a process that was killed is completed. Raises SuperviseError if another user created it:
    in /tmp every user may create a folder or link of that name.
    """
    if not path.is_symlink() and not path.exists():
        path.mkdir(mode=0o700)
    if _is_begun(path):
        (path / MARK).write_text(str(home))
        if owner != os.getuid():
            os.chown(path, owner, -1)
    if not _is_private(path, owner):
        raise SuperviseError(
            f"{path} is not a folder of mode 0700 owned by uid {owner}: remove it, or use another --dir"
        )
    return path


def _is_begun(path: Path) -> bool:
    """Test whether a folder is one of ours that holds nothing but its mark yet."""
    return _is_private(path, os.getuid()) and all(name == MARK for name in os.listdir(path))


def _is_private(path: Path, owner: int) -> bool:
    """Test whether a path is a folder, and no link to one, that only its owner can read."""
    found = path.lstat()
    return stat.S_ISDIR(found.st_mode) and found.st_uid == owner and not stat.S_IMODE(found.st_mode) & 0o077
