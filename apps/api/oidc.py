"""Tokens of an OpenID Connect provider: JSON Web Tokens that it has signed (LIFEBOAT_OIDC_ISSUER).

They are the bearer tokens of clients. A browser gets one by the login of `apps/api/oidc_login.py`.

The keys of the provider are read by a thread of their own, regularly and when a token names an unknown key. A request
never waits for the provider, so a provider that hangs delays no user, and tokens of known keys go on to be valid.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import logging
import ssl
import threading
import time
import urllib.request
from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import jwt
from django.conf import settings

from apps.api.client_certificates import UNTIL
from apps.api.clock import ticks
from apps.api.identity import Identity
from controlplane.authorization.attributes import AUTHENTICATED, CREDENTIAL_ID, Caller

log = logging.getLogger(__name__)

ALGORITHMS: Final = ("RS256", "ES256")
REFRESH_SECONDS: Final = 300.0
UNKNOWN_SECONDS: Final = 2.0  # between two readings because of tokens with unknown keys
ANSWER_SECONDS: Final = 5.0  # for the answer of the provider
MOST_BYTES: Final = 1 << 20
LEEWAY_SECONDS: Final = 10  # clocks differ
RESERVED: Final = "system:"  # no name or group of a provider begins with this


class TokenUser(NamedTuple):
    """The user of a token, and the key of the login for streams, which ends with the digest of the user's subject."""

    user: Identity
    key: str


class Unreadable(Exception):
    """The provider does not answer, or not with what OpenID Connect requires. The message says what is wrong."""


class Endpoints(NamedTuple):
    """Addresses of the provider for logins of browsers. `end_session` "": it cannot be logged out of."""

    authorization: str
    token: str
    end_session: str


class Provider:
    """The provider of LIFEBOAT_OIDC_ISSUER and its keys. May be used from any thread."""

    def __init__(self) -> None:
        self.endpoints: Endpoints | None = None  # None: not read yet, or the provider has none
        self._keys: Mapping[str, jwt.PyJWK] = {}
        self._asked = threading.Event()
        self._stopping = threading.Event()
        self._read_at = -UNKNOWN_SECONDS
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Read the keys now and regularly, if a provider is configured."""
        if settings.OIDC_ISSUER:
            self._thread = threading.Thread(target=self._run, name="oidc", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """End the thread. It is not waited for, because the provider may hang."""
        self._stopping.set()
        self._asked.set()

    def find(self, token: str) -> TokenUser | None:
        """Return the user of a token; None: the token is not valid, or its key is not known yet."""
        try:
            key = self._keys.get(str(jwt.get_unverified_header(token).get("kid", "")))
            if key is None:
                self._asked.set()
                return None
            claims = _verified(token, key, audience=settings.OIDC_AUDIENCE)
        except jwt.PyJWTError:
            return None
        return _login(claims, token)

    def claims_for_browser(self, token: str) -> dict[str, Any]:
        """Return the verified claims of an ID token that is for the client of browsers. Raises PyJWTError."""
        key = self._keys.get(str(jwt.get_unverified_header(token).get("kid", "")))
        if key is None:
            self._asked.set()
            raise jwt.InvalidKeyError("its signing key is not known yet; log in again in a moment")
        return _verified(token, key, audience=settings.OIDC_CLIENT_ID)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                document = _configuration(settings.OIDC_ISSUER)
                self.endpoints = _endpoints(document)
                self._keys = _keys_of(document)
            except (Unreadable, OSError, ValueError, jwt.PyJWTError) as error:
                log.warning("the keys of the OpenID provider cannot be read: %s: %s", type(error).__name__, error)
            self._read_at = ticks()
            self._asked.wait(REFRESH_SECONDS)
            self._stopping.wait(max(0.0, self._read_at + UNKNOWN_SECONDS - ticks()))
            self._asked.clear()


PROVIDER = Provider()


def is_one(secret: str) -> bool:
    """Test whether a bearer token has the form of a JSON Web Token, and a provider is configured."""
    return bool(settings.OIDC_ISSUER) and secret.count(".") == 2


def _verified(token: str, key: jwt.PyJWK, *, audience: str) -> dict[str, Any]:
    """Return the claims of a token. Raises PyJWTError unless it is signed, in time, of the issuer and for us."""
    claims: dict[str, Any] = jwt.decode(
        token,
        key,
        algorithms=list(ALGORITHMS),
        audience=audience,
        issuer=settings.OIDC_ISSUER,
        leeway=LEEWAY_SECONDS,
        options={"require": ["exp", "iss", "aud"]},
    )
    return claims


def _login(claims: Mapping[str, Any], token: str) -> TokenUser | None:
    """Return the login of verified claims; None: a required claim is missing, or the name is not allowed."""
    caller = caller_of_claims(claims)
    if caller is None:
        return None
    digests = (hashlib.sha256(text.encode()).hexdigest() for text in (token, caller.uid))
    return TokenUser(Identity(caller), ":".join((f"{UNTIL}{int(claims['exp'])}", *digests)))


def caller_of_claims(claims: Mapping[str, Any]) -> Caller | None:
    """Return the user of verified claims with its groups; None: a claim is missing, or the name is not allowed.

    None as well if a claim that is used is no Unicode text, as "\\ud800" of JSON: it could be stored nowhere.
    """
    if any(str(claims.get(name, "")) != value for name, value in settings.OIDC_REQUIRED_CLAIMS.items()):
        return None
    if settings.OIDC_USERNAME_CLAIM == "email" and claims.get("email_verified", True) is not True:
        return None
    name = claims.get(settings.OIDC_USERNAME_CLAIM)
    username = f"{settings.OIDC_USERNAME_PREFIX}{name}"
    if not isinstance(name, str) or not name or username.startswith(RESERVED):
        return None
    listed = claims.get(settings.OIDC_GROUPS_CLAIM) if settings.OIDC_GROUPS_CLAIM else None
    given = [listed] if isinstance(listed, str) else listed if isinstance(listed, list) else []
    groups = [f"{settings.OIDC_GROUPS_PREFIX}{group}" for group in given if isinstance(group, str) and group]
    allowed = [group for group in dict.fromkeys(groups) if not group.startswith(RESERVED)]
    identifier = claims.get("jti")
    extra = {CREDENTIAL_ID: (f"JTI={identifier}",)} if isinstance(identifier, str) else {}
    uid = str(claims.get("sub", ""))
    if not _is_unicode("".join((username, *allowed, uid, str(identifier)))):
        return None
    return Caller(username, (*allowed, AUTHENTICATED), uid, extra)


def _is_unicode(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _configuration(issuer: str) -> dict[str, Any]:
    """Return the configuration of a provider. Raises Unreadable, OSError, ValueError."""
    document = document_at(f"{issuer.rstrip('/')}/.well-known/openid-configuration")
    if document.get("issuer") != issuer:
        raise Unreadable(f"its configuration is that of the issuer {document.get('issuer')!r}")
    return document


def _endpoints(document: Mapping[str, Any]) -> Endpoints | None:
    """Return the addresses for browsers. Those with another scheme than the issuer do not count."""
    names = ("authorization_endpoint", "token_endpoint", "end_session_endpoint")
    scheme = urlsplit(settings.OIDC_ISSUER).scheme
    given = (str(document.get(name) or "") for name in names)
    found = Endpoints(*(address if urlsplit(address).scheme == scheme else "" for address in given))
    return found if found.authorization and found.token else None


def _keys_of(document: Mapping[str, Any]) -> dict[str, jwt.PyJWK]:
    """Return the signing keys of a provider by their ids. Raises Unreadable, OSError, ValueError, PyJWTError."""
    address = str(document.get("jwks_uri", ""))
    if urlsplit(address).scheme != urlsplit(settings.OIDC_ISSUER).scheme:
        raise Unreadable("the address of its keys has another scheme than the issuer")
    found, keys = {}, document_at(address).get("keys")
    for key in keys if isinstance(keys, list) else ():
        if isinstance(key, dict) and key.get("kid") and key.get("use", "sig") == "sig" and _algorithm(key):
            found[str(key["kid"])] = jwt.PyJWK(key, algorithm=_algorithm(key))
    if not found:
        raise Unreadable(f"it has no key for {' or '.join(ALGORITHMS)}")
    return found


def _algorithm(key: Mapping[str, Any]) -> str:
    """Return the algorithm of a public key. "": the key is for none that is accepted."""
    by_type = {"RSA": "RS256", "EC": "ES256" if key.get("crv") == "P-256" else ""}
    algorithm = by_type.get(str(key.get("kty")), "")
    return algorithm if key.get("alg", algorithm) == algorithm else ""


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *arguments: Any, **more: Any) -> None:
        return None


def document_at(address: str, *, body: bytes | None = None, headers: Mapping[str, str] = {}) -> dict[str, Any]:
    """Return a JSON object of the provider. `body`: a form that is posted; None: it is a GET.

    Redirects are not followed. Raises OSError, ValueError, Unreadable.
    """
    try:
        document = json.loads(_body_at(address, body=body, headers=headers))
    except http.client.HTTPException as error:  # what was sent is no HTTP, or ends too early
        raise Unreadable(f"its answer is not valid: {type(error).__name__}") from error
    if not isinstance(document, dict):
        raise Unreadable("its answer is not a JSON object")
    return document


def _body_at(address: str, *, body: bytes | None, headers: Mapping[str, str]) -> bytes:
    context = ssl.create_default_context(cafile=settings.OIDC_CA_FILE or None)
    handlers = (urllib.request.HTTPSHandler(context=context), _NoRedirects(), urllib.request.ProxyHandler({}))
    ends = time.monotonic() + ANSWER_SECONDS
    request = urllib.request.Request(address, data=body, headers={"Accept": "application/json", **headers})
    with urllib.request.build_opener(*handlers).open(request, timeout=ANSWER_SECONDS) as response:
        parts, size = [], 0
        while part := response.read1(65536):
            parts.append(part)
            size += len(part)
            if size > MOST_BYTES or time.monotonic() > ends:
                raise Unreadable(f"its answer has more than {MOST_BYTES} bytes, or is slow")
    return b"".join(parts)
