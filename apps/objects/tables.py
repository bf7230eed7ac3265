"""The tables of objects, child rows and row-native values: their columns, and SQL that reads and writes many rows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache, cached_property
from typing import Any

import msgspec
from django.apps import apps
from django.contrib.postgres.fields import ArrayField
from django.db import models

from apps.objects.arrays import PACKERS, Array, texts
from apps.objects.encryption import SealError, as_far_as_possible, decrypted, with_unopened
from apps.objects.models import Child, StoredObject
from apps.objects.row_model import row_models
from apps.objects.write_lock import AT, BASE
from controlplane.apimachinery.as_written import plain
from controlplane.apimachinery.meta import Object, Ref
from controlplane.engine.state import Unreadable
from controlplane.kind import KINDS, decode
from controlplane.kinds import WORK, rows
from controlplane.kinds.template import Template

SEPARATOR = "\x1f"  # between the items of an array column, which is sent as one text per row

LOG = "objects_changelog"
_LOG_COLUMNS = "version, type, kind, namespace, name, doc, old_doc, actor, reason, cause, at"
_SAME_REF = "o.kind = w.kind AND o.namespace = w.namespace AND o.name = w.name"


def sql_type(field: Any) -> str:
    """Return the PostgreSQL type as which the values of a column are sent. Raises AssertionError for other fields."""
    if isinstance(field, models.DateTimeField):
        return "timestamptz"
    if isinstance(field, models.BooleanField):
        return "boolean"
    if isinstance(field, models.FloatField):
        return "double precision"
    if isinstance(field, models.IntegerField):
        return "bigint"
    assert isinstance(field, models.TextField | models.JSONField | ArrayField), f"{field} has no array type"
    return "text"


def _placeholders(count: int) -> str:
    return ", ".join(["%s"] * count)


class ObjectTable:
    """The table of one model of stored objects."""

    def __init__(self, model: type[StoredObject]) -> None:
        self.model = model
        self.name = model._meta.db_table
        self.projections = model.projections
        self.children = [ChildTable(child) for child in model.children]
        self.packers = [PACKERS[sql_type(model._meta.get_field(name))] for name in self.projections]

    def project(self, objects: Sequence[Object]) -> list[Array]:
        """Return the columns that are computed from objects (`StoredObject.projections`), packed."""
        columns = zip(self.projections.values(), self.packers, strict=True)
        return [pack(map(project, objects)) for project, pack in columns]

    def _source(self, base: str = BASE, rows: str = "w") -> str:
        """Return the part `rows` of a statement: the lines that are sent. `base`: the newest version before them."""
        names = [
            "n",
            "kind",
            "namespace",
            "name",
            "log_reason",
            "log_cause",
            "head",
            "tail",
            "uid",
            "generation",
            "keys",
        ]
        names += ["labels", "deletion_timestamp", "created_at", *self.projections]
        return f"""{rows} AS MATERIALIZED (
                SELECT {", ".join(name for name in names if name not in ("head", "tail"))}, {base} + n AS version,
                       head || '"resourceVersion":"' || ({base} + n)::text || '"' || tail AS doc
                FROM unnest({_placeholders(len(names))}) AS u({", ".join(names)})
            )"""

    @cached_property
    def _values(self) -> dict[str, str]:
        values = {name: f"w.{name}" for name in ("uid", "generation", "deletion_timestamp", "created_at", "doc")}
        values |= {"resource_version": "w.version"}
        values |= {name: f"string_to_array(w.{name}, '{SEPARATOR}')" for name in ("keys", "labels")}
        return values | {name: f"w.{name}" for name in self.projections}

    @cached_property
    def insert(self) -> str:
        return f"WITH {self._source()}, {self._inserted()} SELECT {self._checked('insert', 'written')}"

    def creation(self, place: int) -> tuple[str, str]:
        """Return the parts of a statement that insert objects, and the check of the written rows, for `creation.py`.

        `place` makes the names of the parts unlike those of other tables. The part `locked` has the newest version
        before the objects (`base`) and the time (`locked_at`).
        """
        names = {"rows": f"w{place}", "written": f"written{place}", "logged": f"logged{place}"}
        source = self._source("(SELECT base FROM locked)", names["rows"])
        inserted = self._inserted("(SELECT locked_at FROM locked)", **names)
        return f"{source}, {inserted}", self._checked("insert", names["written"], names["logged"])

    def _inserted(self, at: str = AT, rows: str = "w", written: str = "written", logged: str = "logged") -> str:
        columns = {"kind": "w.kind", "namespace": "w.namespace", "name": "w.name", **self._values}
        return f"""{written} AS (
                INSERT INTO {self.name} ({", ".join(columns)}) SELECT {", ".join(columns.values())} FROM {rows} w
                RETURNING id
            ), {logged} AS (
                INSERT INTO {LOG} ({_LOG_COLUMNS})
                SELECT version, 'ADDED', kind, namespace, name, doc, NULL, %s, log_reason, log_cause, {at} FROM {rows}
                RETURNING version
            )"""

    @cached_property
    def update(self) -> str:
        changes = ", ".join(f"{name} = {value}" for name, value in self._values.items())
        return f"""WITH {self._source()}, written AS (
                UPDATE {self.name} t SET {changes}
                FROM w JOIN {self.name} o ON {_SAME_REF}
                WHERE t.id = o.id
                RETURNING w.version, w.kind, w.namespace, w.name, w.doc, o.doc AS old_doc, w.log_reason, w.log_cause
            ), {self._logged("MODIFIED")} SELECT {self._checked("update", "logged")}"""

    @cached_property
    def delete(self) -> str:
        return f"""WITH {self._source()}, written AS (
                DELETE FROM {self.name} o USING w WHERE {_SAME_REF}
                RETURNING w.version, w.kind, w.namespace, w.name, w.doc, o.doc AS old_doc, w.log_reason, w.log_cause
            ), {self._logged("DELETED")} SELECT {self._checked("delete", "logged")}"""

    def _logged(self, type_: str) -> str:
        return f"""logged AS (
                INSERT INTO {LOG} ({_LOG_COLUMNS})
                SELECT version, '{type_}', kind, namespace, name, doc, old_doc, %s, log_reason, log_cause, {AT}
                FROM written
                RETURNING version
            )"""

    def _checked(self, operation: str, written: str, logged: str = "logged") -> str:
        """Return the expression at the end of a statement that fails unless as many rows are written as were sent.

        `written`: the part of the statement whose rows are counted. "logged" counts for both the table and the log if
        the log's rows come from the table's: counting the rows of the table would read their documents.
        """
        return f"""objects_written('{operation} in {self.name}', %s,
                (SELECT count(*) FROM {written}), (SELECT count(*) FROM {logged}))"""

    @cached_property
    def moved(self) -> str:
        """The query for references whose object is not at the expected version (NULL: absent), with its document."""
        return f"""
            SELECT w.kind, w.namespace, w.name, o.doc
            FROM unnest(%s, %s, %s, %s) AS w(kind, namespace, name, version)
            LEFT JOIN {self.name} o ON {_SAME_REF}
            WHERE o.resource_version IS DISTINCT FROM w.version"""

    @cached_property
    def unmoved(self) -> str:
        """The statement that fails unless the object of each reference is at the expected version (NULL: absent)."""
        return self._same("resource_version")

    @cached_property
    def same_generations(self) -> str:
        """The statement that fails unless the object of each reference has the expected generation (NULL: absent)."""
        return self._same("generation")

    def _same(self, column: str) -> str:
        return f"""
            SELECT objects_assumed('{self.name}', (
                SELECT count(*) FROM unnest(%s, %s, %s, %s) AS w(kind, namespace, name, expected)
                LEFT JOIN {self.name} o ON {_SAME_REF}
                WHERE o.{column} IS DISTINCT FROM w.expected))"""

    @cached_property
    def newest_changed(self) -> str:
        """The expression that is 1 unless the newest object of a kind has the expected version (NULL: none exists)."""
        return f"""(
            SELECT count(*) FROM (SELECT max(resource_version) AS version FROM {self.name} WHERE kind = %s) newest
            WHERE newest.version IS DISTINCT FROM %s::bigint)"""

    @cached_property
    def generations(self) -> str:
        return f"""
            SELECT o.kind, o.namespace, o.name, o.generation
            FROM unnest(%s, %s, %s) AS w(kind, namespace, name) JOIN {self.name} o ON {_SAME_REF}"""

    @cached_property
    def look(self) -> str:
        """The query for the database's time and the document of one reference, NULL without such an object."""
        return f"""
            SELECT clock_timestamp(), (
                SELECT doc FROM {self.name} WHERE kind = %s AND namespace = %s AND name = %s)"""

    @cached_property
    def fetch(self) -> str:
        """The query for documents by reference. The subquery makes PostgreSQL look up each reference in the index."""
        return f"""
            SELECT w.kind, w.namespace, w.name, o.doc
            FROM unnest(%s, %s, %s) AS w(kind, namespace, name)
            CROSS JOIN LATERAL (SELECT doc FROM {self.name} o WHERE {_SAME_REF} LIMIT 1) o"""


class ChildTable:
    """A table of child rows: each row repeats a part of the document of its owner."""

    def __init__(self, child: Child) -> None:
        model = apps.get_model(child.table)
        self.name = model._meta.db_table
        self.rows = child.rows
        self.by_name = child.by_name
        self.column, self.columns = child.owner, child.columns  # of the owner, and of the values
        columns = (child.owner, *child.columns)
        self.packers = [PACKERS[sql_type(model._meta.get_field(column))] for column in columns]
        listed = ", ".join(columns)
        self.delete = f"DELETE FROM {self.name} WHERE {child.owner} = ANY(%s)"
        self.insert = f"INSERT INTO {self.name} ({listed}) SELECT * FROM unnest({_placeholders(len(columns))})"

    def owner(self, ref: Ref) -> str:
        """Return the text by which the rows of an object name it."""
        return ref.name if self.by_name else str(ref)

    def pack(self, rows_: Sequence[tuple[Any, ...]]) -> list[Array]:
        """Return rows as packed columns."""
        columns = zip(*rows_, strict=True)
        return [pack(column) for pack, column in zip(self.packers, columns, strict=True)]


class RowTable:
    """The table of one type of row-native values."""

    def __init__(self, type_: Any) -> None:
        self.type = type_
        model = row_models()[type_]
        self.name = model._meta.db_table
        self.fields = type_.__struct_fields__
        found = [model._meta.get_field(name) for name in self.fields]
        self.packers = [PACKERS[sql_type(field)] for field in found]
        self.documents = {name for name, field in zip(self.fields, found, strict=True) if _is_json(field)}
        self.columns = ", ".join(self.fields)
        values = ", ".join(f"{name}::jsonb" if name in self.documents else name for name in self.fields)
        changes = ", ".join(f"{name} = excluded.{name}" for name in self.fields if name != "key")
        number = next_number = renumbered = ""
        if type_.NUMBERED:  # the write lock is held, so the order of numbers is the order of commits
            number, next_number = ", number", f", nextval('{self.name}_numbers')"
            before, after = (", ".join(f"{side}.{name}" for name in type_.NUMBERED) for side in ("t", "excluded"))
            renumbered = f", number = CASE WHEN ({before}) = ({after}) THEN t.number ELSE excluded.number END"
        inserted = f"""
            INSERT INTO {self.name} AS t ({self.columns}{number})
            SELECT {values}{next_number} FROM unnest({_placeholders(len(self.fields))}) AS w({self.columns})"""
        conflict = f"ON CONFLICT (key) DO UPDATE SET {changes}{renumbered}"
        self.save = f"{inserted} {conflict}"
        # As a part of a statement whose part `locked` takes the write lock: rows are read when that lock is held.
        self.save_locked = f"{inserted} WHERE (SELECT base FROM locked) IS NOT NULL {conflict}"
        self.named = ["key", type_.MADE] if type_.MADE else ["key"]  # fields by which a value is found to be dropped
        same = " AND ".join(f"t.{name} IS NOT DISTINCT FROM w.{name}" for name in self.named[1:])
        self.drop = f"""
            DELETE FROM {self.name} AS t USING unnest({_placeholders(len(self.named))}) AS w({", ".join(self.named)})
            WHERE t.key = w.key{same and f" AND {same}"}"""

    def select(self, index: str, *, others: bool = False) -> str:
        """Return the query for rows by an index. Raises AssertionError if the type declares no such index.

        `others`: the second parameter are the keys of rows to leave out.
        """
        left_out = " AND key NOT IN (SELECT unnest(%s))" if others else ""  # is hashed, unlike <> ALL of a parameter
        return f"SELECT {self.columns} FROM {self.name} WHERE {self.indexed(index)} = ANY(%s){left_out} ORDER BY key"

    def indexed(self, index: str) -> str:
        """Return the column of an index. Raises AssertionError if the type declares no such index."""
        assert index == "key" or index in self.type.INDEXES, f"{self.type.__name__} declares no index {index}"
        return index

    def pack(self, values: Sequence[rows.Row], *, fields: Sequence[str] = ()) -> list[Array]:
        """Return values as packed columns. `fields`: only these; empty: all."""
        packed = []
        for name, pack in zip(self.fields, self.packers, strict=True):
            if fields and name not in fields:
                continue
            column = [getattr(value, name) for value in values]
            packed.append(texts(map(_document, column)) if name in self.documents else pack(column))
        return packed

    def read(self, record: Sequence[Any]) -> Any:
        """Return the value of a row."""
        if not self.documents:
            return self.type(*record)
        return msgspec.convert(dict(zip(self._names, record, strict=True)), self.type)

    @cached_property
    def _names(self) -> list[str]:
        return [field.encode_name for field in msgspec.structs.fields(self.type)]


_NUL = re.compile(rb"(?<!\\)((?:\\\\)*)\\u0000")  # escaped, and not the text \\u0000


def _document(value: Any) -> bytes:
    """Return a value as JSON for a column of type jsonb, with ␀ for each NUL, which PostgreSQL refuses."""
    encoded = msgspec.json.encode(value, enc_hook=plain)
    return _NUL.sub("\\g<1>␀".encode(), encoded) if rb"\u0000" in encoded else encoded


def _is_json(field: Any) -> bool:
    return isinstance(field, models.JSONField)


@cache
def object_table(kind: str) -> ObjectTable:
    """Return the table of a kind. Objects of unknown kinds are in the table of templates."""
    known = KINDS.get(kind)
    return _table(known.table if known is not None else "objects.Object")


@cache
def _table(label: str) -> ObjectTable:
    model: Any = apps.get_model(label)
    return ObjectTable(model)


def object_tables() -> list[ObjectTable]:
    """Return all tables of objects, in the order of their names."""
    models_ = [model for model in apps.get_models() if issubclass(model, StoredObject)]
    return sorted((_table(model._meta.label) for model in models_), key=lambda table: table.name)


@cache
def row_table(type_: type) -> RowTable:
    """Return the table of a row-native type."""
    return RowTable(type_)


def read(kind: str, doc: str, *, unopened: bool = False) -> Any:
    """Return the object of a stored document, decrypted. An object of an unknown kind is a Template.

    `unopened`: values whose key is lost are `Unopened` values in the object. So they are in every Work: those who send
    its manifest to a member look for them, and all others need none of its values.

    Raises Unreadable if it cannot be decrypted, or is no document of its kind as this release knows it.
    """
    try:
        doc = decrypted(kind, doc)
    except SealError:
        if not unopened and kind != WORK:
            raise
        shown, document = as_far_as_possible(doc)
        return with_unopened(_decoded(kind, shown), document)
    return _decoded(kind, doc)


def _decoded(kind: str, doc: str) -> Any:
    known = KINDS.get(kind)
    try:
        return decode(known, doc) if known is not None else Template.fold(msgspec.json.decode(doc))
    except msgspec.MsgspecError as error:
        raise Unreadable(f"the stored {kind}{_named(doc)} is no document of its kind: {error}") from error


class _Name(msgspec.Struct):
    name: str
    namespace: str = ""


class _Named(msgspec.Struct):
    metadata: _Name


def _named(doc: str) -> str:
    """Return the name of the object of a document, after a space; "": the document does not say it."""
    try:
        found = msgspec.json.decode(doc, type=_Named).metadata
    except msgspec.MsgspecError:
        return ""
    return f" {found.namespace}/{found.name}" if found.namespace else f" {found.name}"
