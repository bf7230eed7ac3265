"""Relations between rows for reading: `binding.targets.all()`, `Binding.objects.prefetch_related("targets")`.

Rows name the object they belong to by its name or by its reference as text ("ResourceBinding:shop/web"). A relation
lets Django follow that text. It adds no column, no database constraint and no migration, and nothing can be written
through it (`apps.objects.read_only`).
"""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import Any, NoReturn

from django.core.exceptions import FieldError
from django.db import models
from django.db.models.expressions import Expression
from django.db.models.fields.related import ForeignObject
from django.db.models.fields.related_descriptors import ForwardManyToOneDescriptor

from controlplane.apimachinery.meta import Ref

_TEXT = "({0}.kind || ':' || CASE {0}.namespace WHEN '' THEN '' ELSE {0}.namespace || '/' END || {0}.name)"
_PLACE = "substr({0}, strpos({0}, ':') + 1)"  # namespace/name, or the name of what has no namespace
_PARSED = (
    "{1}.kind = split_part({0}, ':', 1)"
    f" AND {{1}}.namespace = CASE strpos({_PLACE}, '/') WHEN 0 THEN '' ELSE split_part({_PLACE}, '/', 1) END"
    f" AND {{1}}.name = substr({_PLACE}, strpos({_PLACE}, '/') + 1)"
)


class ReferenceField(models.TextField):
    """The reference of a stored object as text, computed from its kind, namespace and name. It has no column."""

    def contribute_to_class(self, cls: Any, name: str, private_only: bool = False) -> None:
        super().contribute_to_class(cls, name, private_only=True)
        setattr(cls, name, property(lambda row: str(Ref(row.kind, row.namespace, row.name))))

    def get_attname_column(self) -> Any:
        return self.get_attname(), None

    def get_col(self, alias: str, output_field: Any = None) -> NoReturn:
        raise FieldError("reference is computed and cannot be searched: filter by kind, namespace and name")


class _ObjectDescriptor(ForwardManyToOneDescriptor):
    """Gives rows their objects; for many rows with one query that uses the unique index of the objects' table."""

    def get_prefetch_querysets(self, instances: Any, querysets: Any = None) -> Any:
        if not self.field.by_reference:
            return super().get_prefetch_querysets(instances, querysets)
        (found,) = querysets or (self.get_queryset(instance=instances[0]),)
        named = self.field.get_local_related_value
        names: dict[tuple[str, str], set[str]] = {}
        for (text,) in map(named, instances):
            ref = Ref.parse(text)
            names.setdefault((ref.kind, ref.namespace), set()).add(ref.name)
        parts = (models.Q(kind=kind, namespace=space, name__in=some) for (kind, space), some in names.items())
        found = found.filter(reduce(or_, parts))
        return found, lambda row: (row.reference,), named, True, self.field.cache_name, False


class ReadRelation(ForeignObject):
    """The stored object that a row belongs to, named by a column of the row (`column`).

    `by`: the field of the object that the column repeats. `many`: the name under which the object has its rows.
    Filters may go through the relation in both directions. `select_related` does not know it; `prefetch_related` does.
    """

    forward_related_accessor_class = _ObjectDescriptor

    def __init__(self, to: str, *, column: str, by: str, many: str) -> None:
        super().__init__(to, models.DO_NOTHING, [column], [by], related_name=many, editable=False)

    def contribute_to_class(self, cls: Any, name: str, private_only: bool = False, **kwargs: Any) -> None:
        super().contribute_to_class(cls, name, private_only=True, **kwargs)

    def _check_unique_target(self) -> list[Any]:
        return []  # the unique constraint is on kind, namespace and name together

    @property
    def by_reference(self) -> bool:
        """Whether rows name their object by its reference, which is no column of the object."""
        return isinstance(self.foreign_related_fields[0], ReferenceField)

    def get_joining_fields(self, reverse_join: bool = False) -> Any:
        return () if self.by_reference else super().get_joining_fields(reverse_join)

    def get_extra_restriction(self, alias: str, related_alias: str) -> Any:
        """Return the condition of a join. It is stated in both directions, so that either side's index can be used."""
        if not self.by_reference:
            return None
        text, object_ = f'"{related_alias}".{self.from_fields[0]}', f'"{alias}"'
        condition = f"{text} = {_TEXT.format(object_)} AND {_PARSED.format(text, object_)}"
        return _Condition(condition)

    def get_reverse_related_filter(self, obj: Any) -> models.Q:
        """Return what finds the object of a row by the unique index of its table."""
        if not self.by_reference:
            return super().get_reverse_related_filter(obj)
        ref = Ref.parse(getattr(obj, self.from_fields[0]))
        return models.Q(kind=ref.kind, namespace=ref.namespace, name=ref.name)


class _Condition(Expression):
    """A condition in SQL, without parameters."""

    def __init__(self, sql: str) -> None:
        super().__init__(models.BooleanField())
        self.sql = sql

    def as_sql(self, compiler: Any, connection: Any) -> Any:
        return self.sql, []
