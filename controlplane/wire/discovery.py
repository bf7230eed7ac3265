"""The discovery documents of the API: the lists of groups, versions and resources, aggregated discovery, and /version.

All of them are derived from Resources. Groups are listed in the order in which they first appear, the versions of a
group with the preferred version first. Of a resource without verbs only the group and the version are listed.
"""

import re
from collections.abc import Iterable
from typing import Any

from controlplane.wire.resource import SUBRESOURCES, Resource

Document = dict[str, Any]

AGGREGATED_GROUP = "apidiscovery.k8s.io"
AGGREGATED_VERSIONS = ("v2", "v2beta1")

_VERSION = re.compile(r"v(\d+)(?:(alpha|beta)(\d+))?")
_STABILITY = {"": 2, "beta": 1, "alpha": 0}


def api_versions() -> Document:
    """Return the answer to GET /api: the versions of the core group."""
    addresses = [{"clientCIDR": "0.0.0.0/0", "serverAddress": ""}]
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": addresses}


def api_group_list(resources: Iterable[Resource]) -> Document:
    """Return the answer to GET /apis: all groups but the core group, with their versions."""
    groups = [_group(group, versions) for group, versions in group_versions(resources).items() if group]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def api_group(resources: Iterable[Resource], group: str) -> Document | None:
    """Return the answer to GET /apis/<group>; None: no resource of the group is served."""
    versions = group_versions(resources).get(group)
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(group, versions)} if group and versions else None


def api_resource_list(resources: Iterable[Resource], group: str, version: str) -> Document | None:
    """Return the answer to GET /api/v1 or /apis/<group>/<version>; None: no resource of the version is served."""
    served = [resource for resource in resources if (resource.group, resource.version) == (group, version)]
    if not served:
        return None
    entries = [entry for resource in served if resource.verbs for entry in _flat(resource)]
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": served[0].api_version,
        "resources": sorted(entries, key=lambda entry: str(entry["name"])),
    }


def aggregated(resources: Iterable[Resource], *, core: bool, version: str = "v2") -> Document:
    """Return aggregated discovery: the core group for GET /api (`core`), all other groups for GET /apis.

    `version` is one of AGGREGATED_VERSIONS; their documents differ only in the apiVersion. The answer needs the
    Content-Type that `content_type(version)` returns, else clients ignore it.
    """
    known = list(resources)
    items: list[Document] = [
        {
            "metadata": {"name": group, "creationTimestamp": None} if group else {"creationTimestamp": None},
            "versions": [
                {
                    "version": served,
                    "resources": sorted(
                        (_nested(r) for r in known if r.verbs and (r.group, r.version) == (group, served)),
                        key=lambda entry: str(entry["resource"]),
                    ),
                    "freshness": "Current",
                }
                for served in versions
            ],
        }
        for group, versions in group_versions(known).items()
        if core is not bool(group)
    ]
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": f"{AGGREGATED_GROUP}/{version}",
        "metadata": {},
        "items": items,
    }


def content_type(version: str = "v2") -> str:
    """Return the Content-Type of aggregated discovery in a version."""
    return f"application/json;g={AGGREGATED_GROUP};v={version};as=APIGroupDiscoveryList"


def version_document(release: str, *, commit: str = "", built: str = "", kubernetes: str = "1.32") -> Document:
    """Return the answer to GET /version.

    Clients compare major and minor with their own version. These two and the first part of gitVersion are therefore
    the version of Kubernetes whose API is implemented; the release of Lifeboat, for example "0.1.0", follows. `built`
    is the time of the build in RFC 3339; "": unknown.
    """
    major, _, minor = kubernetes.partition(".")
    return {
        "major": major,
        "minor": minor,
        "gitVersion": f"v{kubernetes}.0+lifeboat.{release}",
        "gitCommit": commit,
        "gitTreeState": "clean",
        "buildDate": built or "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "",
        "platform": "linux/amd64",
    }


def group_versions(resources: Iterable[Resource]) -> dict[str, list[str]]:
    """Return the served versions of each group, preferred first: stable, beta, alpha; newer before older."""
    found: dict[str, list[str]] = {}
    for resource in resources:
        versions = found.setdefault(resource.group, [])
        if resource.version not in versions:
            versions.append(resource.version)
    for versions in found.values():
        versions.sort(key=preference, reverse=True)
    return found


def preference(version: str) -> tuple[int, int, int]:
    """Return by what versions are ordered: a preferred version has the larger value."""
    match = _VERSION.fullmatch(version)
    if match is None:
        return (-1, 0, 0)
    major, stability, minor = match.groups()
    return (_STABILITY[stability or ""], int(major), int(minor or 0))


def _group(group: str, versions: list[str]) -> Document:
    entries: list[Document] = [{"groupVersion": f"{group}/{version}", "version": version} for version in versions]
    return {"name": group, "versions": entries, "preferredVersion": entries[0]}


def _flat(resource: Resource) -> list[Document]:
    """Return the entries of a resource and its subresources in an APIResourceList."""
    own: Document = {
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": list(resource.verbs),
        **_optional(resource),
    }
    entries = [own]
    for name in resource.subresources:
        kind, verbs = SUBRESOURCES[name].kind, SUBRESOURCES[name].verbs
        entry: Document = {"name": f"{resource.plural}/{name}", "singularName": "", "namespaced": resource.namespaced}
        if kind is not None:
            entry |= {"group": kind[0], "version": kind[1]} if kind[0] else {}
        entries.append(entry | {"kind": kind[2] if kind else resource.kind, "verbs": list(verbs)})
    return entries


def _nested(resource: Resource) -> Document:
    """Return the entry of a resource in aggregated discovery, which contains its subresources."""
    entry: Document = {
        "resource": resource.plural,
        "responseKind": _kind(resource.group, resource.version, resource.kind),
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": list(resource.verbs),
        **_optional(resource),
    }
    subresources = []
    for name in resource.subresources:
        kind, verbs = SUBRESOURCES[name].kind, SUBRESOURCES[name].verbs
        response = _kind(*(kind or (resource.group, resource.version, resource.kind)))
        subresources.append({"subresource": name, "responseKind": response, "verbs": list(verbs)})
    if subresources:
        entry["subresources"] = subresources
    return entry


def _optional(resource: Resource) -> Document:
    entry: Document = {}
    if resource.short_names:
        entry["shortNames"] = list(resource.short_names)
    if resource.categories:
        entry["categories"] = list(resource.categories)
    return entry


def _kind(group: str, version: str, kind: str) -> Document:
    return {"group": group, "version": version, "kind": kind}
