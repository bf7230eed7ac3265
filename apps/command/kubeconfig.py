"""The kubeconfig: where the API is, and with which credentials. It is read as kubectl reads it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from apps.command import exit_codes
from apps.command.errors import CommandError

DEFAULT_FILE = "~/.kube/config"


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

    None: the files of KUBECONFIG, else ~/.kube/config. Raises CommandError if there is no such file or context, or if
    it is not valid.
    """
    # Imported here because these packages take longer to import than all the rest, and `--help` does not need them.
    import yaml
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
    configuration = type.__call__(Configuration)  # not the defaults that other code of this process may have set
    try:
        kube_config.load_kube_config(place, context or None, configuration, persist_config=False)
        contexts, current = kube_config.list_kube_config_contexts(place)
    except ConfigException as error:
        known = _known_contexts(kube_config, ConfigException, place)
        raise CommandError(
            f"kubeconfig {place}: {error}",
            code=exit_codes.NOT_FOUND,
            advice=f"its contexts: {', '.join(known)}" if known else "",
        ) from None
    except (OSError, ValueError, TypeError, yaml.YAMLError) as error:
        raise CommandError(f"kubeconfig {place} is not valid: {error}", code=exit_codes.USAGE) from None
    chosen = next((one for one in contexts if one["name"] == context), current)
    namespace = chosen["context"].get("namespace") or "default"
    return Access(
        configuration.host, namespace, RESTClientObject(configuration).pool_manager, lambda: _header(configuration)
    )


def _header(configuration: Any) -> str:
    return str(configuration.get_api_key_with_prefix("BearerToken", alias="authorization") or "")


def _known_contexts(kube_config: Any, invalid: type[Exception], place: str) -> list[str]:
    try:
        contexts, _ = kube_config.list_kube_config_contexts(place)
    except (invalid, OSError, ValueError, TypeError):
        return []
    return [one["name"] for one in contexts]
