"""Tokens of ServiceAccounts: makes them, and decides whether they are valid.

They end with the ServiceAccount, and with the object to which they are bound: when its deletion begins, because the
holder of a token may be able to set a finalizer. Requested tokens also expire. `controllers.token_secrets` issues a
token in a Secret, which is valid until the Secret is deleted.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from datetime import datetime, timedelta

from django.db import connection
from django.db.models.functions import Now

from apps.api.identity import Identity
from apps.api.last_use import LAST_USES
from apps.api.models import ServiceAccountToken
from apps.api.tokens import digest_of
from apps.objects.apply import binary_cursor
from controlplane.apimachinery.meta import Object, Ref
from controlplane.authorization.attributes import AUTHENTICATED, CREDENTIAL_ID, SERVICE_ACCOUNT, Caller

PREFIX = "lbsa_"  # distinguishes these tokens from those of users
AUDIENCE = "https://lifeboat"  # of tokens for this API; a token for another audience is refused here
BOUND_KINDS = ("Pod", "Secret")

# The requested token of a ServiceAccount that exists with the same uid, and whose bound object does. Or the token in a
# Secret that exists with the same uid. None of them is being deleted.
_VALID = """
    SELECT t.digest, t.namespace, t.name, t.account_uid, t.id::text, t.audiences
    FROM api_serviceaccounttoken t JOIN objects_object a
      ON a.kind = 'ServiceAccount' AND a.namespace = t.namespace AND a.name = t.name AND a.uid = t.account_uid
        AND a.deletion_timestamp IS NULL
    WHERE t.digest = ANY(%s) AND t.expires > now() AND (t.bound_kind = '' OR EXISTS (
        SELECT 1 FROM objects_object b WHERE b.kind = t.bound_kind AND b.namespace = t.namespace
          AND b.name = t.bound_name AND b.uid = t.bound_uid AND b.deletion_timestamp IS NULL))
    UNION ALL
    SELECT t.key, t.namespace, t.account, t.account_uid, t.secret_uid, NULL::text[]
    FROM resources_issuedtoken t
    JOIN objects_object a
      ON a.kind = 'ServiceAccount' AND a.namespace = t.namespace AND a.name = t.account AND a.uid = t.account_uid
        AND a.deletion_timestamp IS NULL
    JOIN objects_object s
      ON s.kind = 'Secret' AND s.namespace = t.namespace AND s.name = t.secret AND s.uid = t.secret_uid
        AND s.deletion_timestamp IS NULL
    WHERE t.key = ANY(%s)"""


def create(account: Object, *, audiences: Sequence[str], seconds: int, bound: Object | None, now: datetime) -> str:
    """Store a token of a ServiceAccount and return its secret, which cannot be read again.

    audiences: those who accept the token; empty: this API. bound: the object with which the token ends; None: it ends
    with the ServiceAccount. Tokens that have expired are removed at the same time.
    """
    ServiceAccountToken.objects.filter(expires__lt=Now()).delete()
    secret = PREFIX + secrets.token_urlsafe(32)
    ref = Ref("", "", "") if bound is None else bound.ref
    ServiceAccountToken.objects.create(
        digest=digest_of(secret),
        namespace=account.metadata.namespace,
        name=account.metadata.name,
        account_uid=account.metadata.uid,
        audiences=list(audiences) or [AUDIENCE],
        bound_kind=ref.kind,
        bound_name=ref.name,
        bound_uid="" if bound is None else bound.metadata.uid,
        expires=now + timedelta(seconds=seconds),
    )
    return secret


def find(secret: str, *, audiences: Sequence[str] = (AUDIENCE,)) -> Identity | None:
    """Return the ServiceAccount of a valid token for one of these audiences; None: the token is not valid."""
    with binary_cursor() as cursor:
        digests = [digest_of(secret)]
        row = cursor.run(_VALID, (digests, digests)).fetchone()
    if row is None or not set(row[5] or (AUDIENCE,)) & set(audiences):
        return None
    LAST_USES.note_token(digests[0])
    _, namespace, name, uid, credential, _ = row
    extra = {CREDENTIAL_ID: (f"JTI={credential}",)}
    return Identity(Caller(f"{SERVICE_ACCOUNT}{namespace}:{name}", groups_of(namespace), uid, extra))


def groups_of(namespace: str) -> tuple[str, ...]:
    """Return the groups of the ServiceAccounts of a namespace."""
    return ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", AUTHENTICATED)


def valid(digests: Sequence[str]) -> dict[str, bool]:
    """Return the valid tokens among these digests. False, in each: a ServiceAccount is no superuser of Django."""
    if not digests:
        return {}
    with connection.cursor() as cursor:
        cursor.execute(_VALID, [list(digests), list(digests)])
        return {row[0]: False for row in cursor.fetchall()}
