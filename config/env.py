"""Typed reads of environment variables. An invalid value stops the start, with the variable and an example."""

import base64
import os
import re
from collections.abc import Collection, Mapping
from difflib import get_close_matches
from ipaddress import ip_network
from typing import Final, NamedTuple
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

LEVELS: Final = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
_SHORT: Final = {"WARN": "WARNING", "FATAL": "CRITICAL"}
TRUE, FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off")


PREFIX: Final = "LIFEBOAT_"
# Variables that commands, the supervisor, docker/compose.yaml and tests read without this module.
ELSEWHERE: Final = frozenset(
    {
        "LIFEBOAT_ADMIN_NAME",
        "LIFEBOAT_ADMIN_PASSWORD",
        "LIFEBOAT_API_URL",
        "LIFEBOAT_POSTGRES_BIN",
        "LIFEBOAT_PROXIES",
        "LIFEBOAT_SUPERVISED",
        "LIFEBOAT_WRITE_QUERY_COUNTS",
        "LIFEBOAT_FUZZ_SEED",
        "LIFEBOAT_WRONG_TYPES",
    }
)
# Variables that Kubernetes sets in every pod for a Service whose name begins with "lifeboat".
_OF_A_SERVICE = re.compile(r"LIFEBOAT(_\w+)?_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_\w+)?)?)")
_read: set[str] = set()


class EnvironmentInvalid(Exception):
    """A variable of the environment is missing or cannot be read."""


def names_read() -> frozenset[str]:
    """Return the variables that the functions of this module have read."""
    return frozenset(_read)


def refuse_unknown(environ: Mapping[str, str], known: Collection[str]) -> None:
    """Refuse variables that begin with LIFEBOAT_ and are not read: most are misspelled and would be ignored.

    `known`: variables that are read elsewhere. Those that this module has read are known as well. Raises
    EnvironmentInvalid, which names the variable and the most similar known one.
    """
    names = {item for item in _read | set(known) | ELSEWHERE if item.startswith(PREFIX)}
    for name in sorted(environ):
        if name.startswith(PREFIX) and name not in names and not _OF_A_SERVICE.fullmatch(name):
            endings = [entry.removeprefix(PREFIX) for entry in names]
            near = get_close_matches(name.removeprefix(PREFIX), endings, n=1)
            hint = f"did you mean {PREFIX}{near[0]}?" if near else "docs/settings.md and docs/operating.md list them"
            raise EnvironmentInvalid(f"{name}: unknown variable; {hint}")


def variables() -> Mapping[str, str]:
    """Return all variables, for `config.product`, which finds its own by the names of the settings."""
    return os.environ


def text(name: str, default: str) -> str:
    """Return a variable's text."""
    _read.add(name)
    return os.environ.get(name, default)


def _text(name: str) -> str:
    _read.add(name)
    return os.environ.get(name, "")


def required(name: str, *, example: str) -> str:
    """Return a variable that has no default. Raises EnvironmentInvalid if it is unset or empty."""
    value = _text(name)
    if not value:
        raise EnvironmentInvalid(f"{name} is not set; e.g. {name}={example}")
    return value


def keys(name: str, value: str) -> tuple[str, ...]:
    """Return the encryption keys of a comma list; the first one encrypts.

    Raises EnvironmentInvalid if the list is empty, or if a key is not 32 bytes of URL-safe base64. The message has the
    position of the key, never its value.
    """
    found = tuple(part.strip() for part in value.split(",") if part.strip())
    for place, word in enumerate(found, start=1):
        padded = word + "=" * (-len(word) % 4)
        try:
            length = len(base64.b64decode(padded, altchars=b"-_", validate=True))
        except ValueError:
            length = 0
        if length != _KEY_BYTES:
            raise EnvironmentInvalid(f"{name}: key {place} is not 32 bytes of URL-safe base64; {_KEY_HINT}")
    if not found:
        raise EnvironmentInvalid(f"{name} is not set: Secrets are not stored without a key; {_KEY_HINT}")
    return found


_KEY_BYTES = 32
_KEY_HINT = "make one with: openssl rand -base64 32 | tr +/ -_"


def flag(name: str, default: bool) -> bool:
    """Return a boolean variable. True: 1, true, yes, on. False: 0, false, no, off."""
    value = _text(name).strip().lower()
    if not value:
        return default
    if value not in TRUE + FALSE:
        raise EnvironmentInvalid(f'{name}: "{value}" is neither true nor false; e.g. {name}=true')
    return value in TRUE


def number(name: str, default: int, *, at_least: int, at_most: int | None = None) -> int:
    """Return a variable that is a whole number of `at_least` or more, and of `at_most` or less."""
    value = _text(name).strip()
    if not value:
        return default
    try:
        found = int(value)
    except ValueError:
        raise EnvironmentInvalid(f'{name}: "{value}" is not a whole number; e.g. {name}={default}') from None
    if found < at_least:
        raise EnvironmentInvalid(f"{name}: {found} is less than {at_least}; e.g. {name}={default}")
    if at_most is not None and found > at_most:
        raise EnvironmentInvalid(f"{name}: {found} is more than {at_most}; e.g. {name}={default}")
    return found


def choice(name: str, default: str, *, of: Collection[str]) -> str:
    """Return a variable that is one of several words."""
    value = _text(name).strip() or default
    if value not in of:
        raise EnvironmentInvalid(f'{name}: "{value}" is not one of {", ".join(of)}; e.g. {name}={default}')
    return value


def log_level(name: str, default: str) -> str:
    """Return a level of Python's logging, in capitals. Its short names WARN and FATAL are levels as well."""
    given = _text(name).strip()
    level = (given or default).upper()
    level = _SHORT.get(level, level)
    if level not in LEVELS:
        raise EnvironmentInvalid(f'{name}: "{given}" is not one of {", ".join(LEVELS)}; e.g. {name}={default}')
    return level


def appended_file(name: str) -> str:
    """Return a variable that names a file to append to; "": none, "-": standard output. The file is created."""
    path = _text(name)
    if path and path != "-":
        try:
            with open(path, "a"):
                pass
        except OSError as error:
            raise EnvironmentInvalid(
                f'{name}: "{path}" cannot be written: {error.strerror}; "-" is standard output'
            ) from error
    return path


def words(name: str, default: list[str]) -> list[str]:
    """Return the words of a comma list."""
    value = _text(name)
    return [word.strip() for word in value.split(",") if word.strip()] if value else default


def pairs(name: str) -> dict[str, str]:
    """Return a comma list of name=value as a mapping. Empty or unset: no pairs."""
    found = {}
    for word in words(name, default=[]):
        key, separator, value = word.partition("=")
        if not separator or not key:
            raise EnvironmentInvalid(f'{name}: "{word}" is not of the form name=value; e.g. {name}=tenant=blue')
        found[key] = value
    return found


def networks(name: str) -> tuple[str, ...]:
    """Return a comma list of addresses or networks, each in CIDR notation. Empty or unset: none."""
    found = []
    for word in words(name, default=[]):
        try:
            found.append(str(ip_network(word, strict=False)))
        except ValueError:
            example = f"{name}=10.0.0.5,192.168.0.0/16"
            raise EnvironmentInvalid(f'{name}: "{word}" is neither an address nor a network; e.g. {example}') from None
    return tuple(found)


class MailServer(NamedTuple):
    """An SMTP server. `tls`: from the first byte. `starttls`: after a greeting in plain text."""

    host: str
    port: int
    user: str
    password: str
    tls: bool
    starttls: bool


def mail_server(name: str) -> MailServer | None:
    """Return the SMTP server of a URL; None: it is not set.

    smtp://user:password@host:587?starttls=true, or smtps://user:password@host:465. The message of an error never has
    the URL, which may contain a password.
    """
    text_ = _text(name).strip()
    if not text_:
        return None
    example = f"{name}=smtp://user:password@mail.example.com:587?starttls=true"
    try:
        parts = urlsplit(text_)
        port, options = parts.port, dict(parse_qsl(parts.query))
    except ValueError:
        raise EnvironmentInvalid(f"{name}: the port is not a number; e.g. {example}") from None
    starttls = options.pop("starttls", "false")
    if parts.scheme not in ("smtp", "smtps") or not parts.hostname or options or starttls not in ("true", "false"):
        raise EnvironmentInvalid(f"{name}: not the URL of an SMTP server; e.g. {example}")
    tls = parts.scheme == "smtps"
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    return MailServer(parts.hostname, port or (465 if tls else 25), user, password, tls, starttls == "true")


def address(name: str) -> str:
    """Return a variable that is an http or https URL; "": it is not set. An error never has the value."""
    value = _text(name).strip()
    parts = urlsplit(value)
    if value and (parts.scheme not in ("http", "https") or not parts.hostname):
        raise EnvironmentInvalid(f"{name}: not an http or https URL; e.g. {name}=https://hooks.example.com/lifeboat")
    return value


def redis(name: str, default: str) -> str:
    """Return the URL of a Redis: redis://user:password@host:6379/0, with rediss:// over TLS.

    It means the same to Celery and to redis-py: over TLS the certificate is checked, unless the URL says otherwise.
    The message of an error never has the URL, which may contain a password.
    """
    url = _text(name).strip() or default
    example = f"e.g. {name}=redis://user:password@host:6379/0, with a password in URL escapes"
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises for one that is no number
        options = dict(parse_qsl(parts.query, strict_parsing=bool(parts.query)))
    except ValueError:
        raise EnvironmentInvalid(f"{name}: the port or what follows it cannot be read; {example}") from None
    if parts.scheme not in ("redis", "rediss") or not parts.hostname or not _NUMBERED.fullmatch(parts.path):
        raise EnvironmentInvalid(f"{name}: not the URL of a Redis with the number of a database; {example}")
    known = _OF_TLS if parts.scheme == "rediss" else ()
    if unknown := sorted(options.keys() - set(known)):
        has = f"rediss:// has {', '.join(_OF_TLS)}" if known else "redis:// has none"
        raise EnvironmentInvalid(f"{name}: unknown option {unknown[0]}; {has}")
    checked = options.setdefault("ssl_cert_reqs", "required")
    if checked not in _CHECKS:
        raise EnvironmentInvalid(f"{name}: ssl_cert_reqs is none of {', '.join(_CHECKS)}; {example}")
    return parts._replace(query=urlencode(options)).geturl() if known else url


_NUMBERED = re.compile("(/[0-9]*)?")  # "": database 0
_OF_TLS = ("ssl_cert_reqs", "ssl_ca_certs", "ssl_certfile", "ssl_keyfile", "ssl_check_hostname")
_CHECKS = ("required", "optional", "none")


def database(name: str, default: str) -> dict[str, object]:
    """Return Django's database settings for a URL, e.g. postgresql://user:password@host:5432/lifeboat.

    A unix socket is named as libpq does: postgresql://user@/lifeboat?host=/var/run/postgresql. Other parameters
    of the URL are handed to libpq (sslmode, …).
    """
    url = _text(name) or default
    example = f"e.g. {name}=postgresql://user:password@host:5432/lifeboat"
    try:
        parts = urlsplit(url)
        options: dict[str, object] = dict(parse_qsl(parts.query))
        port = str(options.pop("port", parts.port or ""))
    except ValueError:  # its text has a part of a password with a slash or a bracket
        raise EnvironmentInvalid(
            f"{name}: the port is not a number, or the password is not in URL escapes (%2F for a slash); {example}"
        ) from None
    if parts.scheme not in ("postgres", "postgresql") or not parts.path.strip("/"):
        raise EnvironmentInvalid(f"{name}: not a PostgreSQL URL with a database; {example}")
    return {
        "ENGINE": "apps.objects.database",
        "NAME": unquote(parts.path.strip("/")),
        "USER": options.pop("user", unquote(parts.username or "")),
        "PASSWORD": options.pop("password", unquote(parts.password or "")),
        "HOST": options.pop("host", parts.hostname or ""),
        "PORT": port,
        "OPTIONS": options,
    }
