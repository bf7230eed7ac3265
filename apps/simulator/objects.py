"""Writes of objects as in kube-apiserver: names, uids, generations, finalizers, defaults, deletion."""

from __future__ import annotations

import secrets
import uuid
from datetime import UTC, datetime
from typing import Any

import msgspec

from apps.simulator import metadata_rules, network_rules, pod_admission, rules, strategies
from apps.simulator.catalogue import DEFINITIONS, Catalogue
from apps.simulator.defaults import defaulted
from apps.simulator.preparation import prepared
from apps.simulator.store import Store, Stored, key_of
from controlplane.apimachinery.equality import same
from controlplane.apimachinery.errors import AlreadyExists, Conflict, Invalid, MethodNotAllowed, NotFound, StatusError
from controlplane.wire import definition_rules, document_check
from controlplane.wire.definition import CLEANUP_FINALIZER
from controlplane.wire.managed_fields import server_side_apply, track
from controlplane.wire.namespace_check import check_accepts_objects
from controlplane.wire.resource import Resource
from controlplane.wire.structural import filled

Document = dict[str, Any]

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"
_KEPT = ("uid", "creationTimestamp", "selfLink", "deletionTimestamp", "deletionGracePeriodSeconds")
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"  # for generated names: without vowels, so that no words appear


class Unexpected(StatusError):
    """An error for which kube-apiserver has no code and no reason: clients see a 500."""

    code, reason = 500, ""


class Writer(msgspec.Struct, frozen=True):
    """The field manager of a write, its subresource, and whether it is a dry run."""

    manager: str
    subresource: str = ""
    dry_run: bool = False
    force: bool = False


class Objects:
    """The writes of an API server, on the store of a member."""

    def __init__(self, store: Store, catalogue: Catalogue) -> None:
        self.store = store
        self.catalogue = catalogue

    def find(self, resource: Resource, namespace: str, name: str) -> Stored:
        """Return an object. Raises NotFound."""
        stored = self.store.get(resource.key, namespace, name)
        if stored is None:
            raise NotFound.of(resource.plural, name, group=resource.group)
        return stored

    def create(self, resource: Resource, document: Document, writer: Writer) -> Stored:
        """Store a new object. Raises AlreadyExists, Invalid, BadRequest, or NotFound if its namespace is missing."""
        self._check_kind(resource)
        document = self._named(resource, document)
        namespace, name = key_of(document)
        if self.store.get(resource.key, namespace, name) is not None:
            raise AlreadyExists.of(resource.plural, name, group=resource.group)
        if document["metadata"].get("resourceVersion"):
            raise Unexpected("resourceVersion should not be set on objects to be created")
        fresh = self._fresh(resource, document)
        made = track(None, fresh, manager=writer.manager, **self._words(resource, writer))
        return self._keep(resource, self._admitted(resource, made, None), writer)

    def update(
        self, resource: Resource, live: Stored, document: Document, writer: Writer, *, is_patch: bool = False
    ) -> Stored:
        """Replace an object. Raises Invalid, or Conflict if `document` was made from an older version.

        A different uid is a conflict in an update, and an immutable field in a patch.
        """
        if is_patch:
            was = live.document["metadata"]
            uid_causes = list(metadata_rules.uid_causes(document.get("metadata") or {}, was))
            if uid_causes:
                raise Invalid.of(resource.kind, was["name"], uid_causes, group=resource.group)
        document = self._based_on(resource, live, document, writer)
        made = track(live.document, document, manager=writer.manager, **self._words(resource, writer))
        return self._replace(resource, live, made, writer)

    def apply(
        self, resource: Resource, namespace: str, name: str, intent: Document, writer: Writer
    ) -> tuple[Stored, bool]:
        """Apply an object server-side. Return it and whether it is new. Raises Conflict, Invalid."""
        live = self.store.get(resource.key, namespace, name)
        if live is None and writer.subresource:
            raise NotFound.of(resource.plural, name, group=resource.group)
        resets = ("status",) if "status" in resource.subresources and writer.subresource != "status" else ()
        words = self._words(resource, writer)
        if live is None:
            self._check_kind(resource)
            if uid := (intent.get("metadata") or {}).get("uid"):
                why = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
                raise Conflict.of(resource.plural, name, group=resource.group, why=why)
            document = self._named(resource, {**intent, "metadata": {**(intent.get("metadata") or {}), "name": name}})
            made = server_side_apply(None, document, manager=writer.manager, force=True, resets=resets, **words)
            stamped = self._admitted(resource, self._fresh(resource, made), None)
            return self._keep(resource, stamped, writer), True
        metadata = intent.get("metadata") or {}
        causes = list(metadata_rules.uid_causes(metadata, live.document["metadata"]))
        if causes:
            raise Invalid.of(resource.kind, name, causes, group=resource.group)
        version = metadata.get("resourceVersion")
        if version and version != live.document["metadata"]["resourceVersion"]:
            raise Conflict.of(resource.plural, name, group=resource.group)
        made = server_side_apply(
            live.document, intent, manager=writer.manager, force=writer.force, resets=resets, **words
        )
        return (live if made is live.document else self._replace(resource, live, made, writer)), False

    def set_status(self, resource: Resource, live: Stored, status: Document) -> Stored:
        """Store a status that a controller of the member reports, if it changed."""
        if same(live.document.get("status"), status):
            return live
        return self.store.put(resource, {**live.document, "status": status})

    def delete(self, resource: Resource, live: Stored, options: Document, *, dry_run: bool = False) -> Stored | None:
        """Delete an object. None: it was removed, or would be without `dry_run`.

        Otherwise return the object that waits for its finalizers, or in a dry run the object as it is. A Namespace
        always waits, and a CustomResourceDefinition when it is first deleted. Raises Conflict if a precondition fails.
        """
        metadata = live.document["metadata"]
        wanted = options.get("preconditions") or {}
        for field in ("uid", "resourceVersion"):
            if wanted.get(field) not in (None, "", metadata[field]):
                why = f"the {field} in the precondition ({wanted[field]}) is not that of the object ({metadata[field]})"
                raise Conflict.of(
                    resource.plural, metadata["name"], group=resource.group, why=f"Precondition failed: {why}"
                )
        finalizers = _finalizers_of_deletion(resource, metadata.get("finalizers", []), options)
        if resource.key == DEFINITIONS and not metadata.get("deletionTimestamp"):
            finalizers = [*(name for name in finalizers if name != CLEANUP_FINALIZER), CLEANUP_FINALIZER]
        terminating = resource.key == "Namespace"
        if not finalizers and not terminating:
            if not dry_run:
                self.store.remove(resource, *key_of(live.document))
            return None
        if metadata.get("deletionTimestamp") and finalizers == metadata.get("finalizers", []):
            return live
        marked = {**metadata, "deletionTimestamp": metadata.get("deletionTimestamp") or stamp()}
        if not terminating:
            marked["deletionGracePeriodSeconds"] = 0
        if finalizers:
            marked["finalizers"] = finalizers
        if "generation" in metadata and not metadata.get("deletionTimestamp"):
            marked["generation"] = metadata["generation"] + 1
        held = {**live.document, "metadata": marked}
        if terminating:
            held["status"] = {**(held.get("status") or {}), "phase": "Terminating"}
        return live if dry_run else self.store.put(resource, held)

    def _check_kind(self, resource: Resource) -> None:
        if self.catalogue.is_ending(resource):
            raise MethodNotAllowed("create not allowed while custom resource definition is terminating")

    def _named(self, resource: Resource, document: Document) -> Document:
        """Return the document with its final name. Raises Invalid, NotFound or Forbidden."""
        metadata = dict(document.get("metadata") or {})
        if not metadata.get("name") and metadata.get("generateName"):
            metadata["name"] = metadata["generateName"] + "".join(secrets.choice(_LETTERS) for _ in range(5))
        name = metadata.get("name") or ""
        causes = metadata_rules.name_causes(resource, name)
        if causes:
            raise Invalid.of(resource.kind, name, causes, group=resource.group)
        if resource.namespaced:
            self._check_namespace(resource, metadata.get("namespace", ""), name)
        else:
            metadata.pop("namespace", None)
        return {**document, "metadata": metadata}

    def _check_namespace(self, resource: Resource, namespace: str, name: str) -> None:
        home = self.store.get("Namespace", "", namespace)
        is_ending = None if home is None else bool(home.document["metadata"].get("deletionTimestamp"))
        check_accepts_objects(resource, namespace=namespace, name=name, is_ending=is_ending)

    def _fresh(self, resource: Resource, document: Document) -> Document:
        metadata = {key: value for key, value in document["metadata"].items() if key not in (*_KEPT, "resourceVersion")}
        metadata |= {"uid": str(uuid.uuid4()), "creationTimestamp": stamp()}
        protection = strategies.FINALIZERS.get(resource.key)
        if protection and protection not in (metadata.get("finalizers") or ()):
            metadata["finalizers"] = [*(metadata.get("finalizers") or ()), protection]
        if strategies.has_generation(resource):
            metadata["generation"] = 1
        made = {**document, "metadata": metadata}
        if "status" in resource.subresources:
            made.pop("status", None)
        return made

    def _based_on(self, resource: Resource, live: Stored, document: Document, writer: Writer) -> Document:
        """Return the new state. Fields that this endpoint does not write are those of the stored object."""
        was, metadata = live.document["metadata"], dict(document.get("metadata") or {})
        if metadata.get("resourceVersion") not in (None, "", was["resourceVersion"]):
            raise Conflict.of(resource.plural, was["name"], group=resource.group)
        if metadata.get("uid") not in (None, "", was["uid"]):
            why = f"Precondition failed: UID in precondition: {metadata['uid']}, UID in object meta: {was['uid']}"
            raise Conflict.of(resource.plural, was["name"], group=resource.group, why=why)
        if writer.subresource == "status":
            kept = {**was, **({"managedFields": metadata["managedFields"]} if "managedFields" in metadata else {})}
            made = {**live.document, "metadata": kept}
            if "status" in document:
                made["status"] = document["status"]
            return made
        for field in (*_KEPT, "generation", "name", "namespace", "resourceVersion"):
            metadata.pop(field, None)
            if field in was:
                metadata[field] = was[field]
        made = {**document, "metadata": metadata}
        if "status" in resource.subresources:
            made.pop("status", None)
            if "status" in live.document:
                made["status"] = live.document["status"]
        return made

    def _replace(self, resource: Resource, live: Stored, document: Document, writer: Writer) -> Stored:
        """Store a new state if it differs, with a new generation if the intent changed. Return what is stored."""
        made = self._admitted(resource, document, live.document)
        if same(_without_times(made), _without_times(live.document)):
            return live
        if strategies.has_generation(resource) and not same(
            strategies.intent(resource, made), strategies.intent(resource, live.document)
        ):
            generation = live.document["metadata"].get("generation", 0) + 1
            made = {**made, "metadata": {**made["metadata"], "generation": generation}}
        kept = self._keep(resource, made, writer)
        metadata = made["metadata"]
        released = metadata.get("deletionTimestamp") and not metadata.get("finalizers")
        if released and resource.key != "Namespace" and not writer.dry_run:
            self.store.remove(resource, *key_of(made))
        return kept

    def _admitted(self, resource: Resource, document: Document, old: Document | None) -> Document:
        made = {"apiVersion": resource.api_version, "kind": resource.kind, **document}
        if resource.key == "Pod" and old is None:
            made = pod_admission.admitted(made, self.store)
        made = defaulted(resource.key, prepared(resource.key, made, old))
        causes = [*metadata_rules.causes(made["metadata"])]
        causes += rules.causes(resource.key, made, old)
        if resource.key == "Service":
            # Only addresses in the document are checked, not those that the member chooses.
            causes += network_rules.taken(
                document, old, lambda: (service.document for service in self.store.all("Service"))
            )
        if resource.key == DEFINITIONS:
            made = definition_rules.defaulted(made)
            causes += definition_rules.faults(made, old)
        elif self.catalogue.is_custom(resource):
            schema = self.catalogue.schema(resource)
            made = filled(document_check.without_nulls(made, schema), schema)
            causes += document_check.faults(made, schema)
        if causes:
            raise Invalid.of(resource.kind, made["metadata"]["name"], causes, group=resource.group)
        return made

    def _keep(self, resource: Resource, document: Document, writer: Writer) -> Stored:
        if writer.dry_run:
            return Stored(document, b"", self.store.version)
        return self.store.put(resource, document)

    def _words(self, resource: Resource, writer: Writer) -> dict[str, Any]:
        return {
            "schema": self.catalogue.schema(resource),
            "now": datetime.now(UTC),
            "api_version": resource.api_version,
            "subresource": writer.subresource,
        }


def stamp() -> str:
    """Return the present time in RFC 3339."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _without_times(document: Document) -> Document:
    """Return the document without the times in managedFields. A write that changes only these is ignored."""
    metadata = {**document["metadata"]}
    metadata["managedFields"] = [{**entry, "time": ""} for entry in metadata.get("managedFields", ())]
    return {**document, "metadata": metadata}


def _finalizers_of_deletion(resource: Resource, finalizers: list[str], options: Document) -> list[str]:
    policy = options.get("propagationPolicy") or ("Orphan" if options.get("orphanDependents") else "")
    if not policy and "orphanDependents" not in options and resource.key in strategies.ORPHANING:
        policy = "Orphan"
    chosen = {"Foreground": FOREGROUND, "Orphan": ORPHAN}.get(policy)
    kept = [name for name in finalizers if policy == "" or name not in (FOREGROUND, ORPHAN)]
    return [*kept, chosen] if chosen and chosen not in kept else kept
