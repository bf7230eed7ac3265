"""Models that Django may read and must not write: their rows belong to `apply`, which writes them with SQL.

A row that Django wrote itself would get no resourceVersion and no entry in the change log. No watcher would see the
change and no controller would be woken. So every write of the ORM raises WriteRefused, in admin actions and in shells
as well. Migrations are not affected: they work on models of their own.
"""

from __future__ import annotations

from typing import Any, NoReturn

from django.db import models


class WriteRefused(Exception):
    """A write by Django's ORM of a row that only `apply` writes."""


def refuse(model: type[models.Model], operation: str) -> NoReturn:
    """Raise WriteRefused for an operation of the ORM, with the ways that do write."""
    raise WriteRefused(
        f"{operation} is refused for rows of {model._meta.label}: the change would have no version, no entry in the "
        "change log and no watcher. Change the object instead: with kubectl (kubectl apply -f FILE, kubectl edit, "
        "kubectl delete), on its admin page, or in a shell with apps.objects.edits.create, change or remove"
    )


def _refused(operation: str, *, on_manager: bool) -> Any:
    """Return a method of a query set that raises WriteRefused. `on_manager`: managers have the method as well."""

    def method(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
        refuse(self.model, operation)

    attributes: dict[str, Any] = {"alters_data": True, "queryset_only": not on_manager}  # as on Django's own methods
    method.__dict__.update(attributes)
    return method


class ReadOnlyQuerySet(models.QuerySet[Any]):
    """A query set whose writing methods raise WriteRefused. The asynchronous methods of Django call these."""

    create = _refused("create", on_manager=True)
    get_or_create = _refused("get_or_create", on_manager=True)
    update_or_create = _refused("update_or_create", on_manager=True)
    bulk_create = _refused("bulk_create", on_manager=True)
    bulk_update = _refused("bulk_update", on_manager=True)
    update = _refused("update", on_manager=True)
    delete = _refused("delete", on_manager=False)
    # What Model.save_base and cascading deletions call. Fixtures call Model.save_base past any method of a model.
    _insert = _refused("save", on_manager=True)
    _update = _refused("save", on_manager=True)
    _raw_delete = _refused("delete", on_manager=False)


class ReadOnlyModel(models.Model):
    """A model whose rows only `apply` writes.

    A derived model with a `Meta` must not inherit this one's: `base_manager_name` would become part of its migrations.
    """

    objects = ReadOnlyQuerySet.as_manager()

    class Meta:
        abstract = True
        base_manager_name = "objects"  # Django's relations and fixtures write through the base manager

    def save(self, *args: Any, **kwargs: Any) -> NoReturn:
        refuse(type(self), "save")

    def save_base(self, *args: Any, **kwargs: Any) -> NoReturn:
        refuse(type(self), "save")

    def delete(self, *args: Any, **kwargs: Any) -> NoReturn:
        refuse(type(self), "delete")
