"""Login of a browser at an OpenID provider: authorization code with PKCE (LIFEBOAT_OIDC_CLIENT_ID).

The way there is kept in a signed cookie of the browser: state, nonce, code verifier, and the page that was wanted.
Authlib writes and reads the messages of OAuth 2 and checks the claims of OpenID Connect. Signature, issuer, audience
and time of the ID token are verified as those of bearer tokens.
"""

from __future__ import annotations

import base64
import logging
from typing import Any, Final
from urllib.error import HTTPError
from urllib.parse import quote, urlencode

import jwt
from authlib.common.errors import AuthlibBaseError
from authlib.common.security import generate_token
from authlib.oauth2.rfc6749.parameters import (
    parse_authorization_code_response,
    prepare_grant_uri,
    prepare_token_request,
)
from authlib.oauth2.rfc7636 import create_s256_code_challenge
from authlib.oidc.core import CodeIDToken
from django.conf import settings
from django.contrib import auth
from django.contrib.auth.views import LoginView
from django.core import signing
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.utils.http import url_has_allowed_host_and_scheme
from joserfc.errors import JoseError

from apps.api import oidc_users
from apps.api.login_throttle import limited
from apps.api.oidc import LEEWAY_SECONDS, PROVIDER, Endpoints, Unreadable, caller_of_claims, document_at

log = logging.getLogger(__name__)

PATH: Final = "/login/oidc"
COOKIE: Final = "lifeboat_oidc"
WAY_SECONDS: Final = 600  # from the first step of a login to its last
_SALT: Final = "apps.api.oidc_login"
_BACKEND: Final = "django.contrib.auth.backends.ModelBackend"


class Refused(Exception):
    """The login has failed. The message is shown to the user."""


class PasswordLogin(LoginView):
    """The page with the form of the login by password, and the button of the provider if there is one."""

    template_name = "api/login.html"

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        return {**super().get_context_data(**kwargs), **_button(self.get_redirect_url())}


def begin(request: HttpRequest) -> HttpResponse:
    """Send the browser to the provider."""
    endpoints = _endpoints()
    if endpoints is None:
        return _failed(request, "the login at the provider is not set up, or the provider has not answered yet")
    way = {name: generate_token(48) for name in ("state", "nonce", "verifier")}
    way["next"] = _inside(request, request.GET.get("next", ""))
    address = prepare_grant_uri(
        endpoints.authorization,
        settings.OIDC_CLIENT_ID,
        "code",
        redirect_uri=_back(request),
        scope=settings.OIDC_SCOPES,
        state=way["state"],
        nonce=way["nonce"],
        code_challenge=create_s256_code_challenge(way["verifier"]),
        code_challenge_method="S256",
    )
    response = HttpResponseRedirect(address)
    response.set_cookie(
        COOKIE,
        signing.dumps(way, salt=_SALT),
        max_age=WAY_SECONDS,
        path=PATH,
        secure=settings.SESSION_COOKIE_SECURE,
        httponly=True,
        samesite="Lax",
    )
    return response


def callback(request: HttpRequest) -> HttpResponse:
    """Log the browser in that comes back from the provider. The attempts of an address are limited."""
    response: HttpResponse = limited(request, lambda: _come_back(request))
    response.delete_cookie(COOKIE, path=PATH)  # each way is gone once
    return response


def _come_back(request: HttpRequest) -> HttpResponse:
    try:
        way = _way(request)
        user = oidc_users.user_of(_caller(request, way))
    except (Refused, oidc_users.NotAllowed) as error:
        log.warning("a login at the OpenID provider was refused: %s", error)
        return _failed(request, str(error))
    auth.login(request, user, backend=_BACKEND)
    request.session.set_expiry(settings.OIDC_SESSION_HOURS * 3600)  # the groups are read again at the next login
    return HttpResponseRedirect(_inside(request, way["next"]))


def _way(request: HttpRequest) -> dict[str, str]:
    try:
        found: dict[str, str] = signing.loads(request.COOKIES.get(COOKIE, ""), salt=_SALT, max_age=WAY_SECONDS)
    except signing.BadSignature:
        raise Refused("this login was begun in another browser, or more than ten minutes ago; log in again") from None
    return found


def _caller(request: HttpRequest, way: dict[str, str]) -> Any:
    """Return the user whom the provider has authenticated. Raises Refused."""
    if error := request.GET.get("error"):
        raise Refused(f"the provider refuses the login: {request.GET.get('error_description') or error}")
    endpoints = _endpoints()
    if endpoints is None:
        raise Refused("the provider has not answered yet; log in again in a moment")
    try:
        code = parse_authorization_code_response(request.get_full_path(), state=way["state"])["code"]
        tokens = _tokens(endpoints, code, way["verifier"], back=_back(request))
        claims = PROVIDER.claims_for_browser(str(tokens.get("id_token", "")))
        options = {"nonce": way["nonce"], "client_id": settings.OIDC_CLIENT_ID}
        CodeIDToken(claims, {}, params=options).validate(leeway=LEEWAY_SECONDS)
    except (AuthlibBaseError, JoseError, jwt.PyJWTError) as error:
        raise Refused(f"the answer of the provider is not valid: {error}") from None
    except HTTPError as error:
        raise Refused(f"the provider gives no token for this login: it answers {error.code}") from None
    except (Unreadable, OSError, ValueError) as error:
        raise Refused(f"the provider does not answer: {error}") from None
    caller = caller_of_claims(claims)
    if caller is None:
        raise Refused("the provider does not name this user as Lifeboat requires it (name, required claims)")
    return caller


def _tokens(endpoints: Endpoints, code: str, verifier: str, *, back: str) -> dict[str, Any]:
    """Return what the provider gives for a code. Raises OSError, ValueError, Unreadable."""
    form = {"code": code, "code_verifier": verifier, "client_id": settings.OIDC_CLIENT_ID}
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    if settings.OIDC_CLIENT_SECRET:
        pair = f"{quote(settings.OIDC_CLIENT_ID, safe='')}:{quote(settings.OIDC_CLIENT_SECRET, safe='')}"
        headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
    body = prepare_token_request("authorization_code", redirect_uri=back, **form)
    return document_at(endpoints.token, body=body.encode(), headers=headers)


def _endpoints() -> Endpoints | None:
    return PROVIDER.endpoints if settings.OIDC_CLIENT_ID else None


def _back(request: HttpRequest) -> str:
    """Return the address to which the provider sends the browser. The provider has to know it."""
    return request.build_absolute_uri(f"{PATH}/callback")


def _inside(request: HttpRequest, wanted: str) -> str:
    """Return a page of this server, or / for every other address."""
    hosts = {request.get_host()}
    allowed = url_has_allowed_host_and_scheme(wanted, allowed_hosts=hosts, require_https=request.is_secure())
    return wanted if wanted and allowed else settings.LOGIN_REDIRECT_URL


def _button(wanted: str) -> dict[str, str]:
    """Return the variables of the login page: where the button of the provider leads. {}: there is no button."""
    if not settings.OIDC_CLIENT_ID:
        return {}
    ends = PROVIDER.endpoints.end_session if PROVIDER.endpoints else ""
    return {
        "provider_url": f"{PATH}?{urlencode({'next': wanted})}" if wanted else PATH,
        "provider": settings.OIDC_ISSUER,
        "provider_logout_url": f"{ends}?{urlencode({'client_id': settings.OIDC_CLIENT_ID})}" if ends else "",
    }


def _failed(request: HttpRequest, why: str) -> HttpResponse:
    shown = {"form": auth.forms.AuthenticationForm(request), "problem": why, "next": "", **_button("")}
    return render(request, "api/login.html", shown, status=403)
