"""The OpenAPI v3 documents of the API: one a group version, from Resources and Schemas.

kubectl reads them for `explain`, for the patches of `apply`, and to see which query parameters a kind takes; so paths
carry their kind and action, and every operation lists its parameters in full (kubectl follows no references there).
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import orjson

from controlplane.wire import builtin
from controlplane.wire.resource import Resource
from controlplane.wire.schema import REF_PREFIX, Schema

Document = dict[str, Any]

META = "io.k8s.apimachinery.pkg.apis.meta.v1."
_GVK = "x-kubernetes-group-version-kind"
_SCALE = ("autoscaling", "v1", "Scale")
_READ_ONLY = ("log", "explain", "readiness")
_ACTIONS = ("fence", "revert")  # they take a request of their own, and answer with the object

_PATCHES = ("application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json")
_STRATEGIC = "application/strategic-merge-patch+json"  # kubectl sends it wherever it is offered: built-in kinds only
_TEXTS = {
    "allowWatchBookmarks": ("boolean", "Ask for bookmarks, events that only tell how far the watch has come."),
    "continue": ("string", "The token a list cut off by limit ended with: go on from there."),
    "dryRun": ("string", "All: do everything but store the result."),
    "fieldManager": ("string", "Who owns the fields this request sets."),
    "fieldSelector": ("string", "Only objects whose fields match."),
    "fieldValidation": ("string", "What to do about unknown and duplicate fields: Ignore, Warn (default) or Strict."),
    "force": ("boolean", "Take over fields other managers own. Server-side apply only."),
    "gracePeriodSeconds": ("integer", "Seconds the object is given before it goes."),
    "labelSelector": ("string", "Only objects whose labels match."),
    "limit": ("integer", "At most so many objects; the rest is had with continue."),
    "propagationPolicy": ("string", "What becomes of what the object owns: Orphan, Background or Foreground."),
    "resourceVersion": ("string", "The version the answer must not be older than, or a watch starts after."),
    "resourceVersionMatch": ("string", "Exact or NotOlderThan: how resourceVersion is meant."),
    "sendInitialEvents": ("boolean", "Begin a watch with the objects there are, as events, and a bookmark."),
    "timeoutSeconds": ("integer", "End the list or watch after so many seconds."),
    "watch": ("boolean", "Stream changes as events instead of listing."),
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
# Method, verb of discovery, x-kubernetes-action, query parameters.
_COLLECTION = (
    ("get", "list", "list", _SELECT),
    ("post", "create", "post", _WRITE),
    ("delete", "deletecollection", "deletecollection", _SELECT + _DELETE),
)
_ITEM = (
    ("get", "get", "get", ()),
    ("put", "update", "put", _WRITE),
    ("patch", "patch", "patch", (*_WRITE, "force")),
    ("delete", "delete", "delete", _DELETE),
)


class OpenAPI:
    """The documents of one set of resources. Each is built when first asked for, and then kept as bytes.

    When the set changes (somebody brought a CustomResourceDefinition), make a new one with `reuse` the old one: group
    versions nothing changed in keep their bytes.
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
            path = path_of(resource)
            self._served[path] = (*self._served.get(path, ()), (resource, schema_of(resource)))
        self._documents: dict[str, bytes] = {}
        if reuse is not None:
            unchanged = (path for path in self._served if reuse._served.get(path) == self._served[path])
            self._documents = {path: reuse._documents[path] for path in unchanged if path in reuse._documents}

    @property
    def paths(self) -> list[str]:
        """Return the group versions there are documents of ("api/v1", "apis/apps/v1")."""
        return list(self._served)

    def index(self) -> Document:
        """Return the answer to GET /openapi/v3: where the document of each group version is, by content."""
        return {
            "paths": {
                path: {"serverRelativeURL": f"/openapi/v3/{path}?hash={self.digest(path)}"} for path in self._served
            }
        }

    def document(self, path: str) -> bytes | None:
        """Return the answer to GET /openapi/v3/<path> as JSON, None if there is no such group version.

        What was asked for with the hash of the index may be cached for good.
        """
        if path not in self._served:
            return None
        text = self._documents.get(path)
        if text is None:
            text = self._documents[path] = orjson.dumps(document(self._served[path]))
        return text

    def digest(self, path: str) -> str:
        """Return the hash of a document, also fit for an ETag. Raises KeyError where there is no such document."""
        text = self.document(path)
        if text is None:
            raise KeyError(path)
        return hashlib.sha256(text).hexdigest()[:32].upper()


def path_of(resource: Resource) -> str:
    """Return the group version as OpenAPI's index names it."""
    return f"apis/{resource.api_version}" if resource.group else f"api/{resource.version}"


def document(served: Iterable[tuple[Resource, Schema]]) -> Document:
    """Return the OpenAPI v3 document of the resources of one group version."""
    components: Document = {}
    paths: Document = {}
    for resource, schema in served:
        name = _add_kind(components, resource, schema)
        paths |= _paths(resource, name)
        if "scale" in resource.subresources:
            _add_reachable(components, builtin.schema(*_SCALE))
    for kind in ("DeleteOptions", "Status"):
        _add_reachable(components, builtin.schema("", "v1", kind))
    return {
        "openapi": "3.0.0",
        "info": {"title": "Lifeboat", "version": f"v{builtin.KUBERNETES}.0"},
        "paths": paths,
        "components": {"schemas": components},
    }


def component_name(resource: Resource) -> str:
    """Return what the schema of a resource is called: Kubernetes' own name, else its group backwards and so on."""
    own = builtin.component_name(resource.group, resource.version, resource.kind)
    if own is not None:
        return own
    return ".".join([*reversed(resource.group.split(".")), resource.version, resource.kind])


def _add_kind(components: Document, resource: Resource, schema: Schema) -> str:
    """Add a kind, its list, and everything they consist of; return the kind's name."""
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
    _add_reachable(components, builtin.schema("", "v1", "Status"))  # brings ListMeta along
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
    """Add a built-in kind that belongs to no path of its own."""
    name = builtin.component_name(*schema.gvks[0])
    assert name is not None, f"{schema.gvks[0]} has no component"
    if name not in components:
        components[name] = emitted(schema.node)
        _add_references(components, schema.node, schema)


def _add_references(components: Document, node: Any, schema: Schema) -> None:
    """Add every component the node refers to, from the schema's own components or from the built-in ones."""
    waiting = list(references(node))
    while waiting:
        name = waiting.pop()
        if name in components:
            continue
        known = schema.components if name in schema.components else builtin.components()
        components[name] = emitted(known.schemas[name])
        waiting.extend(references(known.schemas[name]))


def references(node: Any) -> Iterable[str]:
    """Yield the names of the components a node refers to; a property that is merely called "$ref" is no reference."""
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
    """Return a node as OpenAPI 3.0 wants it: nothing may stand beside a reference, so such ones are put into allOf."""
    if isinstance(node, Mapping):
        out = {key: emitted(value) for key, value in node.items()}
        if isinstance(out.get("$ref"), str) and len(out) > 1:
            out["allOf"] = [{"$ref": out.pop("$ref")}]
        return out
    return [emitted(value) for value in node] if isinstance(node, list | tuple) else node


def _paths(resource: Resource, name: str) -> Document:
    root = f"/{path_of(resource)}"
    place = "/namespaces/{namespace}" if resource.namespaced else ""
    collection = f"{root}{place}/{resource.plural}"
    item = f"{collection}/{{name}}"
    found = {
        collection: _operations(resource, _kind(resource), name, _COLLECTION, named=False),
        item: _operations(resource, _kind(resource), name, _ITEM, named=True),
    }
    if resource.namespaced:
        everywhere = _operations(resource, _kind(resource), name, _COLLECTION[:1], named=False)
        everywhere.pop("parameters", None)
        found[f"{root}/{resource.plural}"] = everywhere
    for subresource in resource.subresources:
        group, version, kind = _SCALE if subresource == "scale" else (resource.group, resource.version, resource.kind)
        shown = builtin.component_name(*_SCALE) if subresource == "scale" else name
        gvk = {"group": group, "version": version, "kind": kind}
        operations = _ITEM[:1] if subresource in _READ_ONLY else () if subresource in _ACTIONS else _ITEM[:3]
        found[f"{item}/{subresource}"] = _operations(resource, gvk, shown or name, operations, named=True)
    return {path: entry for path, entry in found.items() if entry.keys() - {"parameters"}}


def _operations(
    resource: Resource,
    gvk: Document,
    name: str,
    methods: tuple[tuple[str, str, str, tuple[str, ...]], ...],
    *,
    named: bool,
) -> Document:
    """Return one path: an operation for each method the resource has the verb for, and the path's own parameters."""
    entry: Document = {}
    for method, verb, action, parameters in methods:
        if verb in resource.verbs:
            entry[method] = _operation(resource, gvk, name, method, action, parameters)
    places = (("name",) if named else ()) + (("namespace",) if resource.namespaced else ())
    if places:
        entry["parameters"] = [
            {"name": place, "in": "path", "required": True, "schema": {"type": "string"}} for place in places
        ]
    return entry


def _operation(
    resource: Resource, gvk: Document, name: str, method: str, action: str, parameters: tuple[str, ...]
) -> Document:
    reference = {"$ref": REF_PREFIX + name}
    answer = {"list": {"$ref": f"{REF_PREFIX}{name}List"}, "deletecollection": {"$ref": f"{REF_PREFIX}{META}Status"}}
    operation: Document = {
        "tags": [f"{resource.group or 'core'}_{resource.version}"],
        "parameters": [_parameter(parameter) for parameter in parameters],
        "responses": {
            "200": {"description": "OK", "content": {"application/json": {"schema": answer.get(action, reference)}}}
        },
        "x-kubernetes-action": action,
        _GVK: gvk,
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
