"""Limits on logins by password, because the check of a password takes a third of a second of processor time.

Attempts are counted by client address. A browser that has logged in before is counted by its signed cookie instead. An
attacker is therefore limited at its own address only. Operators can log in from every other address, and from the
attacker's address with a known browser. Counters are kept per API process.
"""

from __future__ import annotations

import ipaddress
import math
import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.core import signing
from django.http import HttpRequest, HttpResponse

from apps.api.auditing import note_failed_login
from apps.api.clock import ticks
from apps.api.error_mapping import respond
from controlplane.apimachinery.errors import TooManyRequests

AT_ONCE = 2  # passwords checked at the same time for unknown browsers, and the same number for known browsers
MAX_COUNTED = 10_000  # addresses and browsers with a counter; the oldest attempts are forgotten first
COOKIE = "lifeboat_browser"
COOKIE_SECONDS = 90 * 86_400
SHOWN_AGAIN = 200  # the page with the form: the login failed
_SALT = "apps.api.login_throttle"


class Attempts:
    """A token bucket for each key. `now` is in seconds of a monotonic clock."""

    def __init__(self, *, burst: int, seconds_each: float, most: int) -> None:
        self.burst = burst
        self.seconds_each = seconds_each
        self.most = most
        self._empty_at: OrderedDict[str, float] = OrderedDict()  # when all attempts of a key are allowed again

    def wait(self, key: str, *, now: float) -> float:
        """Return 0 and count the attempt, or return the seconds until an attempt is allowed and count nothing."""
        if wait := self.wait_of(key, now=now):
            return wait
        self._empty_at[key] = max(self._empty_at.get(key, now), now) + self.seconds_each
        self._empty_at.move_to_end(key)
        if len(self._empty_at) > self.most:
            self._empty_at.popitem(last=False)
        return 0.0

    def wait_of(self, key: str, *, now: float) -> float:
        """Return the seconds until an attempt is allowed; 0: it is allowed now. Counts nothing."""
        full_again = max(self._empty_at.get(key, now), now) + self.seconds_each
        return max(0.0, full_again - now - self.burst * self.seconds_each)


class LoginThrottle:
    """The counters of one process. May be used from any thread."""

    def __init__(self) -> None:
        per_minute = settings.LOGINS_PER_MINUTE
        self._attempts = Attempts(burst=per_minute, seconds_each=60 / per_minute, most=MAX_COUNTED)
        self._lock = threading.Lock()
        self._checking = {True: threading.Semaphore(AT_ONCE), False: threading.Semaphore(AT_ONCE)}

    def answer(self, request: HttpRequest, log_in: Callable[[], Any]) -> Any:
        """Return the answer of `log_in`, or 429 without calling it.

        That is if this browser (without one, this address) has to wait, or too many logins are checked now.
        """
        browser = browser_of(request)
        key = f"browser {browser}" if browser else f"address {address_of(request)}"
        with self._lock:
            wait = self._attempts.wait(key, now=ticks())
        if wait:
            return _refused(f"too many logins from this {key.split()[0]}", wait)
        slot = self._checking[bool(browser)]
        if not slot.acquire(blocking=False):
            return _refused("too many logins at the same time", 1)
        try:
            return log_in()
        finally:
            slot.release()


def throttled(view: Callable[..., Any]) -> Callable[..., Any]:
    """Return a login view with limited attempts. After a login it sets the cookie of a known browser.

    A login that fails is recorded.
    """

    def limited(request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        if request.method != "POST":
            return view(request, *args, **kwargs)
        response = _throttle.answer(request, lambda: view(request, *args, **kwargs))
        if request.user.is_authenticated and response.status_code == 302:
            _remember(request, response)
        elif response.status_code == SHOWN_AGAIN:
            note_failed_login(request.POST.get("username", ""))
        return response

    return limited


_throttle = LoginThrottle()


def limited(request: HttpRequest, log_in: Callable[[], Any]) -> Any:
    """Return the answer of a step of a login that is not by password, or 429 if its address has to wait."""
    return _throttle.answer(request, log_in)


def browser_of(request: HttpRequest) -> str:
    """Return the id in the cookie of a known browser.

    "": the browser has no such cookie, or the user named in the login form has not logged in with this browser.
    """
    try:
        name, browser = signing.loads(request.COOKIES.get(COOKIE, ""), salt=_SALT, max_age=COOKIE_SECONDS)
    except (signing.BadSignature, ValueError, TypeError):
        return ""
    return str(browser) if name == request.POST.get("username") else ""


def address_of(request: HttpRequest) -> str:
    """Return the address of the client. For IPv6 it is the /64 network, which usually belongs to a single client."""
    text = request.META.get("REMOTE_ADDR", "")
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return text
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is None:
        return str(ipaddress.ip_network((address, 64), strict=False))
    return str(getattr(address, "ipv4_mapped", None) or address)


def _remember(request: HttpRequest, response: HttpResponse) -> None:
    """Set the cookie that makes this browser known."""
    browser = browser_of(request) or secrets.token_urlsafe(16)
    response.set_cookie(
        COOKIE,
        signing.dumps([request.user.get_username(), browser], salt=_SALT),
        max_age=COOKIE_SECONDS,
        secure=settings.SESSION_COOKIE_SECURE,
        httponly=True,
        samesite="Lax",
    )


def _refused(why: str, wait: float) -> HttpResponse:
    seconds = math.ceil(wait)
    return respond(TooManyRequests(f"{why}; try again in {seconds} s", retry_after_seconds=seconds))
