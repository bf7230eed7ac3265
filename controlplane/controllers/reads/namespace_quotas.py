"""FederatedResourceQuotas of namespaces and what is used of them; the bindings that wait for room in a quota."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from controlplane.apimachinery.meta import Ref, Struct
from controlplane.engine.controller import cursor_after, page
from controlplane.engine.decision import QuotaGuard
from controlplane.engine.quota_conflicts import quota_guards
from controlplane.engine.state import State
from controlplane.estimate.quota import NO_USE, Excess, Use, changes, difference, excess, total, use_of_evicted
from controlplane.kinds import FEDERATED_QUOTA, RESOURCE_BINDING
from controlplane.kinds.binding import Binding
from controlplane.kinds.binding.quota_index import OVER_QUOTA
from controlplane.kinds.federated_quota import FederatedResourceQuota, amount
from controlplane.kinds.rows import CapacityReservation


class NamespaceQuotas(Struct, frozen=True):
    """The quotas of namespaces, and what is used in the namespaces that have some. Both by namespace."""

    quotas: Mapping[str, Sequence[FederatedResourceQuota]] = {}
    used: Mapping[str, Use] = {}

    def room(self) -> Room:
        """Return the room that these quotas leave, to be taken by one binding after the other."""
        return Room(self)

    def exceeded(self, namespace: str, more: Use) -> Excess | None:
        """Return the quota of a namespace that `more` would exceed; None: there is room."""
        listed = self.quotas.get(namespace)
        return excess(listed, self.used.get(namespace, NO_USE), more) if listed and more else None


NO_QUOTAS = NamespaceQuotas()


class Room:
    """What quotas leave while a batch of bindings is decided. It is mutable."""

    __slots__ = ("_quotas", "_used")

    def __init__(self, quotas: NamespaceQuotas) -> None:
        self._quotas = quotas.quotas
        self._used = {namespace: dict(used) for namespace, used in quotas.used.items()}

    def take(
        self,
        before: Binding,
        after: Binding,
        *,
        reserved: Collection[CapacityReservation] | None = None,
        leaving: Collection[str] = (),
    ) -> Excess | None:
        """Return the quota that a change of a binding would exceed. None: there is room, which is now taken.

        `reserved`: what evictions have reserved for the binding. Evicted copies that are placed again are no growth.
        None: they are growth. `leaving`: as in `evicted_replicas`.
        """
        namespace = before.metadata.namespace
        listed = self._quotas.get(namespace)
        if not listed:
            return None
        more, used = changes(before, after), self._used.setdefault(namespace, {})
        if moved := _moved(before, reserved, leaving):
            found = excess(listed, total(used, moved), difference(more, moved))
        else:
            found = excess(listed, used, more)
        if found is None:
            for resource, change in more.items():
                used[resource] = used.get(resource, 0) + change
        return found

    def guards(
        self,
        before: Binding,
        after: Binding,
        *,
        reserved: Collection[CapacityReservation] | None = None,
        leaving: Collection[str] = (),
    ) -> tuple[QuotaGuard, ...]:
        """Return the condition under which a change of a binding is stored: its quotas still have room for it.

        `reserved` and `leaving`: as in `take`.
        """
        listed = self._quotas.get(before.metadata.namespace)
        return quota_guards(listed, before, after, moved=_moved(before, reserved, leaving)) if listed else ()


def _moved(before: Binding, reserved: Collection[CapacityReservation] | None, leaving: Collection[str]) -> Use:
    return NO_USE if reserved is None else use_of_evicted(before, reserved, leaving)


def namespace_quotas(state: State, refs: Iterable[Ref]) -> NamespaceQuotas:
    """Return the quotas of the namespaces of these objects. If they have none, the use is not read."""
    quotas = quotas_of(state, refs)
    return NamespaceQuotas(quotas, state.quota_use(sorted(quotas))) if quotas else NO_QUOTAS


def quotas_of(state: State, refs: Iterable[Ref]) -> dict[str, Sequence[FederatedResourceQuota]]:
    """Return the quotas of the namespaces of these objects, by namespace."""
    namespaces = sorted({ref.namespace for ref in refs if ref.namespace})
    return state.by_index(FEDERATED_QUOTA, "namespace", namespaces) if namespaces else {}


def room_in_quota(old: FederatedResourceQuota | None, new: FederatedResourceQuota | None) -> Iterator[Ref]:
    """Yield a quota whose namespace may have more room than before: the quota was deleted, was edited, or is less
    used. The bindings that wait for room are then due."""
    if old is None:
        return
    if new is None or old.metadata.deletion_timestamp != new.metadata.deletion_timestamp:
        yield old.ref
        return
    if old.spec.overall != new.spec.overall or _is_less_used(old.status.overall_used, new.status.overall_used):
        yield new.ref


def _is_less_used(before: Mapping[str, str], after: Mapping[str, str]) -> bool:
    return any(name not in after or amount(after[name]) < amount(text) for name, text in before.items())


def bindings_over_quota(state: State, quota: Ref, *, after: str, limit: int) -> tuple[list[Ref], str | None]:
    """Return one page of the bindings in the namespace of a quota that wait for room in quotas, and its cursor."""
    refs = state.refs_by_index(RESOURCE_BINDING, OVER_QUOTA, quota.namespace, after=cursor_after(after), limit=limit)
    return page(refs, limit=limit)
