"""The OpenAPI v3 documents of the API, one per group version, derived from Resources and Schemas.

kubectl reads them for `explain`, for the patches of `apply`, and to find out which query parameters a kind supports.
Every operation therefore names its kind and action, and lists its parameters in full: kubectl does not follow
references to parameters.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import orjson

from controlplane.wire import builtin
from controlplane.wire.resource import (
    COLLECTION_METHODS,
    OBJECT_METHODS,
    SUBRESOURCE_METHODS,
    SUBRESOURCES,
    Resource,
)
from controlplane.wire.schema import REF_PREFIX, Schema
from controlplane.wire.url_patterns import root

Document = dict[str, Any]

META = "io.k8s.apimachinery.pkg.apis.meta.v1."
_GVK = "x-kubernetes-group-version-kind"
_GVK_FIELDS = ("group", "version", "kind")

_PATCHES = ("application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json")
_STRATEGIC = (
    "application/strategic-merge-patch+json"  # kubectl sends it to every kind that offers it, so only built-in kinds do
)
_TEXTS = {
    "allowWatchBookmarks": (
        "boolean",
        "Send bookmarks: events without an object that report the current resourceVersion of the watch.",
    ),
    "continue": (
        "string",
        "The token of the previous page of a list with a limit. The list continues after that page.",
    ),
    "dryRun": ("string", "All: process the request, but do not store the result."),
    "fieldManager": ("string", "The name of the manager that will own the fields set by this request."),
    "fieldSelector": ("string", "Only objects whose fields match this selector."),
    "fieldValidation": ("string", "How to treat unknown and duplicate fields: Ignore, Warn (default) or Strict."),
    "force": ("boolean", "Take over fields that other managers own. Server-side apply only."),
    "gracePeriodSeconds": ("integer", "Seconds before the object is deleted."),
    "labelSelector": ("string", "Only objects whose labels match this selector."),
    "limit": ("integer", "The maximum number of objects. The token in metadata.continue gets the next page."),
    "propagationPolicy": ("string", "How to treat the dependents of the object: Orphan, Background or Foreground."),
    "resourceVersion": (
        "string",
        "The oldest version that a list may show, or the version after which a watch starts.",
    ),
    "resourceVersionMatch": ("string", "How to apply resourceVersion to a list: Exact or NotOlderThan."),
    "sendInitialEvents": ("boolean", "Start a watch with an event for every existing object, followed by a bookmark."),
    "timeoutSeconds": ("integer", "End the list or watch after this many seconds."),
    "watch": ("boolean", "Stream changes as events instead of returning a list."),
}
_WRITE = ("dryRun", "fieldManager", "fieldValidation")
_SELECT = (
    "allowWatchBookmarks",
    "continue",
    "fieldSelector",
    "labelSelector",
    "limit",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "timeoutSeconds",
    "watch",
)
_DELETE = ("dryRun", "gracePeriodSeconds", "propagationPolicy")
# The x-kubernetes-action of each verb, and its query parameters.
_ACTIONS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "list": ("list", _SELECT),
    "create": ("post", _WRITE),
    "deletecollection": ("deletecollection", _SELECT + _DELETE),
    "get": ("get", ()),
    "update": ("put", _WRITE),
    "patch": ("patch", (*_WRITE, "force")),
    "delete": ("delete", _DELETE),
}


class OpenAPI:
    """The documents of a set of resources. Each is built when it is first read, and then kept as bytes.

    When the set changes, for example after a new CustomResourceDefinition, construct another OpenAPI with `reuse`.
    Group versions without changes then keep their bytes.
    """

    def __init__(
        self,
        resources: Iterable[Resource],
        schema_of: Callable[[Resource], Schema],
        *,
        reuse: "OpenAPI | None" = None,
    ) -> None:
        self._served: dict[str, tuple[tuple[Resource, Schema], ...]] = {}
        for resource in resources:
            path = root(resource)
            self._served[path] = (*self._served.get(path, ()), (resource, schema_of(resource)))
        self._documents: dict[str, bytes] = {}
        if reuse is not None:
            unchanged = (path for path in self._served if reuse._served.get(path) == self._served[path])
            self._documents = {path: reuse._documents[path] for path in unchanged if path in reuse._documents}

    @property
    def paths(self) -> list[str]:
        """Return the paths of all documents, for example "api/v1" and "apis/apps/v1"."""
        return list(self._served)

    def index(self) -> Document:
        """Return the answer to GET /openapi/v3: the URL of each document, with the hash of its content."""
        return {
            "paths": {
                path: {"serverRelativeURL": f"/openapi/v3/{path}?hash={self.digest(path)}"} for path in self._served
            }
        }

    def document(self, path: str) -> bytes | None:
        """Return the answer to GET /openapi/v3/<path> as JSON; None: there is no such group version.

        Clients may keep an answer for ever if they asked for it with the hash of the index.
        """
        if path not in self._served:
            return None
        text = self._documents.get(path)
        if text is None:
            text = self._documents[path] = orjson.dumps(document(self._served[path]))
        return text

    def digest(self, path: str) -> str:
        """Return the hash of a document; also used as its ETag. Raises KeyError if there is no such document."""
        text = self.document(path)
        if text is None:
            raise KeyError(path)
        return hashlib.sha256(text).hexdigest()[:32].upper()


def document(served: Iterable[tuple[Resource, Schema]]) -> Document:
    """Return the OpenAPI v3 document of the resources of one group version."""
    components: Document = {}
    paths: Document = {}
    for resource, schema in served:
        name = _add_kind(components, resource, schema)
        paths |= _paths(resource, name)
        for kind in filter(None, (SUBRESOURCES[name].kind for name in resource.subresources)):
            _add_reachable(components, builtin.schema(*kind))
    for shared in ("DeleteOptions", "Status"):
        _add_reachable(components, builtin.schema("", "v1", shared))
    return {
        "openapi": "3.0.0",
        "info": {"title": "Lifeboat", "version": f"v{builtin.KUBERNETES}.0"},
        "paths": paths,
        "components": {"schemas": components},
    }


def component_name(resource: Resource) -> str:
    """Return the name of a resource's schema: as in Kubernetes, or, for other kinds, such as "io.example.v1.Boat"."""
    own = builtin.component_name(resource.group, resource.version, resource.kind)
    if own is not None:
        return own
    return ".".join([*reversed(resource.group.split(".")), resource.version, resource.kind])


def _add_kind(components: Document, resource: Resource, schema: Schema) -> str:
    """Add the schemas of a kind, of its list and of everything in them; return the name of the kind's schema."""
    name = component_name(resource)
    node = dict(schema.node)
    node.setdefault("type", "object")
    properties = dict(node.get("properties", {}))
    for field in ("apiVersion", "kind"):
        properties.setdefault(field, {"type": "string"})
    metadata = properties.get("metadata", {})
    if not ({"$ref", "allOf"} & metadata.keys()):
        properties["metadata"] = {**metadata, "$ref": f"{REF_PREFIX}{META}ObjectMeta"}
        properties["metadata"].pop("type", None)
    node["properties"] = properties
    node["required"] = [field for field in node.get("required", ()) if field not in ("apiVersion", "kind")]
    if not node["required"]:
        del node["required"]
    node[_GVK] = [_kind(resource)]
    components[name] = emitted(node)
    _add_references(components, node, schema)
    _add_reachable(components, builtin.schema("", "v1", "Status"))  # which refers to ListMeta
    components[f"{name}List"] = {
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string"},
            "items": {"type": "array", "items": {"$ref": REF_PREFIX + name}},
            "kind": {"type": "string"},
            "metadata": {"$ref": f"{REF_PREFIX}{META}ListMeta"},
        },
        _GVK: [{**_kind(resource), "kind": resource.list_kind}],
    }
    return name


def _add_reachable(components: Document, schema: Schema) -> None:
    """Add the schema of a built-in kind that has no path of its own, and of everything in it."""
    name = builtin.component_name(*schema.gvks[0])
    assert name is not None, f"{schema.gvks[0]} has no component"
    if name not in components:
        components[name] = emitted(schema.node)
        _add_references(components, schema.node, schema)


def _add_references(components: Document, node: Any, schema: Schema) -> None:
    """Add all components that a node refers to, from its own schema or from the built-in ones."""
    waiting = list(references(node))
    while waiting:
        name = waiting.pop()
        if name in components:
            continue
        known = schema.components if name in schema.components else builtin.components()
        components[name] = emitted(known.schemas[name])
        waiting.extend(references(known.schemas[name]))


def references(node: Any) -> Iterable[str]:
    """Yield the names of the components that a node refers to. A property with the name "$ref" is not a reference."""
    if isinstance(node, Mapping):
        target = node.get("$ref")
        if isinstance(target, str):
            yield target.removeprefix(REF_PREFIX)
        for value in node.values():
            yield from references(value)
    elif isinstance(node, list | tuple):
        for value in node:
            yield from references(value)


def emitted(node: Any) -> Any:
    """Return a node as OpenAPI 3.0 requires it: a reference with other keys beside it is wrapped in allOf."""
    if isinstance(node, Mapping):
        out = {key: emitted(value) for key, value in node.items()}
        if isinstance(out.get("$ref"), str) and len(out) > 1:
            out["allOf"] = [{"$ref": out.pop("$ref")}]
        return out
    return [emitted(value) for value in node] if isinstance(node, list | tuple) else node


def _paths(resource: Resource, name: str) -> Document:
    """Return the paths of a resource. `name` is the name of its schema."""
    place = "/namespaces/{namespace}" if resource.namespaced else ""
    collection = f"/{root(resource)}{place}/{resource.plural}"
    item = f"{collection}/{{name}}"
    own = _kind(resource)
    places = ("namespace",) if resource.namespaced else ()
    paths = {
        collection: _operations(resource, own, name, COLLECTION_METHODS, verbs=resource.verbs, places=places),
        item: _operations(resource, own, name, OBJECT_METHODS, verbs=resource.verbs, places=("name", *places)),
    }
    if resource.namespaced and "list" in resource.verbs:
        everywhere = f"/{root(resource)}/{resource.plural}"
        paths[everywhere] = _operations(resource, own, name, COLLECTION_METHODS, verbs=("list",), places=())
    for subresource in map(SUBRESOURCES.__getitem__, resource.subresources):
        kind = own if subresource.kind is None else dict(zip(_GVK_FIELDS, subresource.kind, strict=True))
        schema_name = name if subresource.kind is None else builtin.component_name(*subresource.kind)
        assert schema_name is not None, f"{subresource.kind} has no component"
        entry = _operations(
            resource, kind, schema_name, SUBRESOURCE_METHODS, verbs=subresource.verbs, places=("name", *places)
        )
        if subresource.own_request:
            entry["post"]["requestBody"] = {"content": {"application/json": {"schema": {"type": "object"}}}}
        paths[f"{item}/{subresource.name}"] = entry
    return {path: entry for path, entry in paths.items() if entry.keys() - {"parameters"}}


def _operations(
    resource: Resource,
    kind: Document,
    name: str,
    methods: Mapping[str, str],
    *,
    verbs: Iterable[str],
    places: tuple[str, ...],
) -> Document:
    """Return one path: an operation for each method whose verb is among `verbs`, and the parameters in the path."""
    served = frozenset(verbs)
    entry: Document = {
        method.lower(): _operation(resource, kind, name, method.lower(), *_ACTIONS[verb])
        for method, verb in methods.items()
        if verb in served
    }
    if places:
        entry["parameters"] = [
            {"name": place, "in": "path", "required": True, "schema": {"type": "string"}} for place in places
        ]
    return entry


def _operation(
    resource: Resource, kind: Document, name: str, method: str, action: str, parameters: tuple[str, ...]
) -> Document:
    """Return one operation on objects of a kind. `name` is the name of the kind's schema."""
    reference = {"$ref": REF_PREFIX + name}
    answer = {"list": {"$ref": f"{REF_PREFIX}{name}List"}, "deletecollection": {"$ref": f"{REF_PREFIX}{META}Status"}}
    operation: Document = {
        "tags": [f"{resource.group or 'core'}_{resource.version}"],
        "parameters": [_parameter(parameter) for parameter in parameters],
        "responses": {
            "200": {"description": "OK", "content": {"application/json": {"schema": answer.get(action, reference)}}}
        },
        "x-kubernetes-action": action,
        _GVK: kind,
    }
    if method in ("post", "put"):
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": reference}}}
    elif method == "patch":
        patch = {"schema": {"type": "object"}}
        builtin_ = builtin.is_builtin(resource.group, resource.version, resource.kind)
        offered = (*_PATCHES, _STRATEGIC) if builtin_ else _PATCHES
        operation["requestBody"] = {"required": True, "content": dict.fromkeys(offered, patch)}
    elif method == "delete":
        options = {"schema": {"$ref": f"{REF_PREFIX}{META}DeleteOptions"}}
        operation["requestBody"] = {"content": {"application/json": options}}
    return operation


def _parameter(name: str) -> Document:
    kind, text = _TEXTS[name]
    return {"name": name, "in": "query", "description": text, "schema": {"type": kind, "uniqueItems": True}}


def _kind(resource: Resource) -> Document:
    return {"group": resource.group, "version": resource.version, "kind": resource.kind}
