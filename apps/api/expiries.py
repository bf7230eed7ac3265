"""Expiries: when the credentials for clusters expire, read from the Secrets of Push members and the tokens of agents.

A token of a member has an expiry if it is a JSON Web Token. The Secret of a cluster is decrypted again only if it has
changed. Neither tokens nor keys are kept.
"""

from __future__ import annotations

import base64
import binascii
import threading
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import orjson
from cryptography import x509
from django.db import connection

from apps.api.models import Token
from apps.objects.store import store
from controlplane.apimachinery.meta import Ref
from controlplane.apimachinery.unopened import holds_unopened
from controlplane.clusters.questions import endpoint_of
from controlplane.insight.situation import Expiry
from controlplane.kinds.cluster import Cluster

_VERSIONS: Final = """
    SELECT o.namespace, o.name, o.resource_version FROM unnest(%s::text[], %s::text[]) AS w(namespace, name)
    JOIN objects_object o ON o.kind = 'Secret' AND o.namespace = w.namespace AND o.name = w.name"""

# An earlier token of an agent is replaced by its latest.
_OF_AGENTS: Final = f"""
    SELECT cluster_uid, max(expires) FROM {Token._meta.db_table}
    WHERE cluster_uid = ANY(%s) AND expires IS NOT NULL GROUP BY cluster_uid"""


class Expiries:
    """The expiries as this process has read them last. May be used from any thread."""

    def __init__(self) -> None:
        self._known: dict[Ref, tuple[int, tuple[tuple[str, datetime], ...]]] = {}
        self._lock = threading.Lock()

    def read(self, clusters: Sequence[Cluster]) -> list[Expiry]:
        """Return the expiries of clusters. Three queries, of which the second reads only Secrets that have changed."""
        refs = {
            one.metadata.name: Ref("Secret", one.spec.secret_ref.namespace, one.spec.secret_ref.name)
            for one in clusters
            if one.spec.secret_ref is not None
        }
        versions = _versions(sorted(set(refs.values())))
        with self._lock:
            known = {ref: entry for ref, entry in self._known.items() if versions.get(ref) == entry[0]}
        changed = [ref for ref in versions if ref not in known]
        subjects = {refs[one.metadata.name]: one for one in clusters if one.metadata.name in refs}
        for ref, secret in store().get(changed, unopened=True).items():
            known[ref] = versions[ref], tuple(_of_member(subjects[ref], secret))
        with self._lock:
            self._known = known
        found = [Expiry(name, *one) for name, ref in refs.items() for one in known.get(ref, (0, ()))[1]]
        return [*found, *_of_agents(clusters)]


def _versions(refs: Sequence[Ref]) -> dict[Ref, int]:
    with connection.cursor() as cursor:
        cursor.execute(_VERSIONS, ([ref.namespace for ref in refs], [ref.name for ref in refs]))
        return {Ref("Secret", namespace, name): version for namespace, name, version in cursor.fetchall()}


def _of_member(cluster: Cluster, secret: Any) -> Iterator[tuple[str, datetime]]:
    if holds_unopened(secret.content):
        return  # its encryption key is lost: nothing is known of it, and of the fleet as much as before
    target = endpoint_of(cluster, secret)
    if (at := token_expiry(target.token)) is not None:
        yield "token", at
    if (at := certificate_expiry(target.ca)) is not None:
        yield "certificate", at


def _of_agents(clusters: Iterable[Cluster]) -> Iterator[Expiry]:
    names = {one.metadata.uid: one.metadata.name for one in clusters}
    with connection.cursor() as cursor:
        cursor.execute(_OF_AGENTS, (list(names),))
        for uid, at in cursor.fetchall():
            yield Expiry(names[uid], "token of the agent", at)


def token_expiry(token: str) -> datetime | None:
    """Return when a JSON Web Token expires; None: it does not, or the token is of another kind."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        claims = orjson.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
        return datetime.fromtimestamp(claims["exp"], UTC)
    except (binascii.Error, ValueError, KeyError, TypeError, OverflowError):
        return None


def certificate_expiry(pem: str) -> datetime | None:
    """Return when the first certificate of a bundle expires that does; None: there is none that can be read."""
    try:
        found = x509.load_pem_x509_certificates(pem.encode())
    except ValueError:
        return None
    return min((one.not_valid_after_utc for one in found), default=None)


EXPIRIES: Final = Expiries()
