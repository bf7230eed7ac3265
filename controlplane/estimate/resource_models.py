"""Resource models of a cluster: the default models, their stored form, their validation, and the grade of a node
[resource-models].

How many replicas fit is computed in `estimate.resource_model_room`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from controlplane.apimachinery.errors import Cause
from controlplane.apimachinery.quantities import MAX_INT64, Quantity, QuantityError, parse
from controlplane.kinds.cluster import ResourceModel, ResourceModelRange

RESOURCES: Final = ("cpu", "memory", "storage", "ephemeral-storage")
"""The resources that the document on resource models allows; other names are accepted with a Warning."""

_UNBOUNDED: Final = str(MAX_INT64)
_CPU: Final = ("0", "1", "2", "4", "8", "16", "32", "64", "128", _UNBOUNDED)
_MEMORY: Final = ("0", "4Gi", "16Gi", "32Gi", "64Gi", "128Gi", "256Gi", "512Gi", "1Ti", _UNBOUNDED)

DEFAULT_MODELS: Final = tuple(
    ResourceModel(
        grade,
        (
            ResourceModelRange("cpu", _CPU[grade], _CPU[grade + 1]),
            ResourceModelRange("memory", _MEMORY[grade], _MEMORY[grade + 1]),
        ),
    )
    for grade in range(9)
)
"""The nine grades of a cluster whose spec lists no resource models."""


def standardise(models: Sequence[ResourceModel]) -> tuple[ResourceModel, ...]:
    """Return models in the form in which they are stored. Call this before `violations`.

    An empty list becomes the default models. Other lists are sorted by grade. The minima of the first grade become 0
    and the maxima of the last grade become MaxInt64.
    """
    if not models:
        return DEFAULT_MODELS
    ordered = sorted(models, key=lambda model: model.grade)
    ordered[0] = replace(ordered[0], ranges=tuple(replace(bound, min="0") for bound in ordered[0].ranges))
    ordered[-1] = replace(ordered[-1], ranges=tuple(replace(bound, max=_UNBOUNDED) for bound in ordered[-1].ranges))
    return tuple(ordered)


def warnings(models: Sequence[ResourceModel]) -> list[str]:
    """Return warnings for the writer: what `standardise` changes, and resource names outside RESOURCES."""
    if not models:
        return []
    ordered = sorted(models, key=lambda model: model.grade)
    texts = [
        f"spec.resourceModels: the first grade's min of {bound.name}, {bound.min}, was stored as 0"
        for bound in ordered[0].ranges
        if not _same(bound.min, "0")
    ]
    texts += [
        f"spec.resourceModels: the last grade's max of {bound.name}, {bound.max}, was stored as MaxInt64"
        for bound in ordered[-1].ranges
        if not _same(bound.max, _UNBOUNDED)
    ]
    unknown = sorted({bound.name for model in models for bound in model.ranges} - set(RESOURCES))
    if unknown:
        texts.append(f"spec.resourceModels: {', '.join(unknown)} may not be counted; use {', '.join(RESOURCES)}")
    return texts


def violations(models: Sequence[ResourceModel]) -> list[Cause]:
    """Return every validation error of models in their stored form."""
    messages: list[str] = []
    for index, model in enumerate(models):
        try:
            messages += [
                f"grade {model.grade}: max {bound.max} of {bound.name} must be greater than its min {bound.min}"
                for bound in model.ranges
                if parse(bound.max) <= parse(bound.min)
            ]
        except QuantityError as error:
            messages.append(f"grade {model.grade}: {error}")
            continue
        if index:
            messages += _against_previous(models[index - 1], model)
    return [Cause("FieldValueInvalid", message, "spec.resourceModels") for message in messages]


def _against_previous(previous: ResourceModel, model: ResourceModel) -> list[str]:
    grade = model.grade
    if previous.grade == grade:
        return [f"grade {grade} is listed twice: every grade must be different"]
    if len(previous.ranges) != len(model.ranges):
        return [
            f"grade {grade} has {len(model.ranges)} resource types, grade {previous.grade} has "
            f"{len(previous.ranges)}: the number must be the same in every grade"
        ]
    if [bound.name for bound in previous.ranges] != [bound.name for bound in model.ranges]:
        return [f"grade {grade}: the resource types must be those of grade {previous.grade}, in the same order"]
    return [
        f"grade {grade}: min {bound.min} of {bound.name} must be the max of grade {previous.grade}, {below.max}: "
        "intervals must be contiguous and must not overlap"
        for below, bound in zip(previous.ranges, model.ranges, strict=True)
        if not _same(below.max, bound.min)
    ]


def _same(left: str, right: str) -> bool:
    """Test whether two bounds have the same value, as 1 and 1000m have. A bound that is no quantity counts as equal."""
    try:
        return parse(left) == parse(right)
    except QuantityError:
        return True  # `violations` reports the bound that is not a quantity


def grade_of(models: Sequence[ResourceModel], free: Mapping[str, Quantity]) -> int:
    """Return the index of the model that a node with these free amounts belongs to. -1: below the first model.

    For each resource the node reaches the last model whose min is free; the lowest of these models is the answer.
    Examples with the default models: 0.5 CPU and 2Gi → 0, 1.5 CPU and 10Gi → 1. A resource that the node lacks is 0.
    """
    lowest = len(models) - 1
    for position, bound in enumerate(models[0].ranges if models else ()):
        amount = free.get(bound.name)
        nano = 0 if amount is None else amount.nano
        fits = -1
        for index, model in enumerate(models):
            if parse(model.ranges[position].min).nano <= nano:
                fits = index
            else:
                break
        lowest = min(lowest, fits)
    return lowest
