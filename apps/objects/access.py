"""Who may do what, as far as this process knows: the stored roles and bindings, compiled."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any

from django.db.models import Count, Max

from apps.objects.models import Object
from apps.objects.refreshed import Refreshed
from apps.objects.store import store
from controlplane.apimachinery.meta import Ref
from controlplane.authentication.signing_requests import Requester, check_requester
from controlplane.authorization import admission_params, agent_roles
from controlplane.authorization.attributes import ADMINISTRATORS, AUTHENTICATED, CREDENTIAL_ID, Caller, Request
from controlplane.authorization.escalation import CHECKS
from controlplane.authorization.member_credentials import check_cluster
from controlplane.authorization.policy import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, KINDS, Policy, Verdict
from controlplane.authorization.proxied import Subjects, subjects
from controlplane.engine.state import State
from controlplane.kind import KINDS as OBJECT_KINDS
from controlplane.kind import Kind
from controlplane.kinds import CLUSTER
from controlplane.kinds.template import admission_kinds, signing_request

_NO_ROLES = Policy({})


class Access(Refreshed):
    """Keeps a Policy up to date: reads the versions of all roles and bindings at most every half second.

    The objects themselves are read only if a version has changed. So a decision costs no query.
    """

    def __init__(self, state: State) -> None:
        super().__init__()
        self._state = state
        self._policy = Policy({})
        self._documents: dict[str, list[dict[str, Any]]] = {}
        self._versions: tuple[int, int] = (-1, -1)

    def policy(self, *, reread: bool = False) -> Policy:
        """Return the policy in force. It is at most half a second old; `reread`: it is as stored now."""
        self.refresh(at_once=reread)
        return self._policy

    @property
    def known(self) -> Policy:
        """Return the policy as it was read `age` seconds ago. Reads nothing."""
        return self._policy

    def _read(self) -> None:
        found = Object.objects.filter(kind__in=KINDS).aggregate(Count("pk"), Max("resource_version"))
        versions = (found["pk__count"], found["resource_version__max"] or 0)
        if versions != self._versions:
            self._documents = {kind: [item.document() for item in self._state.list(kind)] for kind in KINDS}
            self._policy = Policy(self._documents)
            self._versions = versions

    def proxy_subjects(self, cluster: str) -> Subjects:
        """Return the users, groups and ServiceAccounts who may use the proxy to a cluster [proxy-rights]."""
        self.policy()
        return subjects(cluster, self._documents.get(CLUSTER_ROLE, ()), self._documents.get(CLUSTER_ROLE_BINDING, ()))


@lru_cache(maxsize=1)
def access() -> Access:
    """Return the policy as this process knows it."""
    return Access(store())


def caller_of(user: Any) -> Caller:
    """Return a user as RBAC knows users: superusers are members of system:masters, Django's groups are groups.

    A user that was found with its groups has them in `group_names`; otherwise they are read once for each request. The
    answer is kept with the user, because a page of the admin asks a hundred times.
    """
    if isinstance(known := getattr(user, "caller", None), Caller):
        return known
    if not hasattr(user, "group_names"):
        user.group_names = tuple(user.groups.order_by("name").values_list("name", flat=True))
    masters = (ADMINISTRATORS,) if user.is_superuser else ()
    credential = getattr(user, "credential_id", "")
    extra = {CREDENTIAL_ID: (credential,)} if credential else {}
    user.caller = Caller(user.get_username(), (*masters, *user.group_names, AUTHENTICATED), str(user.pk), extra)
    return user.caller


def authorize(user: Any, request: Request) -> Verdict:
    """Return whether a user may do this. Members of system:masters may do everything, so no policy is read for them."""
    return authorize_caller(caller_of(user), request)


def authorize_caller(caller: Caller, request: Request) -> Verdict:
    """Return whether a caller may do this, by the policy in force. For system:masters no policy is read."""
    return (_NO_ROLES if ADMINISTRATORS in caller.groups else access().policy()).authorize(caller, request)


def authorize_as_known(caller: Caller, request: Request) -> Verdict:
    """Return whether a caller may do this by the policy as it was last read. Reads nothing."""
    return (_NO_ROLES if ADMINISTRATORS in caller.groups else access().known).authorize(caller, request)


def may(user: Any, verb: str, kind: Kind, *, namespace: str = "", name: str = "", subresource: str = "") -> bool:
    """Test whether a user may do something with objects of a kind."""
    resource = kind.resource
    request = Request(verb, resource.group, resource.plural, subresource, namespace, name)
    return authorize(user, request).allowed


def reader_of(user: Any) -> Callable[[Ref], bool]:
    """Return a function that tests whether a user may list the objects of the kind and namespace of a reference."""

    @cache
    def may_list(kind: str, namespace: str) -> bool:
        return may(user, "list", OBJECT_KINDS[kind], namespace=namespace)

    return lambda ref: may_list(ref.kind, ref.namespace)


def check_grant(user: Any, kind: Kind, new: Any, old: Any) -> None:
    """Raise Forbidden if a user writes a role or binding that grants more than the user has [no-escalation].

    The user who registers agents may write their roles [agent-roles]. Raises Forbidden as well for a
    CertificateSigningRequest of another user, for a Cluster to which credentials are sent that the user may not read
    [credentials-of-members], and for the Cluster or heartbeat of another cluster than that of an agent. Raises Invalid
    for an admission policy, or a binding of one, with parameters that the user may not read [parameter-rights].
    """
    agent_roles.check_own(caller_of(user), kind.resource, new.metadata.namespace, new.metadata.name)
    if kind.key == CLUSTER:
        check_cluster(access().policy(), caller_of(user), new, old)
    if kind.key == signing_request.KEY and old is None:
        caller = caller_of(user)
        check_requester(new, Requester(caller.name, caller.uid, caller.groups, caller.extra))
    if kind.key in (admission_kinds.POLICY, admission_kinds.BINDING):
        _check_parameters(caller_of(user), kind.key, new.document(), None if old is None else old.document())
    if check := CHECKS.get(kind.key):
        document, before = new.document(), None if old is None else old.document()
        if old is None and caller_of(user).name == agent_roles.REGISTRAR and agent_roles.is_agents(document):
            return
        check(access().policy(), caller_of(user), document, before)


def _check_parameters(caller: Caller, key: str, new: dict[str, Any], old: dict[str, Any] | None) -> None:
    """Raise Invalid if a user may not read the parameters of an admission policy or of a binding."""
    if key == admission_kinds.POLICY:
        admission_params.check_policy(access().policy(), caller, new, old)
        return
    ref = Ref(admission_kinds.POLICY, "", str((new.get("spec") or {}).get("policyName") or ""))
    bound = store().get([ref]).get(ref)
    admission_params.check_binding(
        access().policy(), caller, new, old, bound=None if bound is None else bound.document()
    )
