"""The channels of notices: a webhook, and e-mail. Each sends one message with several notices, or raises an error."""

from __future__ import annotations

import http.client
import urllib.error
import urllib.request
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import urlsplit

import orjson
from django.conf import settings
from django.core.mail import EmailMessage, get_connection

from controlplane.kinds.rows import Notice

SECONDS: Final = 10.0  # for one message
TITLE: Final = "Lifeboat"


class NotSent(Exception):
    """A message was not accepted. The text names the host and the reason, never a credential."""


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        """Refuse every redirect: it would send the token to another host."""


def post(notices: Sequence[Notice]) -> None:
    """Post notices to the webhook as JSON. Raises NotSent unless the answer is 2xx."""
    document = {"title": title(notices), "text": text(notices), "notices": [_entry(one) for one in notices]}
    post_json(settings.NOTIFY_WEBHOOK, settings.NOTIFY_WEBHOOK_TOKEN, document)


def post_json(url: str, token: str, document: dict[str, Any]) -> None:
    """Post a document to a webhook. `token` "": without a login. Raises NotSent unless the answer is 2xx."""
    headers = {"Content-Type": "application/json", "User-Agent": "lifeboat"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    body = orjson.dumps(document)
    request = urllib.request.Request(url, data=body, method="POST", headers=headers)
    host = urlsplit(url).hostname
    try:
        with urllib.request.build_opener(_NoRedirects).open(request, timeout=SECONDS):
            pass
    except urllib.error.HTTPError as error:
        raise NotSent(f"{host} answered {error.code}") from error
    except OSError as error:
        raise NotSent(f"{host} did not answer: {_reason(error)}") from error
    except http.client.HTTPException as error:  # it may be the port of another server, or a proxy without its backend
        raise NotSent(f"{host} did not answer with HTTP: {type(error).__name__}") from error


def mail(notices: Sequence[Notice]) -> None:
    """Send notices by e-mail. Raises NotSent unless the server has accepted the message."""
    server = settings.NOTIFY_SMTP
    assert server is not None, "notices go by e-mail only if LIFEBOAT_NOTIFY_SMTP is set"
    connection = get_connection(
        "django.core.mail.backends.smtp.EmailBackend",
        host=server.host,
        port=server.port,
        username=server.user,
        password=server.password,
        use_tls=server.starttls,
        use_ssl=server.tls,
        timeout=SECONDS,
    )
    message = EmailMessage(
        title(notices), text(notices), settings.NOTIFY_FROM, settings.NOTIFY_EMAIL, connection=connection
    )
    try:
        message.send()
    except OSError as error:  # the errors of smtplib are OSErrors
        raise NotSent(f"{server.host} did not accept the message: {_reason(error)}") from error


def title(notices: Sequence[Notice]) -> str:
    """Return one line: the first of the worst notices, and how many others there are."""
    worst = min(notices, key=lambda one: ("critical", "warning", "info").index(one.severity))
    others = len(notices) - 1
    line = f"{TITLE}: {worst.topic} {worst.subject}" + (f" and {others} more" if others else "")
    return line.replace("\n", " ")


def text(notices: Sequence[Notice]) -> str:
    """Return a line for each notice."""
    lines = []
    for one in notices:
        at = "" if one.at is None else f"{one.at:%Y-%m-%d %H:%M:%S}Z "
        more = f" (and {one.count - 1} more)" if one.count > 1 else ""
        lines.append(f"{at}{one.severity}: {one.topic} {one.subject}: {one.text}{more}")
    return "\n".join(lines)


def _entry(one: Notice) -> dict[str, Any]:
    names = ("topic", "subject", "severity", "text", "count", "at")
    return {"id": one.key} | {name: getattr(one, name) for name in names}


def _reason(error: OSError) -> str:
    reason = getattr(error, "reason", None) or error
    return f"{type(reason).__name__}: {reason}"[:300]
