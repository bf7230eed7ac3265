"""Bootstrap tokens: Secrets in kube-system with which a new member registers itself, as kubeadm defines them."""

from __future__ import annotations

import base64
import hmac
import json
import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from controlplane.apimachinery.meta import Ref, Struct
from controlplane.apimachinery.names import KUBE_SYSTEM_NAMESPACE
from controlplane.kinds import SECRET
from controlplane.kinds.template import Template, secret_data

TYPE: Final = "bootstrap.kubernetes.io/token"
NAME_PREFIX: Final = "bootstrap-token-"
USER_PREFIX: Final = "system:bootstrap:"
GROUP: Final = "system:bootstrappers"
SIGNATURE_PREFIX: Final = "jws-kubeconfig-"
KUBECONFIG: Final = "kubeconfig"
_TOKEN: Final = re.compile(r"([a-z0-9]{6})\.([a-z0-9]{16})")
_GROUP: Final = re.compile(rf"{GROUP}:[a-z0-9:-]{{0,255}}[a-z0-9]")


class BootstrapToken(Struct, frozen=True):
    """A bootstrap token. `expires` None: it is valid until its Secret is deleted."""

    id: str
    secret: str
    groups: tuple[str, ...]
    authenticates: bool
    signs: bool
    expires: datetime | None = None

    def has_secret(self, value: str) -> bool:
        """Test whether this is the secret part of the token. The test takes the same time wherever the two differ."""
        return hmac.compare_digest(self.secret.encode(), value.encode())

    def is_expired(self, now: datetime) -> bool:
        """Test whether the token has expired."""
        return self.expires is not None and self.expires <= now


def is_token_secret(secret: Template) -> bool:
    """Test whether a Secret is in kube-system and has the type of bootstrap tokens."""
    return secret.metadata.namespace == KUBE_SYSTEM_NAMESPACE and secret.content.get("type") == TYPE


def parts_of(token: str) -> tuple[str, str] | None:
    """Return the id and the secret of a bootstrap token; None: the text does not have the form of one."""
    found = _TOKEN.fullmatch(token)
    return None if found is None else (found[1], found[2])


def ref_of(token_id: str) -> Ref:
    """Return the reference to the Secret of a bootstrap token."""
    return Ref(SECRET, KUBE_SYSTEM_NAMESPACE, NAME_PREFIX + token_id)


def read(secret: Template) -> BootstrapToken | None:
    """Return the token in a Secret; None: the Secret is not a bootstrap token, or is not one that can be used.

    Raises ValueError if its expiration is not a time with a timezone; such a token counts as expired.
    """
    if not is_token_secret(secret):
        return None
    values = {key: secret_data.decoded(value) for key, value in secret_data.data_of(secret).items()}
    token_id, value = values.get("token-id", ""), values.get("token-secret", "")
    if secret.metadata.name != NAME_PREFIX + token_id or parts_of(f"{token_id}.{value}") is None:
        return None
    extra = [group.strip() for group in values.get("auth-extra-groups", "").split(",") if group.strip()]
    if not all(_GROUP.fullmatch(group) for group in extra):
        return None
    return BootstrapToken(
        token_id,
        value,
        tuple(dict.fromkeys((GROUP, *extra))),
        values.get("usage-bootstrap-authentication") == "true",
        values.get("usage-bootstrap-signing") == "true",
        _time(values["expiration"]) if values.get("expiration") else None,
    )


def usable(secret: Template, *, now: datetime) -> BootstrapToken | None:
    """Return the token in a Secret if its holder may log in with it now; None: the holder may not."""
    try:
        token = read(secret)
    except ValueError:
        return None
    if token is None or secret.metadata.deletion_timestamp is not None:
        return None
    return token if token.authenticates and not token.is_expired(now) else None


def signed(data: Mapping[str, Any], tokens: Iterable[BootstrapToken]) -> dict[str, Any]:
    """Return the data of the ConfigMap cluster-info with a signature of its kubeconfig by each token.

    With the signature, a holder of the token checks the address and the authority of the API before trusting either.
    Signatures of other tokens are removed.
    """
    kept = {key: value for key, value in data.items() if not key.startswith(SIGNATURE_PREFIX)}
    content = kept.get(KUBECONFIG)
    if not isinstance(content, str) or not content:
        return kept
    return kept | {SIGNATURE_PREFIX + token.id: signature(content, token) for token in tokens}


def signature(content: str, token: BootstrapToken) -> str:
    """Return the detached JSON Web Signature of a text (HS256, RFC 7515 appendix F): header..signature."""
    header = _encoded(json.dumps({"alg": "HS256", "kid": token.id}, separators=(",", ":")).encode())
    digest = hmac.digest(token.secret.encode(), f"{header}.{_encoded(content.encode())}".encode(), "sha256")
    return f"{header}..{_encoded(digest)}"


def _encoded(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _time(text: str) -> datetime:
    """Return a time with a timezone. Raises ValueError."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"{text} has no timezone")
    return moment
