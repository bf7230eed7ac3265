"""Resource models: grades of nodes by what is free on them; defaults, standard form, rules, and grading (S003)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from controlplane.apimachinery.errors import Cause
from controlplane.apimachinery.quantities import MAX_INT64, Quantity, QuantityError, parse
from controlplane.kinds.cluster import ResourceModel, ResourceModelRange

RESOURCES: Final = ("cpu", "memory", "storage", "ephemeral-storage")
"""What S003 lets models speak of; other names are accepted with a Warning (D16)."""

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
"""The nine grades a cluster gets that names none (S003)."""


def standardise(models: Sequence[ResourceModel]) -> tuple[ResourceModel, ...]:
    """Return models in the form they are stored in: none become the defaults, others are sorted by grade, the first
    minimum becomes 0 and the last maximum MaxInt64 (D16). To be done before `violations`."""
    if not models:
        return DEFAULT_MODELS
    ordered = sorted(models, key=lambda model: model.grade)
    first = replace(ordered[0], ranges=tuple(replace(one, min="0") for one in ordered[0].ranges))
    ordered[0] = first
    last = replace(ordered[-1], ranges=tuple(replace(one, max=_UNBOUNDED) for one in ordered[-1].ranges))
    ordered[-1] = last
    return tuple(ordered)


def warnings(models: Sequence[ResourceModel]) -> list[str]:
    """Return what `standardise` changes and which resource names S003 does not know."""
    if not models:
        return []
    ordered = sorted(models, key=lambda model: model.grade)
    found = [
        f"spec.resourceModels: the first grade's min of {one.name}, {one.min}, was stored as 0"
        for one in ordered[0].ranges
        if not _same(one.min, "0")
    ]
    found += [
        f"spec.resourceModels: the last grade's max of {one.name}, {one.max}, was stored as MaxInt64"
        for one in ordered[-1].ranges
        if not _same(one.max, _UNBOUNDED)
    ]
    unknown = sorted({one.name for model in models for one in model.ranges} - set(RESOURCES))
    if unknown:
        found.append(f"spec.resourceModels: {', '.join(unknown)} beside {', '.join(RESOURCES)} may not be counted")
    return found


def violations(models: Sequence[ResourceModel]) -> list[Cause]:
    """Return every rule of S003 that standardised models break."""
    found: list[str] = []
    for index, model in enumerate(models):
        try:
            found += [
                f"grade {model.grade}: max {one.max} of {one.name} must be greater than its min {one.min}"
                for one in model.ranges
                if parse(one.max) <= parse(one.min)
            ]
        except QuantityError as error:
            found.append(f"grade {model.grade}: {error}")
            continue
        if index:
            found += _against_previous(models[index - 1], model)
    return [Cause("FieldValueInvalid", message, "spec.resourceModels") for message in found]


def _against_previous(previous: ResourceModel, model: ResourceModel) -> list[str]:
    grade = model.grade
    if previous.grade == grade:
        return [f"grade {grade} is there twice: every grade must be different"]
    if len(previous.ranges) != len(model.ranges):
        return [
            f"grade {grade} has {len(model.ranges)} resource types, grade {previous.grade} has "
            f"{len(previous.ranges)}: the number must be the same in every grade"
        ]
    if [one.name for one in previous.ranges] != [one.name for one in model.ranges]:
        return [f"grade {grade}: the resource types must be those of grade {previous.grade}, in the same order"]
    return [
        f"grade {grade}: min {now.min} of {now.name} must be the max of grade {previous.grade}, {before.max}: "
        "intervals must be contiguous and must not overlap"
        for before, now in zip(previous.ranges, model.ranges, strict=True)
        if not _same(before.max, now.min)
    ]


def _same(left: str, right: str) -> bool:
    """Equality by value: 1 and 1000m are the same bound (D16)."""
    try:
        return parse(left) == parse(right)
    except QuantityError:
        return True  # reported by the rule that parses each bound


def grade_of(models: Sequence[ResourceModel], free: Mapping[str, Quantity]) -> int:
    """Return the index of the model a node with that much free belongs to; -1 where it is below the first.

    For each resource the last model whose min is still free; the lowest of these counts (S003: 0.5C/2Gi is grade 0,
    1.5C/10Gi grade 1). A resource the node does not have counts as 0.
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
