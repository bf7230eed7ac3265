"""Brings the store of an agent in line with the control plane: Works, the Cluster, definitions of kinds, rules."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import msgspec
import orjson
from msgspec.structs import replace

from apps.agent.control_plane import ControlPlane, Document
from apps.agent.credentials import Access
from apps.agent.store import AgentStore
from controlplane.apimachinery.equality import same
from controlplane.apimachinery.meta import ObjectMeta
from controlplane.apimachinery.names import CLUSTER_NAMESPACE, UNREADABLE_ANNOTATION, execution_namespace
from controlplane.interpret import INTERPRETERS
from controlplane.kind import decode, text_of
from controlplane.kinds import CLUSTER, DEFINITION, INTERPRETER_CUSTOMIZATION, INTERPRETER_WEBHOOKS, KINDS, WORK
from controlplane.kinds.cluster import PUSH, Cluster, SecretReference
from controlplane.kinds.template import Template
from controlplane.kinds.template.secret_data import encoded
from controlplane.kinds.work import Work
from controlplane.propagation.definitions import kinds_of

log = logging.getLogger(__name__)

RULES = (DEFINITION, INTERPRETER_CUSTOMIZATION, INTERPRETER_WEBHOOKS)
"""Kinds that say what an agent needs to know about the kinds of its Works."""


class Mirror:
    """Writes to the store what the control plane has. `in_thread` calls a function in the thread of the store."""

    def __init__(
        self,
        store: AgentStore,
        control_plane: ControlPlane,
        member: Access,
        *,
        in_thread: Callable[..., Awaitable[Any]],
    ) -> None:
        self._store = store
        self._control_plane = control_plane
        self.member = member
        self._in_thread = in_thread
        self._withheld: set[str] = set()  # Works that the control plane could not read; their objects stay as they are

    async def works(self) -> None:
        """Follow the Works of the cluster until cancelled.

        The Works on disk are taken over together with the first list, or if there is none because the control plane is
        away. The disk may be out of date: an object that was removed meanwhile would be applied again for a Work that
        does not exist any more, and stay.
        """

        async def listed(items: list[Document]) -> None:
            await self._in_thread(self._list_works, items)

        async def changed(type_: str, item: Document) -> None:
            await self._in_thread(self._change_work, type_, item)

        async def unread() -> None:
            await self._in_thread(self._store.load, WORK)

        def is_whole() -> bool:
            return not self._withheld

        path = self._control_plane.works
        await self._control_plane.follow(path, listed, changed, unread=unread, is_whole=is_whole)

    async def rules(self, key: str) -> None:
        """Follow the objects of a kind of `RULES` until cancelled. `key`: the key of that kind."""
        resource = KINDS[key].resource
        path = f"/apis/{resource.group}/{resource.version}/{resource.plural}"

        async def listed(items: list[Document]) -> None:
            await self._in_thread(self._list_rules, key, items)

        async def changed(type_: str, item: Document) -> None:
            await self._in_thread(self._change_rule, key, type_, item)

        await self._control_plane.follow(path, listed, changed)

    def cluster(self, document: Document) -> None:
        """Store the Cluster, as one that is called directly, with the credentials of the member.

        A Ready that is Unknown says nothing about the member: its first probe counts at once.
        """
        found: Cluster | None = _object(CLUSTER, document)
        if found is None:
            return
        secret = SecretReference(CLUSTER_NAMESPACE, found.metadata.name)
        own = found.with_spec(
            sync_mode=PUSH,
            api_endpoint=self.member.server,
            secret_ref=secret,
            insecure_skip_tls_verification=self.member.insecure,
            proxy_url="",
            proxy_header={},
        )
        status = replace(
            found.status, conditions=tuple(one for one in found.status.conditions if one.status != "Unknown")
        )
        metadata = replace(own.metadata, generation=found.metadata.generation)
        self._store.mirror(replace(own, metadata=metadata, status=status))
        kept = self._store.objects[found.ref]
        if isinstance(kept, Cluster) and kept.ready != found.ready and self._store.knows_ready(found.ref):
            self._store.outgoing[found.ref] = None  # for example Unknown, because the agent was silent

    def credentials(self) -> None:
        """Store the Secret with the credentials of the member, which the cluster renews from time to time."""
        name = self._control_plane.cluster
        meta = ObjectMeta(name=name, namespace=CLUSTER_NAMESPACE, uid="member")
        data = {"token": encoded(self.member.token), "caBundle": encoded(self.member.authority)}
        self._store.mirror(Template("v1", "Secret", meta, {"data": data}))

    def _list_works(self, items: Iterable[Document]) -> None:
        """Store all Works. A status that differs from the reported one, after an outage, is reported again."""
        listed = list(items)
        self._store.load(WORK)
        self._withheld.clear()
        for work in filter(None, map(self._work, listed)):
            self._store.mirror(work)
            kept = self._store.objects.get(work.ref)
            if kept is not None and not same(_status(kept), _status(work)):
                self._store.outgoing[work.ref] = None
        namespace = execution_namespace(self._control_plane.cluster)
        self._forget_others(self._store.list(WORK, namespace=namespace), listed)

    def _change_work(self, type_: str, item: Document) -> None:
        work = _object(WORK, item) if type_ == "DELETED" else self._work(item)
        if work is None:
            return
        if type_ == "DELETED":
            self._withheld.discard(work.metadata.name)
            self._store.forget(work.ref)
        else:
            self._store.mirror(work)

    def _work(self, item: Document) -> Work | None:
        """Return the Work of a document; None: it stays as it was, because it cannot be read, here or by the control
        plane."""
        work: Work | None = _object(WORK, item)
        if work is None:
            return None
        name = work.metadata.name
        if UNREADABLE_ANNOTATION not in work.metadata.annotations:
            self._withheld.discard(name)
            return work
        if name not in self._withheld:
            log.error("the Work %s stays as it was: the control plane lacks the key of its Secret", name)
        self._withheld.add(name)
        return None

    def _list_rules(self, key: str, items: Iterable[Document]) -> None:
        listed = list(items)
        for rule in filter(None, (_object(key, item) for item in listed)):
            self._store.mirror(rule)
        self._forget_others(self._store.list(key), listed)
        self.use_rules()

    def _change_rule(self, key: str, type_: str, item: Document) -> None:
        rule = _object(key, item)
        if rule is None:
            return
        if type_ == "DELETED":
            self._store.forget(rule.ref)
        else:
            self._store.mirror(rule)
        self.use_rules()

    def _forget_others(self, known: Iterable[Any], listed: Iterable[Document]) -> None:
        """Forget the known objects that are not listed. An object that cannot be read is listed as well."""
        names = {(item.get("metadata") or {}).get("name") for item in listed}
        for ref in [obj.ref for obj in known if obj.metadata.name not in names]:
            self._store.forget(ref)

    def use_rules(self) -> None:
        """Bring the registries of this process up to date."""
        KINDS.set_custom(kinds_of(self._store.list(DEFINITION)))
        hooks = [
            (each.metadata.name, webhook)
            for each in self._store.list(INTERPRETER_WEBHOOKS)
            for webhook in each.webhooks
        ]
        INTERPRETERS.set_rules(self._store.list(INTERPRETER_CUSTOMIZATION), hooks)


def _object(key: str, item: Document) -> Any:
    """Return the object of a document; None: this version of the agent cannot read it, which must not stop the others.

    Lists leave apiVersion and kind out.
    """
    resource = KINDS[key].resource
    api_version = f"{resource.group}/{resource.version}" if resource.group else resource.version
    try:
        return decode(KINDS[key], orjson.dumps({"apiVersion": api_version, "kind": resource.kind, **item}))
    except msgspec.ValidationError as error:
        name = (item.get("metadata") or {}).get("name")
        log.error("the %s %s cannot be read and stays as it was: %s; update the agent", resource.kind, name, error)
        return None


def _status(work: Any) -> Any:
    return orjson.loads(text_of(work)).get("status")
