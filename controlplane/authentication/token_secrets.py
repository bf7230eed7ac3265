"""Token Secrets: a Secret of a ServiceAccount that holds a bearer token for as long as the Secret exists."""

from __future__ import annotations

import hashlib
from typing import Final

from controlplane.kinds.rows import IssuedToken
from controlplane.kinds.template import Template, secret_data, token_secret

NAMESPACE_KEY: Final = "namespace"
AUTHORITY_KEY: Final = "ca.crt"
TOKEN_KEY: Final = "token"


def digest_of(token: str) -> str:
    """Return the digest under which a bearer token is stored: its SHA-256, because a token has 256 random bits."""
    return hashlib.sha256(token.encode()).hexdigest()


def token_of(secret: Template) -> str:
    """Return the token that a Secret holds; "": it holds none, or a value that is not text."""
    return secret_data.text(secret, TOKEN_KEY)


def filled(secret: Template, account: Template, *, token: str, authority: str) -> Template:
    """Return a token Secret with the token, the namespace, the API's authority and the uid of its ServiceAccount.

    `authority` "": the key ca.crt is removed. Other keys of the Secret stay.
    """
    data = {
        **secret_data.data_of(secret),
        TOKEN_KEY: secret_data.encoded(token),
        NAMESPACE_KEY: secret_data.encoded(secret.metadata.namespace),
    }
    data.pop(AUTHORITY_KEY, None)
    if authority:
        data[AUTHORITY_KEY] = secret_data.encoded(authority)
    annotations = {**secret.metadata.annotations, token_secret.UID_ANNOTATION: account.metadata.uid}
    return secret.with_content({**secret.content, "data": data}).with_meta(annotations=annotations)


def issued(secret: Template, account: Template, *, token: str) -> IssuedToken:
    """Return the row by which the API finds the ServiceAccount of a token."""
    return IssuedToken(
        key=digest_of(token),
        namespace=secret.metadata.namespace,
        account=account.metadata.name,
        account_uid=account.metadata.uid,
        secret=secret.metadata.name,
        secret_uid=secret.metadata.uid,
        place=place_of(secret.metadata.namespace, secret.metadata.name),
    )


def place_of(namespace: str, name: str) -> str:
    """Return the value of the index `place` of an IssuedToken: the Secret that holds it."""
    return f"{namespace}/{name}"
