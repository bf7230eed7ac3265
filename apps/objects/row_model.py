"""Models of row-native values: their columns are the fields of the value's type in `controlplane.kinds.rows`.

The type is the only place where the fields are listed. A field added there becomes a column with the next
`manage.py makemigrations`, and `apps.objects.tables` reads and writes the column without further ado.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from functools import cache
from types import NoneType
from typing import Any, ClassVar, get_args

import msgspec
from django.apps import apps
from django.db import models
from django.db.models.base import ModelBase
from msgspec.structs import FieldInfo

from apps.objects.fields import CodePointTextField
from apps.objects.read_only import ReadOnlyModel
from controlplane.kinds import rows

_COLUMNS: dict[Any, type[models.Field[Any, Any]]] = {
    str: CodePointTextField,
    bool: models.BooleanField,
    int: models.BigIntegerField,
    float: models.FloatField,
    datetime: models.DateTimeField,
}


def column_of(field: FieldInfo, *, prose: bool) -> models.Field[Any, Any]:
    """Return the column of a field: of a plain type where there is one, else JSON. The value None becomes NULL.

    `prose`: a text that no query compares or sorts by. Its column has the collation of the database.

    The default of the field is the default of the column in the database as well. So processes of the release before
    can go on to insert rows while an update adds the column.
    """
    if field.name == "key":
        return CodePointTextField(primary_key=True)
    parts = get_args(field.type)
    optional = NoneType in parts
    plain = next(part for part in parts if part is not NoneType) if optional else field.type
    column = models.TextField if prose else _COLUMNS.get(plain, models.JSONField)
    if optional:
        return column(null=True)
    default = field.default if field.default is not msgspec.NODEFAULT else field.default_factory()
    if column is not models.JSONField:
        return column(default=default, db_default=default)
    assert not default, f"the default of {field.name} is not empty: say how it is written as JSON"
    empty = dict if isinstance(default, dict) else list
    return column(default=empty, db_default=models.Value(empty(), models.JSONField()))


class RowModelBase(ModelBase):
    """Gives a model the columns of its type of values: `class Sweep(RowModel, row=rows.Sweep)`.

    `prose`: fields that hold sentences or documents as text; see `column_of`.
    """

    def __new__(
        cls,
        name: str,
        bases: tuple[type, ...],
        attrs: dict[str, Any],
        *,
        row: type[rows.Row] | None = None,
        prose: Collection[str] = (),
    ) -> Any:
        if row is not None:
            fields = msgspec.structs.fields(row)
            attrs |= {"row": row, **{field.name: column_of(field, prose=field.name in prose) for field in fields}}
        return super().__new__(cls, name, bases, attrs)


class RowModel(ReadOnlyModel, metaclass=RowModelBase):
    """A table of row-native values of one type (`row`), each under its `key`."""

    row: ClassVar[type[rows.Row]]

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return str(self.pk)


@cache
def row_models() -> dict[type[rows.Row], type[RowModel]]:
    """Return the model of each type of row-native values. Raises AssertionError if a type has no model, or several."""
    found = [model for model in apps.get_models() if issubclass(model, RowModel)]
    by_type = {model.row: model for model in found}
    assert len(by_type) == len(found), "two models keep row-native values of one type"
    missing = [row.__name__ for row in rows.ROWS if row not in by_type]
    assert not missing, f"no model keeps row-native values of {', '.join(missing)}: declare a RowModel with row="
    return by_type
