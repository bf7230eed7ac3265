"""The verbs of the Kubernetes API on one member, from a Request to an Answer, without network access."""

from __future__ import annotations

import base64
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec
import orjson
import yaml

from apps.simulator import pod_streams, reviews, strategies, typed
from apps.simulator.objects import Objects, Writer
from apps.simulator.requests import Request, Target, nothing_here
from apps.simulator.store import Stored, key_of
from controlplane.apimachinery.causes import invalid
from controlplane.apimachinery.errors import BadRequest, Expired, Invalid, MethodNotAllowed, StatusError
from controlplane.wire import protobuf, scale
from controlplane.wire.body import decode_body
from controlplane.wire.negotiate import YAML, Representation, media_type_of, representation
from controlplane.wire.patch import APPLY_PATCH, apply_patch, patch_type_of
from controlplane.wire.prune import prune, undeclared, validate_fields
from controlplane.wire.request import complete_from_url
from controlplane.wire.resource import Resource
from controlplane.wire.status import success
from controlplane.wire.structured import DuplicateItem
from controlplane.wire.table import include_object_of, partial_object_metadata, partial_object_metadata_list, table

Document = dict[str, Any]

_OMITTED = (
    "annotations",
    "finalizers",
    "labels",
    "ownerReferences",
)  # fields of metadata that are removed if they are empty


class Answer(msgspec.Struct, frozen=True):
    """An answer: body, status, content type and warnings."""

    body: bytes
    status: int = 200
    content_type: str = "application/json"
    warnings: tuple[str, ...] = ()


class Untyped(StatusError):
    """Server-side apply of a document whose field owners cannot be computed. kube-apiserver gives no reason."""

    code, reason = 500, ""

    def __init__(self, target: Target, faults: list[str]) -> None:
        resource = target.resource
        about = f"{target.namespace}/{target.name}; {resource.group}/{resource.version}, Kind={resource.kind}"
        text = faults[0] if len(faults) == 1 else "errors:" + "".join(f"\n  {fault}" for fault in faults)
        super().__init__(f"failed to create typed patch object ({about}): {text}")


class Rest:
    """The REST verbs of one member."""

    def __init__(self, objects: Objects, *, tokens: set[str]) -> None:
        self.objects = objects
        self.tokens = tokens
        self._special_subresources: dict[str, Callable[[Request], Answer]] = {
            "eviction": self._evict,
            "finalize": self._finalize,
            "log": self._log,
            "scale": self._scale,
            "token": self._token,
        }

    def answer(self, request: Request) -> Answer:
        """Return the answer to a request that is not a watch. Raises StatusErrors."""
        target = request.target
        if target.subresource:
            return self._subresource(request)
        if "create" in target.resource.verbs and len(target.resource.verbs) == 1:
            return self._review(request)
        verb = (request.method, bool(target.name))
        if verb == ("GET", True):
            return self._shown(request, self._live(request))
        if verb == ("GET", False):
            return self._list(request)
        if verb == ("POST", False):
            return self._create(request)
        if verb == ("PUT", True):
            return self._update(request)
        if verb == ("PATCH", True):
            return self._patch(request)
        if verb == ("DELETE", True):
            return self._delete(request)
        if verb == ("DELETE", False):
            return self._delete_collection(request)
        raise MethodNotAllowed(f"the server does not allow {request.method} on {target.resource.plural} here")

    def _live(self, request: Request) -> Stored:
        target = request.target
        return self.objects.find(target.resource, target.namespace, target.name)

    def _list(self, request: Request) -> Answer:
        target, choice = request.target, request.choice
        found = [
            stored
            for stored in self.objects.store.all(target.resource.key, target.namespace)
            if choice.takes(stored.document)
        ]
        list_meta, page = self._page(request, found)
        form = representation(request.accept)
        if form.convert == "Table":
            return self._table(request, page, list_meta, form)
        if form.convert:
            return _encoded(partial_object_metadata_list((stored.document for stored in page), list_meta), form)
        head = {"kind": target.resource.list_kind, "apiVersion": target.resource.api_version, "metadata": list_meta}
        if form.media_type == YAML:
            return _encoded({**head, "items": [stored.document for stored in page]}, form)
        texts = b",".join([stored.text for stored in page])
        return Answer(orjson.dumps(head)[:-1] + b',"items":[' + texts + b"]}")

    def _chosen(self, request: Request) -> list[Stored]:
        target, choice = request.target, request.choice
        stored = self.objects.store.all(target.resource.key, target.namespace)
        return [item for item in stored if choice.takes(item.document)]

    def _page(self, request: Request, found: list[Stored]) -> tuple[Document, list[Stored]]:
        """Return a page of a list and its metadata. The token has the version of the first page and the next key."""
        store = self.objects.store
        version, start = store.version, ("", "")
        token = request.query.get("continue", "")
        if token:
            try:
                version, namespace, name = orjson.loads(base64.urlsafe_b64decode(token))
                start = (namespace, name)
            except (ValueError, TypeError):
                raise BadRequest("query parameter continue is not a token of this server") from None
            if version < store.trimmed:
                raise Expired("The provided continue parameter is too old: list again from the start")
            found = [item for item in found if key_of(item.document) >= start]
        limit = request.number("limit")
        meta: Document = {"resourceVersion": str(version)}
        if limit and len(found) > limit:
            following = orjson.dumps([version, *key_of(found[limit].document)])
            meta["continue"] = base64.urlsafe_b64encode(following).decode()
            if not request.choice.selects:
                meta["remainingItemCount"] = len(found) - limit
            found = found[:limit]
        return meta, found

    def _table(self, request: Request, page: list[Stored], list_meta: Document, form: Representation) -> Answer:
        shown = table(
            request.target.resource,
            (item.document for item in page),
            now=datetime.now(UTC),
            include_object=include_object_of(request.query.get("includeObject")),
            list_meta=list_meta,
        )
        return _encoded(shown, form)

    def _shown(self, request: Request, stored: Stored, *, status: int = 200, warnings: tuple[str, ...] = ()) -> Answer:
        form = representation(request.accept)
        if form.convert == "Table":
            version = stored.document["metadata"].get("resourceVersion", "")
            return self._table(request, [stored], {"resourceVersion": version}, form)
        if form.convert:
            return _encoded(partial_object_metadata(stored.document), form)
        if stored.text and form.media_type != YAML:
            return Answer(stored.text, status, warnings=warnings)
        made = _encoded(stored.document, form)
        return msgspec.structs.replace(made, status=status, warnings=warnings)

    def _decoded(self, request: Request) -> tuple[Document, tuple[str, ...]]:
        """Return the object in the body without unknown fields, and the warnings of fieldValidation."""
        validation = request.query.get("fieldValidation") or "Warn"
        if validation not in ("Strict", "Warn", "Ignore"):
            raise BadRequest(f"query parameter fieldValidation={validation!r} is not one of Ignore, Strict, Warn")
        duplicates: list[str] = []
        if media_type_of(request.content_type) == protobuf.MEDIA_TYPE:
            document = protobuf.decode(request.body)
        else:
            document = decode_body(request.content_type, request.body, duplicates=duplicates)
        return self._known(request.target.resource, self._about(request, document), duplicates, validation)

    def _known(
        self, resource: Resource, document: Document, complaints: list[str], validation: str
    ) -> tuple[Document, tuple[str, ...]]:
        schema = self.objects.catalogue.schema(resource)
        wrong = typed.mistyped(document, schema)
        if wrong:
            raise BadRequest(
                f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: {wrong[0]}'
            )
        if validation != "Ignore":
            complaints = [*complaints, *validate_fields(document, schema)]
        if complaints and validation == "Strict":
            detail = f"strict decoding error: {', '.join(complaints)}"
            raise BadRequest(
                f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: {detail}'
            )
        return prune(document, schema), tuple(complaints) if validation == "Warn" else ()

    def _about(self, request: Request, document: Document) -> Document:
        target = request.target
        resource, kind = target.resource, document.get("kind")
        is_custom = self.objects.catalogue.is_custom(resource) and document.get("apiVersion") == resource.api_version
        if is_custom and kind not in (None, "", resource.kind):  # custom resources are validated after decoding
            cause = invalid("kind", kind, f"must be {resource.kind}")
            raise Invalid.of(resource.kind, target.name, [cause], group=resource.group)
        made = complete_from_url(document, target.resource, namespace=target.namespace, name=target.name)
        metadata = {name: value for name, value in made["metadata"].items() if name not in _OMITTED or value}
        return {**made, "metadata": metadata}

    def _create(self, request: Request) -> Answer:
        document, warnings = self._decoded(request)
        stored = self._filled(request, self.objects.create(request.target.resource, document, request.writer))
        return self._shown(request, stored, status=201, warnings=warnings)

    def _update(self, request: Request) -> Answer:
        document, warnings = self._decoded(request)
        live = self._live(request)
        return self._shown(
            request, self.objects.update(request.target.resource, live, document, request.writer), warnings=warnings
        )

    def _patch(self, request: Request) -> Answer:
        target = request.target
        if media_type_of(request.content_type) == APPLY_PATCH:
            if not request.query.get("fieldManager"):
                detail = "fieldManager: Required value: is required for apply patch"
                raise Invalid(f"PatchOptions.meta.k8s.io is invalid: {detail}")
            return self._apply(request)
        catalogue = self.objects.catalogue
        schema = None if catalogue.is_custom(target.resource) else catalogue.schema(target.resource)
        patch_type_of(request.content_type, schema)
        live = self._live(request)
        patched = apply_patch(request.content_type, live.document, request.body, schema)
        known, warnings = self._patched(request, patched)
        stored = self.objects.update(target.resource, live, known, request.writer, is_patch=True)
        return self._shown(request, stored, warnings=warnings)

    def _patched(self, request: Request, document: Document) -> tuple[Document, tuple[str, ...]]:
        """Return a patched object without unknown fields. Raises Invalid if it cannot be decoded any more."""
        resource = request.target.resource
        wrong = typed.mistyped(document, self.objects.catalogue.schema(resource))
        if (document.get("kind"), document.get("apiVersion")) != (resource.kind, resource.api_version):
            wrong.insert(0, f"the patched object is a {document.get('kind')} of {document.get('apiVersion')}")
        if wrong:
            raise Invalid(f"the patch cannot be applied: {wrong[0]}")
        validation = request.query.get("fieldValidation") or "Warn"
        return self._known(resource, self._about(request, document), [], validation)

    def _apply(self, request: Request) -> Answer:
        """Apply the body server-side. Raises Untyped if its field owners cannot be computed."""
        target, objects = request.target, self.objects
        intent = self._about(request, decode_body(request.content_type, request.body, duplicates=[]))
        unknown = undeclared(intent, objects.catalogue.schema(target.resource))
        if unknown:
            raise Untyped(target, [f"{path}: field not declared in schema" for path in unknown])
        wrong = typed.unmergeable(intent, objects.catalogue.schema(target.resource))
        if wrong:
            raise Untyped(target, wrong)
        try:
            stored, created = objects.apply(target.resource, target.namespace, target.name, intent, request.writer)
        except DuplicateItem as error:
            raise Untyped(target, [error.where]) from None
        if created:
            stored = self._filled(request, stored)
        return self._shown(request, stored, status=201 if created else 200)

    def _filled(self, request: Request, stored: Stored) -> Stored:
        """Return a new object; a Secret for a ServiceAccount's token with its token, which the member accepts."""
        is_token = request.target.resource.key == "Secret" and stored.document.get("type") == reviews.TOKEN_SECRET
        if not is_token or request.writer.dry_run:
            return stored
        document = reviews.with_token(stored.document, self.tokens)
        return self.objects.update(request.target.resource, stored, document, Writer("kube-controller-manager"))

    def _delete(self, request: Request) -> Answer:
        live = self._live(request)
        resource = request.target.resource
        held = self.objects.delete(resource, live, self._delete_options(request), dry_run=request.writer.dry_run)
        if held is not None:
            return self._shown(request, held)
        if resource.key in strategies.RETURNED:
            return self._shown(request, strategies.deleted(resource, live))
        metadata = live.document["metadata"]
        done = success(kind=resource.plural, name=metadata["name"], group=resource.group, uid=metadata["uid"])
        return Answer(orjson.dumps(done))

    def _delete_collection(self, request: Request) -> Answer:
        target, choice = request.target, request.choice
        options = self._delete_options(request)
        chosen = [
            item
            for item in self.objects.store.all(target.resource.key, target.namespace)
            if choice.takes(item.document)
        ]
        for stored in chosen:
            self.objects.delete(target.resource, stored, options, dry_run=request.writer.dry_run)
        head = {"kind": target.resource.list_kind, "apiVersion": target.resource.api_version}
        meta = {"resourceVersion": str(self.objects.store.version)}
        return Answer(orjson.dumps({**head, "metadata": meta, "items": [item.document for item in chosen]}))

    def _delete_options(self, request: Request) -> Document:
        options: Document = {}
        if request.body.strip():
            is_protobuf = media_type_of(request.content_type) == protobuf.MEDIA_TYPE
            options = protobuf.decode(request.body) if is_protobuf else decode_body(request.content_type, request.body)
        for name in ("propagationPolicy", "orphanDependents"):
            if request.query.get(name):
                options[name] = request.flag(name) if name == "orphanDependents" else request.query[name]
        return options

    def _subresource(self, request: Request) -> Answer:
        """Answer a request for a subresource. Raises NotFound if the kind does not declare the subresource."""
        target = request.target
        if target.subresource not in target.resource.subresources:
            raise nothing_here()
        if request.method not in target.resource.methods(has_name=True, subresource=target.subresource):
            raise MethodNotAllowed(f"the server does not allow {request.method} on {target.subresource}")
        special = self._special_subresources.get(target.subresource)
        if special is not None:
            return special(request)
        if request.method == "GET":
            return self._shown(request, self._live(request))
        return self._update(request) if request.method == "PUT" else self._patch(request)

    def _token(self, request: Request) -> Answer:
        self._live(request)
        return Answer(orjson.dumps(reviews.token_request(self._plain(request), self.tokens)), 201)

    def _evict(self, request: Request) -> Answer:
        target = request.target
        self.objects.delete(target.resource, self._live(request), {}, dry_run=request.writer.dry_run)
        evicted = success(kind=target.resource.plural, name=target.name)
        return Answer(orjson.dumps({**evicted, "code": 201}), 201)

    def _log(self, request: Request) -> Answer:
        self._live(request)
        return Answer(pod_streams.log_text(request.target.name).encode(), content_type="text/plain")

    def _finalize(self, request: Request) -> Answer:
        return self._shown(request, self._live(request))

    def _scale(self, request: Request) -> Answer:
        live = self._live(request)
        resource = request.target.resource
        current = scale.scale_of(live.document, resource)
        if request.method == "GET":
            return Answer(orjson.dumps(current))
        if request.method == "PUT":
            wanted = self._plain(request)
        else:
            wanted = scale.patched(request.content_type, current, request.body)
        document = scale.scaled(live.document, wanted, resource)
        stored = self.objects.update(resource, live, document, request.writer)
        return Answer(orjson.dumps(scale.scale_of(stored.document, resource)))

    def _review(self, request: Request) -> Answer:
        if request.method != "POST":
            raise MethodNotAllowed(f"{request.target.resource.plural} can only be created")
        answered = reviews.answer(request.target.resource, self._plain(request), self.tokens, request.impersonated)
        return Answer(orjson.dumps(answered), 201)

    def _plain(self, request: Request) -> Document:
        if media_type_of(request.content_type) == protobuf.MEDIA_TYPE:
            return protobuf.decode(request.body)
        return decode_body(request.content_type, request.body)


def _encoded(document: Document, form: Representation) -> Answer:
    if form.media_type == YAML:
        text = yaml.dump(document, Dumper=yaml.CSafeDumper, sort_keys=True)
        return Answer(text.encode(), content_type=YAML)
    return Answer(orjson.dumps(document), content_type=form.content_type)
