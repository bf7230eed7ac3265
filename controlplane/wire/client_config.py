"""The address of a webhook of users (clientConfig): of admission, conversion and interpreter webhooks."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Any, Final

from controlplane.apimachinery import causes
from controlplane.apimachinery.errors import Cause

ONE_ADDRESS: Final = "exactly one of url or service is required"
_URL = re.compile(
    r"(?P<scheme>[a-z][a-z0-9+.-]*)://(?:(?P<user>[^/?#]*)@)?(?P<host>[^/?#]*)[^?#]*"
    r"(?P<query>\?[^#]*)?(?P<fragment>#.*)?"
)
_PARTS: Final = {"user": "user information is", "fragment": "fragments are", "query": "query parameters are"}


def client_causes(value: Mapping[str, Any], at: str) -> list[Cause]:
    """Return the causes to refuse the address of a webhook: a URL or a Service, with an authority."""
    out: list[Cause] = []
    url, service = value.get("url"), value.get("service")
    if (url is None) == (service is None):
        out.append(causes.required(at, ONE_ADDRESS))
    elif url is not None:
        out.extend(url_causes(url, f"{at}.url"))
    else:
        _service(service or {}, f"{at}.service", out)
    out.extend(bundle_causes(value.get("caBundle"), f"{at}.caBundle"))
    return out


def _service(value: Mapping[str, Any], at: str, out: list[Cause]) -> None:
    out.extend(causes.required(f"{at}.{field}") for field in ("name", "namespace") if not value.get(field))
    path, port = value.get("path"), value.get("port")
    if path is not None and not path.startswith("/"):
        out.append(causes.invalid(f"{at}.path", path, "must start with a '/'"))
    if port is not None and not 1 <= port <= 65535:
        out.append(causes.invalid(f"{at}.port", port, "port is not valid: must be between 1 and 65535, inclusive"))


def url_causes(url: str, at: str) -> list[Cause]:
    """Return the causes to refuse the URL of a webhook."""
    parts, form = _URL.fullmatch(url), "desired format: https://host[/path]"
    out: list[Cause] = []
    if parts is None or parts["scheme"] != "https":
        scheme = "" if parts is None else parts["scheme"]
        out.append(causes.invalid(at, scheme, f"'https' is the only allowed URL scheme; {form}"))
    if parts is None or not parts["host"]:
        out.append(causes.invalid(at, "", f"host must be specified; {form}"))
    for part, words in _PARTS.items():
        if parts is not None and parts[part]:
            out.append(causes.invalid(at, parts[part].lstrip("?#"), f"{words} not permitted in the URL"))
    return out


def bundle_causes(bundle: str | None, at: str) -> list[Cause]:
    """Return the causes to refuse the authorities of a webhook's certificate. None and empty: the authorities that the
    system trusts."""
    try:
        pem = base64.b64decode(bundle or "", validate=True)
    except (binascii.Error, ValueError):
        pem = b""
    valid = not bundle or b"-----BEGIN CERTIFICATE-----" in pem
    return [] if valid else [causes.invalid(at, "…", "must be PEM certificates in base64")]
