"""The tables of row-native values: their columns are the fields of the values."""

from __future__ import annotations

import pytest
from django.db import models

from apps.objects.row_model import RowModel, row_models
from apps.objects.store import store
from controlplane.kinds import rows


@pytest.mark.parametrize("row", rows.ROWS, ids=lambda row: row.__name__)
def test_a_table_has_a_column_for_each_field_and_none_beside_them(row: type[rows.Row]) -> None:
    columns = [field.column for field in row_models()[row]._meta.concrete_fields]

    assert set(columns) - set(row.__struct_fields__) <= {"number"}
    assert set(row.__struct_fields__) <= set(columns)
    assert ("number" in columns) == bool(row.NUMBERED)


@pytest.mark.parametrize("row", rows.ROWS, ids=lambda row: row.__name__)
def test_each_index_of_a_type_begins_an_index_of_its_table(row: type[rows.Row]) -> None:
    indexes: list[models.Index] = row_models()[row]._meta.indexes

    assert set(row.INDEXES) <= {index.fields[0] for index in indexes if index.condition is None}


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("row", rows.ROWS, ids=lambda row: row.__name__)
def test_an_older_process_can_insert_rows_without_the_columns_that_an_update_adds(row: type[rows.Row]) -> None:
    from django.db import connection  # here: Django is not set up while tests are collected

    with connection.cursor() as cursor:
        cursor.execute(f"INSERT INTO {row_models()[row]._meta.db_table} (key) VALUES ('one')")

    assert store().rows(row, "key", ["one"])["one"] == [row("one")]


def test_a_type_without_a_table_stops_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    class Forgotten(rows.Row, frozen=True):
        pass

    monkeypatch.setattr(rows, "ROWS", (*rows.ROWS, Forgotten))

    with pytest.raises(AssertionError, match="no model keeps row-native values of Forgotten"):
        row_models.__wrapped__()


def test_a_model_is_read_only() -> None:
    assert all(issubclass(model, RowModel) for model in row_models().values())
