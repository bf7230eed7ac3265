"""Defaults, validation and warnings of a Cluster [cluster-object]."""

from __future__ import annotations

import re
from collections.abc import Iterator

from controlplane.apimachinery import addresses
from controlplane.apimachinery.causes import invalid, mistyped, required, unsupported
from controlplane.apimachinery.errors import Cause
from controlplane.apimachinery.names import CLUSTER_FINALIZER, OBSERVE_ANNOTATION, UNJOIN_ANNOTATION
from controlplane.apimachinery.selectors import dns1123_label_errors, label_value_errors
from controlplane.kinds.cluster import PULL, PUSH, Cluster, ClusterSpec, SecretReference
from controlplane.kinds.cluster.taint_rules import taint_causes
from controlplane.settings import Settings

MAX_NAME = 48
"""Names of derived objects contain the name of the cluster, and must still be valid labels of 63 characters."""
UNJOIN_KEEP, UNJOIN_DELETE = "keep", "delete"
"""What happens to the copies on a cluster that is deleted while bindings are placed on it [unjoin-and-drain]."""
SYNC_MODES = (PULL, PUSH)
PROXY_SCHEMES = ("http", "https", "socks5")

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE = re.compile(r"[\t\x20-\x7e\x80-\uffff]*")
_URL = re.compile(r"(?:(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://)?(?P<rest>.*)", re.DOTALL)
_ENDPOINT = re.compile(
    r"(?P<user>[^/?#]*@)?(?P<host>[^/?#]*)(?P<path>/[^?#]*)?(?P<query>\?[^#]*)?(?P<fragment>#.*)?", re.DOTALL
)
_PLACE = re.compile(r"(?P<host>\[[^\[\]]+\]|[^\[\]:]+)(?::(?P<port>[0-9]{0,5}))?")
_NEVER_IN_HOST = re.compile(r"""[\x00-\x20\x7f"<>\\^`{|}]""")
_HIGHEST_PORT = 65535


def validate(new: Cluster, old: Cluster | None, settings: Settings) -> list[Cause]:
    """Return every cause to refuse a cluster.

    The network of an address is only checked when the address changes. Otherwise a stricter setting would prevent
    edits of other fields of existing clusters. The address is checked again whenever the member is called.
    """
    spec = new.spec
    before = ClusterSpec() if old is None else old.spec
    called = {
        "spec.apiEndpoint": (spec.api_endpoint, before.api_endpoint),
        "spec.proxyURL": (spec.proxy_url, before.proxy_url),
    }
    return [
        *_name(new.metadata.name),
        *_sync_mode(spec.sync_mode),
        *_endpoint(spec.api_endpoint),
        *_proxy(spec.proxy_url),
        *(cause for field, (url, was) in called.items() if url != was for cause in _address(url, field, settings)),
        *_proxy_header(spec.proxy_header),
        *_secret(spec.secret_ref, "spec.secretRef"),
        *_secret(spec.impersonator_secret_ref, "spec.impersonatorSecretRef"),
        *_location(spec),
        *taint_causes(spec.taints, "spec.taints"),
        *_unjoin(new.metadata.annotations.get(UNJOIN_ANNOTATION)),
        *_observe(new.metadata.annotations.get(OBSERVE_ANNOTATION)),
    ]


def default(new: Cluster, old: Cluster | None, settings: Settings) -> Cluster:
    """Return a new cluster with its finalizer, so that it exists until no copies are on it.

    The finalizer of a stored cluster is not added again, because a user may have removed it.
    """
    finalizers = new.metadata.finalizers
    if old is not None or CLUSTER_FINALIZER in finalizers:
        return new
    return new.with_meta(finalizers=(*finalizers, CLUSTER_FINALIZER))


def _unjoin(value: str | None) -> Iterator[Cause]:
    if value is not None and value not in (UNJOIN_KEEP, UNJOIN_DELETE):
        yield unsupported(f"metadata.annotations[{UNJOIN_ANNOTATION}]", value, (UNJOIN_KEEP, UNJOIN_DELETE))


def _observe(value: str | None) -> Iterator[Cause]:
    if value not in (None, "true", "false"):
        yield unsupported(f"metadata.annotations[{OBSERVE_ANNOTATION}]", value, ("true", "false"))


def _name(name: str) -> Iterator[Cause]:
    if len(name) > MAX_NAME:
        yield invalid("metadata.name", name, f"must be no more than {MAX_NAME} characters")
    if "." in name:
        yield invalid("metadata.name", name, "must not contain dots")
    for rule in dns1123_label_errors(name):
        yield invalid("metadata.name", name, rule)


def _sync_mode(mode: str) -> Iterator[Cause]:
    if not mode:
        yield required(
            "spec.syncMode",
            "write Push or Pull: an agent in a Pull cluster calls the control plane",
        )
    if mode not in SYNC_MODES:
        yield unsupported("spec.syncMode", mode, SYNC_MODES)


def _endpoint(url: str) -> Iterator[Cause]:
    if not url:
        return
    form = "host must be provided; desired format: hostname, hostname:port, IP or IP:port, with https:// before it"
    scheme = _URL.fullmatch(url)
    parts = _ENDPOINT.fullmatch(scheme["rest"]) if scheme is not None else None
    if scheme is None or parts is None or not scheme["scheme"] or not parts["host"]:
        yield invalid("spec.apiEndpoint", url, form)
        return
    if parts["user"]:
        yield invalid("spec.apiEndpoint", url, "user information is not permitted in the URL")
    if parts["query"]:
        yield invalid("spec.apiEndpoint", url, "query parameters are not permitted in the URL")
    if parts["fragment"]:
        yield invalid("spec.apiEndpoint", url, "fragments are not permitted in the URL")


def _address(url: str, field: str, settings: Settings) -> Iterator[Cause]:
    """Yield the causes to refuse the address in a URL. A host name is resolved and checked only when it is called."""
    parts = _URL.fullmatch(url)
    place = _ENDPOINT.fullmatch(parts["rest"]) if parts is not None else None
    if place is None or not place["host"]:
        return
    called = _PLACE.fullmatch(place["host"])
    if called is None or _NEVER_IN_HOST.search(called["host"]) or int(called["port"] or 0) > _HIGHEST_PORT:
        form = f"host, host:port or [IPv6 address]:port, with a port of at most {_HIGHEST_PORT}"
        yield invalid(field, url, f'"{place["host"]}" cannot be called; desired format: {form}')
        return
    host = called["host"]
    try:
        address = addresses.literal(host)
    except ValueError as error:
        yield invalid(field, url, f'host "{host}" {error}')
        return
    limits = settings.members
    network = address and addresses.refused(address, refuse=limits.refused_addresses, allow=limits.allowed_addresses)
    if network:
        yield invalid(
            field,
            url,
            f"{address} is in {network}, which must not be called (setting members.refused_addresses); to allow it, "
            "add its network to the setting members.allowed_addresses",
        )


def _proxy(url: str) -> Iterator[Cause]:
    if not url:
        return
    parts = _URL.fullmatch(url)
    scheme = "" if parts is None else parts["scheme"] or ""
    if scheme not in PROXY_SCHEMES:
        yield invalid("spec.proxyURL", url, f'unsupported scheme "{scheme}", must be http, https, or socks5')


def _proxy_header(header: dict[str, str]) -> Iterator[Cause]:
    for name, value in sorted(header.items()):
        path = f"spec.proxyHeader[{name}]"
        if not _HEADER_NAME.fullmatch(name):
            yield invalid(path, name, "must be the name of an HTTP header: letters, digits and -")
        if not _HEADER_VALUE.fullmatch(value):
            yield invalid(path, "…", "must be one line of visible characters")


def warn(new: Cluster, old: Cluster | None, settings: Settings) -> list[str]:
    """Return warnings about fields that have no effect."""
    spec, warnings = new.spec, list[str]()
    if spec.proxy_header and not spec.proxy_url.startswith(("http://", "https://")):
        warnings.append("spec.proxyHeader has no effect without an HTTP proxy in spec.proxyURL")
    if spec.sync_mode == PUSH and not spec.api_endpoint:
        warnings.append("spec.apiEndpoint is empty: a Push cluster without an endpoint is not probed")
    return warnings


def _secret(ref: SecretReference | None, path: str) -> Iterator[Cause]:
    if ref is None:
        return
    for field, value in (("namespace", ref.namespace), ("name", ref.name)):
        if not value:
            yield required(f"{path}.{field}", "name the Secret fully, or leave the reference out")


def _location(spec: ClusterSpec) -> Iterator[Cause]:
    """Yield the causes to refuse provider, region and zones. They have to be valid label values, because selectors
    compare them."""
    if spec.zone and spec.zones:
        yield mistyped("spec.zone", spec.zone, "zone and zones cannot be used together: use zones")
    values = [("provider", spec.provider), ("region", spec.region), ("zone", spec.zone)]
    values += [(f"zones[{index}]", zone) for index, zone in enumerate(spec.zones)]
    for field, value in values:
        for rule in label_value_errors(value):
            yield invalid(f"spec.{field}", value, rule)
