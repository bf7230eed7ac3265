"""Applies the changes of one rule of an override policy to a manifest [override-policies]."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Final

from msgspec.structs import replace

from controlplane.apimachinery.errors import BadRequest, StatusError
from controlplane.kind import KINDS
from controlplane.kinds.override_policy import (
    ADD,
    REGISTRY,
    REMOVE,
    REPLACE,
    REPOSITORY,
    CommandArgsOverrider,
    FieldOverrider,
    FieldPatch,
    ImageOverrider,
    LabelAnnotationOverrider,
    Overriders,
    PlaintextOverrider,
)
from controlplane.propagation import field_document
from controlplane.propagation.field_document import FieldTextError
from controlplane.propagation.image_reference import ImageError, ImageReference
from controlplane.wire.body import MAX_DEPTH, check_depth
from controlplane.wire.document_check import faults, without_nulls
from controlplane.wire.patch import json_patch

Document = dict[str, Any]

_POD_SPEC: Final = {"Pod": ("spec",)}
_TEMPLATE_SPEC: Final = ("spec", "template", "spec")
_WORKLOADS: Final = {
    "Pod": "Pod",
    "ReplicaSet": "apps/ReplicaSet",
    "Deployment": "apps/Deployment",
    "DaemonSet": "apps/DaemonSet",
    "StatefulSet": "apps/StatefulSet",
    "Job": "batch/Job",
}
"""The kinds whose containers are changed, with the keys of the built-in kinds."""
_WRONG_TYPE: Final = "FieldValueTypeInvalid"
_OF_JSON, _OF_YAML = 4, 16  # to read and write a document in a field takes so many times as long as to copy its text

Count = Callable[[Document, int], None]
"""Called before each change: with the object, and with how many bytes more the change takes as long as. It may raise
OverrideError."""


class OverrideError(ValueError):
    """A change does not fit the object. The message says which, and why."""


def overridden(manifest: Document, overriders: Overriders, count: Count) -> Document:
    """Return the manifest after the changes of a rule. The given manifest stays as it is. Raises OverrideError.

    The order is that of Karmada: images, commands, arguments, labels, annotations, fields, plaintext.
    """
    for change in _changes(overriders):
        count(manifest, 0)
        manifest = change(manifest)
    for field in _joined(overriders.field_overrider):
        manifest = _with_field(manifest, field, count)
    if overriders.plaintext:
        count(manifest, 0)
        manifest = _patched(manifest, overriders.plaintext, _plaintext_operation, "plaintext")
        _check_object(manifest)
    return manifest


def _changes(overriders: Overriders) -> Iterator[Callable[[Document], Document]]:
    """Yield the changes of a rule that come before those of fields, in order."""
    for image in overriders.image_overrider:
        yield partial(_with_image, overrider=image)
    for command in overriders.command_overrider:
        yield partial(_with_words, field="command", overrider=command)
    for args in overriders.args_overrider:
        yield partial(_with_words, field="args", overrider=args)
    for labels in overriders.labels_overrider:
        yield partial(_with_pairs, field="labels", overrider=labels)
    for notes in overriders.annotations_overrider:
        yield partial(_with_pairs, field="annotations", overrider=notes)


def _check_object(manifest: Any) -> None:
    """Raise OverrideError if a patched manifest is no object that a Work can carry: its head has to be readable."""
    if not isinstance(manifest, dict) or not all(isinstance(manifest.get(key), str) for key in ("apiVersion", "kind")):
        raise OverrideError("plaintext: the result is not an object with apiVersion and kind")
    metadata = manifest.get("metadata")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str):
        raise OverrideError("plaintext: the result has no metadata.name")
    for field in ("labels", "annotations"):
        if not isinstance(metadata.get(field) or {}, dict):
            raise OverrideError(f"plaintext: metadata.{field} of the result is not an object")


def _operation(operator: str, path: str, value: Any) -> Document:
    return {"op": operator, "path": path, "value": value}


def _plaintext_operation(item: PlaintextOverrider) -> Document:
    return _operation(item.operator, item.path, item.value)


def _field_operation(item: FieldPatch) -> Document:
    return _operation(item.operator, item.sub_path, item.value)


def _patched(value: Any, items: Iterable[Any], operation: Callable[[Any], Document], what: str) -> Any:
    """Return a value after a JSON patch, whose operations `operation` makes from the items. Raises OverrideError.

    Operations that add values into one another could nest them deeper than any process can write them.
    """
    operations = [operation(item) for item in items]
    if any(item["op"] == REMOVE and not item["path"] for item in operations):
        raise OverrideError(f"{what}: the whole document cannot be removed")
    try:
        changed = json_patch(value, operations, strict=True)
    except StatusError as error:
        raise OverrideError(f"{what}: {error}") from None
    try:
        if any(isinstance(item["value"], dict | list) for item in operations):
            check_depth(changed, MAX_DEPTH)
    except BadRequest:
        raise OverrideError(f"{what}: the result is nested deeper than {MAX_DEPTH} levels") from None
    return changed


def _with_image(manifest: Document, overrider: ImageOverrider) -> Document:
    """Return the manifest with changed images: that of the predicate, or those of all containers."""
    operations: list[Document] = []
    if overrider.predicate is not None:
        path = overrider.predicate.path
        operations.append(_operation(REPLACE, path, _changed(_image_at(manifest, path), overrider)))
    elif manifest.get("kind") in _WORKLOADS:
        prefix, containers = _typed_containers(manifest)
        for index, container in enumerate(containers):
            path = f"{prefix}/{index}/image"
            changed = _changed(_parsed(container.get("image") or "", path), overrider)
            operations.append(_operation(REPLACE if "image" in container else ADD, path, changed))
    return _patched(manifest, operations, lambda item: item, "imageOverrider") if operations else manifest


def _parsed(text: str, path: str) -> ImageReference:
    """Return the reference in the text at a path. Raises OverrideError.

    The error does not contain the text, which may be a value of a Secret: more users may read the error.
    """
    try:
        return ImageReference.parse(text)
    except ImageError as error:
        raise OverrideError(f"imageOverrider: the text at {path} {error}") from None


def _changed(image: ImageReference, overrider: ImageOverrider) -> str:
    """Return an image after the change. The result is not checked, as Karmada does not check it."""
    value = str(overrider.value)  # a value that was left out is of a type that documents must not contain
    match overrider.component, overrider.operator:
        case (component, str(operator)) if component in (REGISTRY, REPOSITORY):
            old = image.registry if component == REGISTRY else image.repository
            new = {ADD: old + value, REPLACE: value}.get(operator, "")
            if component == REGISTRY:
                image = ImageReference(new, image.repository, image.tag, image.digest)
            else:
                image = ImageReference(image.registry, new, image.tag, image.digest)
        case (_, str(operator)) if operator == REMOVE:
            image = image.without_version()
        case _:
            image = image.with_version((image.version if overrider.operator == ADD else "") + value)
    return str(image)


def _image_at(manifest: Document, path: str) -> ImageReference:
    """Return the image at the path of a predicate. Raises OverrideError if there is none."""
    value: Any = manifest
    for token in path.strip("/").split("/"):
        if isinstance(value, dict):
            value = value.get(token)
        elif isinstance(value, list) and token.isdecimal() and int(token) < len(value):
            value = value[int(token)]
        else:
            value = None
    if not isinstance(value, str):
        raise OverrideError(f"imageOverrider: predicate.path {path} does not lead to a text in the object")
    return _parsed(value, path)


def _typed_containers(manifest: Document) -> tuple[str, Sequence[Document]]:
    """Return the path and the containers of a workload. Raises OverrideError if its fields have wrong types."""
    kind = KINDS[_WORKLOADS[manifest["kind"]]]
    schema = kind.schema()
    document = without_nulls(manifest, schema)
    for cause in faults(document, schema):
        if cause.reason == _WRONG_TYPE:
            raise OverrideError(f"imageOverrider: {cause.field}: {cause.message}")
    path = _POD_SPEC.get(manifest["kind"], _TEMPLATE_SPEC)
    return f"/{'/'.join(path)}/containers", _at(document, (*path, "containers")) or ()


def _at(document: Any, path: Sequence[str]) -> Any:
    """Return the value at a path of keys; None: there is none."""
    for key in path:
        document = document.get(key) if isinstance(document, dict) else None
    return document


def _with_words(manifest: Document, field: str, overrider: CommandArgsOverrider) -> Document:
    """Return the manifest with the changed command or arguments of the containers with the name."""
    if manifest.get("kind") not in _WORKLOADS:
        return manifest
    path = (*_POD_SPEC.get(manifest["kind"], _TEMPLATE_SPEC), "containers")
    containers = _at(manifest, path)
    if containers is not None and not isinstance(containers, list):
        raise OverrideError(f"{field}Overrider: /{'/'.join(path)} is not a list")
    operations = []
    for index, container in enumerate(containers or ()):
        if not isinstance(container, dict):
            raise OverrideError(f"{field}Overrider: /{'/'.join(path)}/{index} is not a container")
        if container.get("name") != overrider.container_name or overrider.operator not in (ADD, REMOVE):
            continue
        words = container.get(field) or []
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise OverrideError(
                f"{field}Overrider: {field} of container {overrider.container_name} is not a list of texts"
            )
        changed = [*words, *overrider.value] if overrider.operator == ADD else _without(words, overrider.value)
        if changed != words:
            operations.append(_operation(ADD, f"/{'/'.join(path)}/{index}/{field}", changed))
    return _patched(manifest, operations, lambda item: item, f"{field}Overrider") if operations else manifest


def _without(words: Sequence[str], removed: Iterable[str]) -> list[str]:
    gone = set(removed)
    return [word for word in words if word not in gone]


def _with_pairs(manifest: Document, field: str, overrider: LabelAnnotationOverrider) -> Document:
    """Return the manifest with changed labels or annotations. Keys that do not exist are neither replaced nor removed.

    If a value is not a text, the existing pairs cannot be read, and count as absent.
    """
    metadata = manifest.get("metadata") or {}
    stored = metadata.get(field) or {}
    readable = isinstance(stored, dict) and all(isinstance(value, str) for value in stored.values())
    pairs = dict(stored) if readable else {}
    match overrider.operator:
        case "add":
            pairs.update(overrider.value)
        case "replace":
            pairs.update({key: value for key, value in overrider.value.items() if key in pairs})
        case _:
            pairs = {key: value for key, value in pairs.items() if key not in overrider.value}
    if pairs == stored or (not readable and overrider.operator != ADD):
        return manifest
    return {**manifest, "metadata": {**metadata, field: pairs}}


def _joined(overriders: Iterable[FieldOverrider]) -> Iterator[FieldOverrider]:
    """Yield the changes of documents in fields. Successive ones of the same document are one: it is read and written
    once, because a YAML document of 1 MB takes a second or two."""
    last: FieldOverrider | None = None
    for field in overriders:
        if last is not None and last.field_path == field.field_path and bool(last.yaml) == bool(field.yaml):
            last = replace(last, json=(*last.json, *field.json), yaml=(*last.yaml, *field.yaml))
            continue
        if last is not None:
            yield last
        last = field
    if last is not None:
        yield last


def _text_at(manifest: Document, field_path: str) -> str | None:
    """Return the text that the path of a field leads to; None: it leads to none."""
    text: Any = manifest
    for token in field_path.split("/")[1:]:
        key = token.replace("~1", "/").replace("~0", "~")
        if isinstance(text, dict):
            text = text.get(key)
        else:
            text = text[int(key)] if isinstance(text, list) and key.isdecimal() and int(key) < len(text) else None
    return text if isinstance(text, str) else None


def _with_field(manifest: Document, overrider: FieldOverrider, count: Count) -> Document:
    """Return the manifest with a changed JSON or YAML document in the text of a field."""
    if not overrider.json and not overrider.yaml:
        return manifest
    path = overrider.field_path
    text = _text_at(manifest, path)
    if text is None:
        raise OverrideError(f"fieldOverrider: fieldPath {path} does not lead to a text in the object")
    count(manifest, len(text) * (_OF_YAML if overrider.yaml else _OF_JSON))
    try:
        if overrider.yaml:
            changed = _patched(field_document.from_yaml(text), overrider.yaml, _field_operation, "fieldOverrider")
            text = field_document.to_yaml(changed)
        else:
            changed = _patched(field_document.from_json(text), overrider.json, _field_operation, "fieldOverrider")
            text = field_document.to_json(changed)
    except FieldTextError as error:
        raise OverrideError(f"fieldOverrider: {path}: {error}") from None
    return _patched(manifest, [_operation(REPLACE, path, text)], lambda item: item, "fieldOverrider")  # type: ignore[no-any-return]
