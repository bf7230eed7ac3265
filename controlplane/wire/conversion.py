"""Conversion of objects between the versions of a CustomResourceDefinition [definition-versions]."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import orjson

from controlplane.wire.prune import prune
from controlplane.wire.schema import Schema

Document = dict[str, Any]

API_VERSION: Final = "apiextensions.k8s.io/v1"
KIND: Final = "ConversionReview"
_IDENTITY: Final = (("name", "name"), ("namespace", "namespace"), ("uid", "UID"))
_CHANGEABLE: Final = ("labels", "annotations")


class ConversionFailed(ValueError):
    """The answer of a conversion webhook cannot be used. The text says what the webhook did."""


def renamed(document: Document, api_version: str, schema: Schema) -> Document:
    """Return an object in another version by the strategy None: only the apiVersion changes.

    Fields that the schema of the version does not have are left out.
    """
    return prune({**document, "apiVersion": api_version}, schema)


def review_of(documents: Sequence[Document], api_version: str, *, uid: str) -> bytes:
    """Return the ConversionReview that asks for objects in another version."""
    request = {"uid": uid, "desiredAPIVersion": api_version, "objects": list(documents)}
    return orjson.dumps({"kind": KIND, "apiVersion": API_VERSION, "request": request})


def converted(review: Any, sent: Sequence[Document], api_version: str, *, uid: str) -> list[Document]:
    """Return the objects of an answered review, with the metadata of those that were sent.

    A webhook may change labels and annotations, and no other metadata. Raises ConversionFailed.
    """
    if not isinstance(review, dict) or (review.get("apiVersion"), review.get("kind")) != (API_VERSION, KIND):
        raise ConversionFailed(f"failed: expected webhook response of {API_VERSION}, Kind={KIND}")
    response = review.get("response")
    if not isinstance(response, dict):
        raise ConversionFailed("failed: no response provided")
    if response.get("uid") != uid:
        raise ConversionFailed(f'failed: expected response.uid="{uid}", got "{response.get("uid")}"')
    stated = response.get("result")
    result: Document = stated if isinstance(stated, dict) else {}
    if result.get("status") != "Success":
        why = result.get("message")
        missing = f"response.result.status was '{result.get('status')}', not 'Success'"
        raise ConversionFailed(f"failed: {why or missing}")
    found = response.get("convertedObjects")
    found = found if isinstance(found, list) else []
    if len(found) != len(sent):
        raise ConversionFailed(f"returned {len(found)} objects, expected {len(sent)}")
    return [
        _checked(index, made, before, api_version) for index, (made, before) in enumerate(zip(found, sent, strict=True))
    ]


def _checked(index: int, made: Any, before: Document, api_version: str) -> Document:
    """Return a converted object with the metadata of the object that was sent. Raises ConversionFailed."""
    at = f"returned invalid object at index {index}"
    if not isinstance(made, dict):
        raise ConversionFailed(f"{at}: it is no object")
    if made.get("apiVersion") != api_version:
        raise ConversionFailed(
            f"{at}: invalid groupVersion (expected {api_version}, received {made.get('apiVersion')})"
        )
    if made.get("kind") != before["kind"]:
        raise ConversionFailed(f"{at}: invalid kind (expected {before['kind']}, received {made.get('kind')})")
    metadata, was = made.get("metadata"), before["metadata"]
    if not isinstance(metadata, dict):
        raise ConversionFailed(f"{at}: it has no metadata")
    for field, said in _IDENTITY:
        if metadata.get(field) != was.get(field):
            differs = f"must have the same {said}: {was.get(field)} != {metadata.get(field)}"
            raise ConversionFailed(f"returned invalid object: {differs}")
    kept = {key: value for key, value in was.items() if key not in _CHANGEABLE}
    for field in _CHANGEABLE:
        values = metadata.get(field)
        if values is None:
            continue
        if not isinstance(values, dict) or not all(isinstance(value, str) for value in values.values()):
            raise ConversionFailed(f"{at}: metadata.{field} must be a map of texts")
        kept[field] = values
    return {**made, "metadata": kept}
