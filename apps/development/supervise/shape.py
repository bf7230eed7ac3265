"""The shape a private database was last prepared for: while the code wants no other, no process waits for migrations.

`prepare` migrates at every start all the same; this only says who may start beside it.
"""

import hashlib

from apps.development.supervise.lifetime import PROJECT
from apps.development.supervise.private import write_private
from apps.development.supervise.run_folder import Home


def wanted() -> str:
    """Return the shape the code as it stands wants: our migrations, and those that come with the pinned libraries."""
    digest = hashlib.sha256()
    for path in (PROJECT / "requirements.txt", *sorted(PROJECT.glob("apps/*/migrations/*.py"))):
        digest.update(f"{path.relative_to(PROJECT)}\0{len(path.read_bytes())}\0".encode() + path.read_bytes())
    return digest.hexdigest()


def is_current(home: Home, data: str | None) -> bool:
    """Return whether the database was prepared for this very code; one that others keep is never taken to be.

    data: which data it is, from `Services.data`; None where DATABASE_URL named the database.
    """
    file = home.run / "shape"
    return data is not None and file.exists() and file.read_text() == f"{wanted()} {data}"


def remember(home: Home, data: str | None) -> None:
    """Keep that the database is prepared for this code."""
    if data is not None:
        write_private(home.run / "shape", f"{wanted()} {data}")
