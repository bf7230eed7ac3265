"""Validation and defaults of CustomResourceDefinitions: one stored version, valid names, an enforceable schema."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from msgspec.structs import replace

from controlplane.apimachinery.causes import forbidden, immutable, invalid, required, unsupported
from controlplane.apimachinery.errors import Cause
from controlplane.apimachinery.selectors import dns1123_label_errors, dns1123_subdomain_errors
from controlplane.wire import builtin
from controlplane.wire.client_config import client_causes
from controlplane.wire.definition_paths import path_faults
from controlplane.wire.document_check import without_nulls
from controlplane.wire.list_types import list_flaws
from controlplane.wire.schema import REF_PREFIX, Components, Schema
from controlplane.wire.structural import VALIDATIONS, Flaw, flaws, nodes

Document = dict[str, Any]

APPROVAL = "api-approved.kubernetes.io"  # annotation
_PROTECTED = (".k8s.io", ".kubernetes.io")  # ends of groups
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/?#\s\[\]]+([/?#]\S*)?")
_STRATEGIES = ("None", "Webhook")
SCOPES = ("Cluster", "Namespaced")
_SCHEMA = "schema.openAPIV3Schema"
_PROPS = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"


@cache
def schema_to_check(*, also_booleans: bool = True) -> Schema:
    """Return the schema of definitions in which `items` and `additionalProperties` of a schema are schemas themselves.

    The one that a kube-apiserver publishes says nothing about them. `also_booleans`: additionalProperties may be one.
    """
    inner = {"$ref": f"{REF_PREFIX}{_PROPS}"}
    or_boolean = {"if": {"type": "boolean"}, "else": inner} if also_booleans else inner
    schemas = {**builtin.components().schemas, f"{_PROPS}OrArray": inner, f"{_PROPS}OrBool": or_boolean}
    name = builtin.component_name("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
    return Components(schemas).schema(str(name))


def defaulted(new: Document) -> Document:
    """Return the definition with defaults for missing names, and without nulls in its schemas, as in Kubernetes.

    Types are not checked here.
    """
    new = without_nulls(new, schema_to_check(also_booleans=False))
    spec = _spec(new)
    names = spec.get("names")
    if not isinstance(names, dict) or not isinstance(names.get("kind"), str) or not names["kind"]:
        return new
    made = {"listKind": f"{names['kind']}List", "singular": names["kind"].lower(), **names}
    return {**new, "spec": {"conversion": {"strategy": "None"}, **spec, "names": made}}


def faults(new: Document, old: Document | None) -> list[Cause]:
    """Return a cause for every rule that a definition breaks. `old` None: it is created."""
    causes = [*_names(new), *_approval(new, old), *_versions(new)]
    for index, version in enumerate(_stated(new)):
        causes += _schema(version, f"spec.versions[{index}]")
        causes += _added(version, f"spec.versions[{index}]", old)
    conversion = _spec(new).get("conversion")
    causes += _conversion(conversion if isinstance(conversion, Mapping) else {"strategy": "None"})
    if old is not None:
        causes += _unchanged(new, old)
    return causes


def status_faults(new: Document) -> list[Cause]:
    """Return a cause for every rule that status.storedVersions breaks: the versions in which objects may be stored.

    The version that is stored now is among them, and no version that the definition does not have.
    """
    field, reported = "status.storedVersions", (new.get("status") or {}).get("storedVersions") or ()
    names = {str(version.get("name")): version.get("storage") for version in _stated(new)}
    causes = [] if reported else [invalid(field, list(reported), "must have at least one stored version")]
    missing = [name for name, is_stored in names.items() if is_stored and name not in reported]
    causes += [invalid(field, name, f"must have the storage version {name}") for name in missing]
    unknown = [(index, name) for index, name in enumerate(reported) if name not in names]
    return [*causes, *(invalid(f"{field}[{index}]", name, "must appear in spec.versions") for index, name in unknown)]


def warnings(new: Document) -> list[str]:
    """Return warnings about a conversion webhook that this API cannot call, and a stored version that is not served."""
    warned, versions, conversion = [], _stated(new), _spec(new).get("conversion") or {}
    client = ((conversion.get("webhook") or {}).get("clientConfig")) or {}
    if len(versions) > 1 and client.get("service"):
        warned.append(
            "spec.conversion.webhook.clientConfig.service: there are no Services here, so objects are served in the "
            "version in which they were written only; the member clusters convert. Write clientConfig.url"
        )
    stored = next((version for version in versions if version.get("storage")), {})
    if stored and not stored.get("served"):
        warned.append(
            f"spec.versions: {stored.get('name')} is stored and not served, so member clusters refuse the objects that "
            "are propagated: store a served version"
        )
    return warned


def schemas_with_rules(new: Document) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield field and root node of every schema of a definition that has rules in CEL."""
    for index, version in enumerate(_stated(new)):
        if any(node.get(VALIDATIONS) for _, node in nodes(_node(version))):
            yield f"spec.versions[{index}].{_SCHEMA}", _node(version)


def _names(new: Document) -> Iterator[Cause]:
    """Yield the causes to refuse the names of a definition: invalid, or other than its metadata.name."""
    spec, name = _spec(new), str((new.get("metadata") or {}).get("name", ""))
    names = spec.get("names") or {}
    group, plural, kind = (str(name or "") for name in (spec.get("group"), names.get("plural"), names.get("kind")))
    wanted = f"{plural}.{group}"
    if name != wanted:
        yield invalid("metadata.name", name, f'must be spec.names.plural+"."+spec.group: "{wanted}"')
    if len(group.split(".")) < 2:
        yield invalid("spec.group", group, "should be a domain with at least one dot")
    for error in dns1123_subdomain_errors(group) if group else ():
        yield invalid("spec.group", group, error)
    words = {"plural": plural, "singular": names.get("singular") or ""}
    words |= {f"shortNames[{index}]": one for index, one in enumerate(names.get("shortNames") or ())}
    for field, value in words.items():
        for error in dns1123_label_errors(str(value)) if value else ():
            yield invalid(f"spec.names.{field}", value, error)
    for field, value in (("kind", kind), ("listKind", names.get("listKind") or "")):
        for error in dns1123_label_errors(str(value).lower()) if value else ():
            yield invalid(f"spec.names.{field}", value, f"may have mixed case, but should otherwise match: {error}")
    if kind and kind == names.get("listKind"):
        yield invalid("spec.names.listKind", kind, "kind and listKind may not be the same")
    if spec.get("preserveUnknownFields"):
        rule = "must be false: say x-kubernetes-preserve-unknown-fields: true in the schema instead"
        yield invalid("spec.preserveUnknownFields", True, rule)
    if spec.get("scope") not in SCOPES:
        yield unsupported("spec.scope", spec.get("scope"), SCOPES)


def _approval(new: Document, old: Document | None) -> Iterator[Cause]:
    """Yield the cause against a definition in a group of Kubernetes itself that does not state who has approved it.

    A stored definition may stay as it is.
    """
    group, stated = str(_spec(new).get("group") or ""), _approved(new)
    fault = _approval_fault(stated) if f".{group}".endswith(_PROTECTED) else ""
    if fault and (old is None or fault != _approval_fault(_approved(old))):
        rule, field = (
            f'protected groups must have approval annotation "{APPROVAL}"',
            f"metadata.annotations[{APPROVAL}]",
        )
        see = "see https://github.com/kubernetes/enhancements/pull/1111"
        with_ = ' with either a URL or a reason starting with "unapproved"'
        yield invalid(field, stated, f"{rule}{with_}, {see}") if stated else required(field, f"{rule}, {see}")


def _approved(definition: Document) -> str:
    annotations = (definition.get("metadata") or {}).get("annotations") or {}
    return str(annotations.get(APPROVAL) or "")


def _approval_fault(stated: str) -> str:
    """Return what is wrong with an approval: "missing" or "invalid"; "": it is a URL, or says that there is none."""
    if not stated:
        return "missing"
    return "" if stated.startswith("unapproved") or _URL.fullmatch(stated) else "invalid"


def _versions(new: Document) -> Iterator[Cause]:
    """Yield the causes to refuse versions: invalid or repeated names, or not exactly one stored version."""
    seen: set[str] = set()
    stored = [version for version in _stated(new) if version.get("storage")]
    for index, version in enumerate(_stated(new)):
        name = str(version.get("name", ""))
        field = f"spec.versions[{index}].name"
        for error in dns1123_label_errors(name):
            yield invalid(field, name, error)
        if name in seen:
            yield Cause("FieldValueDuplicate", f'Duplicate value: "{name}"', field)
        seen.add(name)
    if len(stored) != 1:
        rule = "must have exactly one version marked as storage version"
        yield invalid("spec.versions", [version.get("name") for version in stored], rule)


def _conversion(conversion: Mapping[str, Any]) -> Iterator[Cause]:
    """Yield the causes to refuse how objects are converted."""
    at, strategy, webhook = "spec.conversion", conversion.get("strategy"), conversion.get("webhook")
    if strategy not in _STRATEGIES:
        yield unsupported(f"{at}.strategy", strategy, _STRATEGIES)
        return
    if strategy == "None":
        if webhook is not None:
            yield forbidden(f"{at}.webhook", "should not be set when strategy is not set to Webhook")
        return
    client = (webhook or {}).get("clientConfig")
    if not client:
        yield required(f"{at}.webhook.clientConfig", "required when strategy is set to Webhook")
    else:
        yield from client_causes(client, f"{at}.webhook.clientConfig")
    versions, field = (webhook or {}).get("conversionReviewVersions") or [], f"{at}.webhook.conversionReviewVersions"
    if not versions:
        yield required(field)
    elif "v1" not in versions:
        yield invalid(field, versions, "must include v1: this API sends ConversionReview v1 only")


def _schema(version: Mapping[str, Any], path: str) -> Iterator[Cause]:
    if not _node(version):
        yield required(f"{path}.{_SCHEMA}", "schemas are required")
        return
    for flaw in flaws(_node(version)):
        yield _cause(flaw, f"{path}.{_SCHEMA}")


def _added(version: Mapping[str, Any], path: str, old: Document | None) -> Iterator[Cause]:
    """Yield the causes to refuse lists, columns and paths of a version.

    What a stored definition has already is accepted: it was stored before there were these rules, and its status, its
    finalizers and its schema are written for as long as it is there.
    """
    before = next((one for one in _stated(old or {}) if one.get("name") == version.get("name")), {})
    known = set(_of_version(before))
    yield from (replace(cause, field=f"{path}.{cause.field}") for cause in _of_version(version) if cause not in known)


def _of_version(version: Mapping[str, Any]) -> Iterator[Cause]:
    node = _node(version)
    if node:
        yield from (_cause(flaw, _SCHEMA) for flaw in list_flaws(node))
        yield from path_faults(version, node)


def _cause(flaw: Flaw, root: str) -> Cause:
    field = root
    quoted = False
    for part in flaw.path:
        field += f"[{part}]" if quoted else f".{part}"
        quoted = not quoted and part == "properties"
    if flaw.missing:
        return required(field, flaw.rule)
    if flaw.choices:
        return unsupported(field, flaw.value, flaw.choices)
    return forbidden(field, flaw.rule) if flaw.value is None else invalid(field, flaw.value, flaw.rule)


def _unchanged(new: Document, old: Document) -> Iterator[Cause]:
    """Yield a cause for every edit of group, kind, plural or scope, and for the removal of a stored version."""
    for field in ("group", "scope"):
        if _spec(new).get(field) != _spec(old).get(field):
            yield immutable(f"spec.{field}", _spec(new).get(field))
    for field in ("kind", "plural"):
        new_name, old_name = ((_spec(definition).get("names") or {}).get(field) for definition in (new, old))
        if new_name != old_name:
            yield immutable(f"spec.names.{field}", new_name)
    names = {version.get("name") for version in _stated(new)}
    for index, name in enumerate((old.get("status") or {}).get("storedVersions", ())):
        if name not in names:
            rule = f"must appear in spec.versions: objects may still be stored as {name}"
            yield invalid(f"status.storedVersions[{index}]", name, rule)


def _stated(definition: Document) -> list[dict[str, Any]]:
    found = _spec(definition).get("versions")
    return [version for version in found if isinstance(version, dict)] if isinstance(found, list) else []


def _spec(definition: Document) -> Document:
    found = definition.get("spec")
    return found if isinstance(found, dict) else {}


def _node(version: Mapping[str, Any]) -> Mapping[str, Any]:
    schema = version.get("schema")
    found = schema.get("openAPIV3Schema") if isinstance(schema, Mapping) else None
    return found if isinstance(found, Mapping) else {}
