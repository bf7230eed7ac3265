"""The schema for which a private database was last prepared. If it is current, processes start without waiting.

`prepare` migrates at every start anyway. This only decides whether other processes may start at the same time.
"""

import hashlib

from apps.development.supervise.lifetime import PROJECT
from apps.development.supervise.private import write_private
from apps.development.supervise.run_folder import RunFolder


def wanted() -> str:
    """Return a digest of the schema that the code needs: our migrations, and the pinned versions of libraries."""
    digest = hashlib.sha256()
    for path in (PROJECT / "requirements.txt", *sorted(PROJECT.glob("apps/*/migrations/*.py"))):
        digest.update(f"{path.relative_to(PROJECT)}\0{len(path.read_bytes())}\0".encode() + path.read_bytes())
    return digest.hexdigest()


def is_current(home: RunFolder, data: str | None) -> bool:
    """Test whether the database was prepared for this code.

    data: the name of the data, from `Services.data`. None: the database is that of DATABASE_URL, which is never
    current, because others may change it.
    """
    file = home.run / "shape"
    return data is not None and file.exists() and file.read_text() == f"{wanted()} {data}"


def remember(home: RunFolder, data: str | None) -> None:
    """Store that the database is prepared for this code."""
    if data is not None:
        write_private(home.run / "shape", f"{wanted()} {data}")
