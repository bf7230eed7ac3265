"""Checks of writes against FederatedResourceQuotas: of bindings by their namespace's quotas, and of quotas themselves
[federated-quotas]."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from controlplane.apimachinery.errors import Forbidden
from controlplane.apimachinery.meta import Ref
from controlplane.engine.decision import Delete, Put, QuotaGuard
from controlplane.engine.quota_conflicts import quota_guards
from controlplane.engine.state import State
from controlplane.estimate.quota import NO_USE, changes, excess, overall_used
from controlplane.kinds import CLUSTER, FEDERATED_QUOTA
from controlplane.kinds.binding import Binding
from controlplane.kinds.federated_quota import ENFORCEMENT_GATE, amount, shown
from controlplane.settings import Settings


def check_binding(state: State, new: Any, old: Any, settings: Settings) -> None:
    """Raise Forbidden if a write by hand places more than a quota of the namespace has room for.

    Two queries at most, and none while the binding does not request more than before.
    """
    more = changes(old, new) if settings.gate(ENFORCEMENT_GATE) else NO_USE
    if not any(change > 0 for change in more.values()):
        return
    namespace = new.metadata.namespace
    quotas = state.by_index(FEDERATED_QUOTA, "namespace", [namespace]).get(namespace)
    found = excess(quotas, state.quota_use([namespace]).get(namespace, NO_USE), more) if quotas else None
    if found is not None:
        name = new.metadata.name
        message = f'resourcebindings.work.karmada.io "{name}" is forbidden: {found}'
        raise Forbidden(message, kind="resourcebindings", group="work.karmada.io", name=name)


def check_write(state: State, write: Put | Delete, settings: Settings) -> None:
    """Raise Forbidden if a write by hand that was lost has no room in a quota any more."""
    if isinstance(write, Put) and isinstance(write.new, Binding):
        check_binding(state, write.new, write.old, settings)


def guards(state: State, writes: Iterable[Put | Delete], settings: Settings) -> tuple[QuotaGuard, ...]:
    """Return the conditions under which writes by hand are stored: quotas still have room for them then.

    There are none while the gate FederatedQuotaEnforcement is off. One query for each binding that requests more than
    before.
    """
    found: list[QuotaGuard] = []
    for write in writes if settings.gate(ENFORCEMENT_GATE) else ():
        if not isinstance(write, Put) or not isinstance(write.new, Binding):
            continue
        before = write.old if isinstance(write.old, Binding) else None
        namespace = write.new.metadata.namespace
        if any(change > 0 for change in changes(before, write.new).values()):
            quotas = state.by_index(FEDERATED_QUOTA, "namespace", [namespace]).get(namespace, ())
            found += quota_guards(quotas, before, write.new)
    return tuple(found)


def warnings(state: State, new: Any, settings: Settings) -> tuple[str, ...]:
    """Return the warnings about an admitted quota: it is exceeded already, or names clusters that do not exist."""
    found = list[str]()
    if settings.gate(ENFORCEMENT_GATE):
        namespace = new.metadata.namespace
        used = overall_used(new, state.quota_use([namespace]).get(namespace, NO_USE))
        over = {name: text for name, text in used.items() if amount(text) > amount(new.spec.overall[name])}
        if over:
            limits = shown({name: new.spec.overall[name] for name in over})
            found.append(
                f"namespace {namespace} already uses more than spec.overall allows, used: {shown(over)}, limited: "
                f"{limits}: nothing is removed, and nothing more is placed"
            )
    named = [Ref(CLUSTER, "", item.cluster_name) for item in new.spec.static_assignments]
    known = state.get(named) if named else {}
    unknown = ", ".join(dict.fromkeys(f'"{ref.name}"' for ref in named if ref not in known))
    if unknown:
        found.append(f"spec.staticAssignments: there is no cluster {unknown} (yet); see kubectl get clusters")
    return tuple(found)


def deletion_warnings(quota: Any) -> tuple[str, ...]:
    """Return the warning that the deletion of a quota removes its limits from clusters."""
    clusters = sorted({item.cluster_name for item in quota.spec.static_assignments})
    if not clusters:
        return ()
    shown_first = ", ".join(clusters[:5]) + (f" and {len(clusters) - 5} more" if len(clusters) > 5 else "")
    return (f"this deletion removes the ResourceQuota {quota.metadata.name} from {shown_first}",)
