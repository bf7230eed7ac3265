"""The proxy to members: `clusters/<name>/proxy/…`. The view authorises a request and `proxying` passes it on.

A request is authorised by the verb of its method on `clusters/proxy` with the name of the cluster, as Kubernetes
authorises connections through an API server. What the caller may do in the member is decided by the member.
"""

from __future__ import annotations

from typing import Any

import msgspec
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.request import Request

from apps.api.authorization import Attributes
from apps.api.handed_over import HandedOver
from apps.api.logins import Login, login_of
from apps.api.views import KubernetesView
from apps.objects.access import access, caller_of
from apps.objects.configuration import configuration
from apps.objects.store import store
from controlplane.apimachinery.errors import Forbidden, NotFound
from controlplane.apimachinery.meta import Ref
from controlplane.clusters import proxy
from controlplane.clusters.questions import Target
from controlplane.kinds import CLUSTER, KINDS
from controlplane.kinds.cluster import Cluster, SecretReference
from controlplane.settings import MemberSettings
from controlplane.wire.resource import SUBRESOURCE_METHODS

PATTERN = r"^apis/cluster\.karmada\.io/v1alpha1/clusters/(?P<name>[^/]+)/proxy(?:/(?P<path>.*))?$"
_SAME_SITE = ("same-origin", "none", "")


class Proxied(msgspec.Struct, kw_only=True):
    """An authorised request to a member. The fields without a comment are those that a Stream has as well."""

    allowed: Attributes
    login: Login | None
    target: Target  # with the token of the member's impersonator
    caller: list[proxy.Header]  # the headers by which the member knows the caller
    limits: MemberSettings
    seconds: float
    kind: str = ""  # no kind: the watch hub hands no changes to it
    since: int = 0
    bookmarks: bool = False

    @property
    def user(self) -> str:
        """The name of the user whose request this is."""
        username: str = self.allowed.user.get_username()
        return username


class ProxyResponse(HandedOver):
    """A response that a member gives. A server without the shell sends an error instead."""

    def __init__(self, proxied_: Proxied) -> None:
        super().__init__("the proxy to members needs")
        self.proxied = proxied_


class Unnegotiated(BaseContentNegotiation):
    """Accept and Content-Type are for the member. Errors of the control plane itself are JSON."""

    def select_parser(self, request: Any, parsers: Any) -> Any:
        return parsers[0]

    def select_renderer(self, request: Any, renderers: Any, format_suffix: Any = None) -> Any:
        return renderers[0], renderers[0].media_type


class ProxyView(KubernetesView):
    """Authorises requests to members: every method, and any path below the proxy of a Cluster."""

    content_negotiation_class = Unnegotiated
    http_method_names = ["get", "head", "post", "put", "patch", "delete", "options"]

    def attributes(self, request: Request) -> Attributes:
        resource = KINDS[CLUSTER].resource
        verb = SUBRESOURCE_METHODS.get(request.method or "", "get")  # HEAD and OPTIONS count as reading
        name, path = self.kwargs["name"], request.path_info
        return Attributes(request.user, verb, resource.group, resource.plural, "proxy", "", name, path)

    def get(self, request: Request, *args: Any, **kwargs: Any) -> ProxyResponse:
        _check_browser(request)
        name = kwargs["name"]
        ref = Ref(CLUSTER, "", name)
        cluster: Cluster | None = store().get([ref]).get(ref)
        if cluster is None:
            raise NotFound.of("clusters", name, group=KINDS[CLUSTER].resource.group)
        limits = configuration().settings().members
        return ProxyResponse(
            Proxied(
                allowed=self.attributes(request),
                login=login_of(request),
                target=_target(cluster),
                caller=proxy.impersonation(caller_of(request.user), access().proxy_subjects(name).groups),
                limits=limits,
                seconds=limits.proxy_longest_seconds,
            )
        )

    head = post = put = patch = delete = get
    options = get  # type: ignore[assignment]  # the member answers, not REST framework


def _target(cluster: Cluster) -> Target:
    """Return how to reach the member as its impersonator. Raises BadRequest with the reason if that is not possible."""
    refs = [_secret(ref) for ref in (cluster.spec.secret_ref, cluster.spec.impersonator_secret_ref)]
    found = store().get([ref for ref in refs if ref is not None])
    secret, impersonator = (None if ref is None else found.get(ref) for ref in refs)
    return proxy.target(cluster, secret, impersonator)


def _secret(reference: SecretReference | None) -> Ref | None:
    return None if reference is None else Ref("Secret", reference.namespace, reference.name)


def _check_browser(request: Request) -> None:
    """Raise Forbidden for a request of a browser that another site may have caused.

    Browsers send a session's cookie and a client certificate by themselves, also with a websocket's handshake and with
    links of other sites. A page of another site cannot send a bearer token. Writes with a session need the CSRF token,
    as everywhere.
    """
    if request.headers.get("Authorization"):
        return
    is_upgrade = "upgrade" in request.headers.get("Connection", "").lower()
    if is_upgrade and (not isinstance(request.auth, str) or request.headers.get("Origin")):
        raise Forbidden("a browser cannot open a connection into a member with its session: send a bearer token")
    if request.headers.get("Sec-Fetch-Site", "") not in _SAME_SITE:
        raise Forbidden("a page of another site cannot call a member with your login: open the URL yourself")
