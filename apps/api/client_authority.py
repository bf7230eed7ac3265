"""The authority that signs client certificates: a Secret, so that every process of an installation has the same one."""

from __future__ import annotations

from apps.objects.store import DjangoStore
from apps.objects.writer import Author, Writer
from apps.worker.signing import new_authority
from controlplane.apimachinery.errors import AlreadyExists
from controlplane.controllers.signing_requests import AUTHORITY
from controlplane.kinds import KINDS
from controlplane.settings import Settings


def make_authority(store: DjangoStore) -> bool:
    """Create the Secret of the authority if it is missing; return whether it was.

    An administrator may replace it by an authority of another source: its keys are tls.crt and tls.key. One whose
    encryption key is lost stays, because the key may come back.
    """
    if AUTHORITY in store.get([AUTHORITY], unopened=True):
        return False
    made = new_authority()
    document = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"namespace": AUTHORITY.namespace, "name": AUTHORITY.name},
        "type": "kubernetes.io/tls",
        "stringData": {"tls.crt": made.certificate, "tls.key": made.key},
    }
    try:
        Writer(store, Settings(), Author("prepare", "Prepare")).create(KINDS[AUTHORITY.kind], document)
    except AlreadyExists:  # another process prepares the same database
        return False
    return True
