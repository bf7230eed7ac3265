"""The kubeconfig: where the API is, and with which credentials. It is read as kubectl reads it."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from apps.command import exit_codes, manifests, side_by_side
from apps.command.errors import CommandError, usage
from apps.command.shapes import Field, check

DEFAULT_FILE = "~/.kube/config"
SCHEMES: Final = ("https://", "http://")
_TEXTS: Final = {
    "contexts[].context": ("cluster", "user", "namespace"),
    "clusters[].cluster": ("server", "certificate-authority", "certificate-authority-data"),
    "users[].user": (
        *("token", "tokenFile", "username", "password"),
        *("client-certificate", "client-certificate-data", "client-key", "client-key-data"),
    ),
}


def _fields() -> Iterator[Field]:
    yield Field("current-context", str)
    for content, texts in _TEXTS.items():
        entry = content.partition(".")[0]
        yield from (Field(entry.removesuffix("[]"), list), Field(entry, dict), Field(f"{entry}.name", str, needed=True))
        yield Field(content, dict)
        yield from (Field(f"{content}.{name}", str) for name in texts)
    yield Field("users[].user.exec", dict)


KUBECONFIG: Final = tuple(_fields())
"""What is read of a kubeconfig."""

_ENTRY: Final = re.compile(r"\S*\{.*", re.DOTALL)  # with it the library quotes a user, with the token


_OUTPUT: Final = re.compile(r"(?<=^exec: process returned )(-?\d+)\..*", re.DOTALL)  # with what a plugin has printed


class Access(NamedTuple):
    """How to send requests to the API.

    `pool` is a urllib3 pool with the TLS settings. `authorization` returns the header Authorization, "" for none; it
    runs an exec plugin again when its token has expired.
    """

    server: str
    namespace: str
    pool: Any
    authorization: Callable[[], str]


def read(file: Path | None, context: str) -> Access:
    """Return the access of a context, "" for the current one, in a file.

    None: the files of KUBECONFIG, else ~/.kube/config. Raises CommandError if there is no such file or context, if it
    is not valid, or if the credential plugin of its user fails.
    """
    # Imported here because these packages take longer to import than all the rest, and `--help` does not need them.
    from kubernetes.client import Configuration
    from kubernetes.client.rest import RESTClientObject
    from kubernetes.config import ConfigException, kube_config

    place = os.path.expanduser(str(file) if file else os.environ.get("KUBECONFIG") or DEFAULT_FILE)
    if not any(Path(one).is_file() for one in place.split(os.pathsep)):
        raise CommandError(
            f"there is no kubeconfig {place}",
            code=exit_codes.NOT_FOUND,
            advice="name one with --kubeconfig or KUBECONFIG; manage.py kubeconfig writes one",
        )
    plugins: dict[str, str] = {}
    for one in place.split(os.pathsep):
        if Path(one).is_file():
            for document in manifests.documents(Path(one)):
                check(document, KUBECONFIG, place=f"kubeconfig {one}")
                plugins = {**_plugins(document), **plugins}
    configuration = type.__call__(Configuration)  # not the defaults that other code of this process may have set
    try:
        contexts, current = kube_config.list_kube_config_contexts(place)
        chosen = next((one for one in contexts if one["name"] == context), current)
        plugin = plugins.get(chosen["context"].get("user") or "", "")
        failing = f"kubeconfig {place}: the credential plugin {plugin} of its user failed"
        with _reported(failing):
            kube_config.load_kube_config(place, context or None, configuration, persist_config=False)
    except ConfigException as error:
        known = _known_contexts(kube_config, ConfigException, place)
        raise CommandError(
            f"kubeconfig {place}: {_ENTRY.sub('an entry', str(error))}",
            code=exit_codes.NOT_FOUND,
            advice=f"its contexts: {', '.join(known)}" if known else "",
        ) from None
    except (OSError, ValueError) as error:
        raise usage(f"kubeconfig {place} is not valid: {error}") from None
    except AttributeError:  # raised by the library for an auth-provider whose own library is not there
        raise usage(
            f"kubeconfig {place}: the auth-provider of its user cannot be used; write exec or a token"
        ) from None
    if not str(configuration.host).startswith(SCHEMES):
        raise usage(f'kubeconfig {place}: the server of the cluster is "{configuration.host}"; write https://HOST:PORT')
    namespace = chosen["context"].get("namespace") or "default"
    pool = RESTClientObject(configuration, maxsize=side_by_side.AT_ONCE).pool_manager
    return Access(configuration.host, namespace, pool, lambda: _header(configuration, failing))


def _header(configuration: Any, failing: str) -> str:
    with _reported(failing):
        return str(configuration.get_api_key_with_prefix("BearerToken", alias="authorization") or "")


def _plugins(document: Any) -> dict[str, str]:
    """Return the command of the credential plugin of each user in a kubeconfig that has one."""
    users = (document or {}).get("users") or ()
    found = ((user["name"], (user.get("user") or {}).get("exec")) for user in users)
    return {name: str(plugin.get("command")) for name, plugin in found if plugin}


class _Errors(logging.Filter):
    """Takes what the library says about credential plugins. It says it to the root logger, and goes on without a login.

    What a plugin has printed may hold a secret, and is left out.
    """

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def filter(self, record: logging.LogRecord) -> bool:
        if record.module != "kube_config":
            return True
        self.texts.append(_OUTPUT.sub(r"\1", record.getMessage()))
        return False


@contextmanager
def _reported(failing: str) -> Iterator[None]:
    """Raise CommandError if a credential plugin fails within the block."""
    errors, root = _Errors(), logging.getLogger()
    root.addFilter(errors)
    try:
        yield
    finally:
        root.removeFilter(errors)
    if errors.texts:
        raise CommandError(
            f"{failing}: {errors.texts[-1]}",
            code=exit_codes.DENIED,
            advice="run it by hand to see what it prints; its command and arguments are in the kubeconfig",
        )


def _known_contexts(kube_config: Any, invalid: type[Exception], place: str) -> list[str]:
    try:
        contexts, _ = kube_config.list_kube_config_contexts(place)
    except (invalid, OSError, ValueError, TypeError):
        return []
    return [one["name"] for one in contexts]
