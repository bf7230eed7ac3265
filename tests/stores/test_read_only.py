"""Rows are written by `apply` alone: Django's ORM reads them, and refuses to write them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.apps import apps
from django.core import serializers
from django.db import models

from apps.objects.models import Object
from apps.objects.read_only import ReadOnlyModel, WriteRefused
from controlplane.kind import KINDS

GROUND = ("objects", "clusters", "policies", "resources", "failover", "scheduling")
MODELS = [model for label in GROUND for model in apps.get_app_config(label).get_models()]
WRITES: dict[str, Callable[[Any], Any]] = {
    "save": lambda model: model().save(),
    "delete": lambda model: model(pk=1).delete(),
    "create": lambda model: model.objects.create(),
    "get_or_create": lambda model: model.objects.get_or_create(pk=1),
    "update_or_create": lambda model: model.objects.update_or_create(pk=1),
    "bulk_create": lambda model: model.objects.bulk_create([model()]),
    "bulk_update": lambda model: model.objects.bulk_update([model(pk=1)], ["pk"]),
    "update": lambda model: model.objects.filter(pk=1).update(pk=2),
    "delete of a query set": lambda model: model.objects.all().delete(),
    "update by the base manager": lambda model: model._base_manager.update(pk=2),
}


def test_no_table_of_the_ground_is_left_out() -> None:
    tables = {kind.table for kind in KINDS}

    assert tables <= {model._meta.label for model in MODELS}
    assert all(issubclass(model, ReadOnlyModel) for model in MODELS)


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
@pytest.mark.parametrize("model", MODELS, ids=lambda model: model._meta.label)
def test_a_write_by_django_is_refused_with_the_ways_that_do_write(
    model: type[models.Model], write: Callable[[Any], Any]
) -> None:
    with pytest.raises(WriteRefused, match=rf"refused for rows of {model._meta.label}: .*kubectl apply -f FILE"):
        write(model)


@pytest.mark.django_db(transaction=True)
def test_a_fixture_cannot_write_a_row_either() -> None:
    text = '[{"model": "objects.object", "pk": 1, "fields": {"kind": "ConfigMap", "name": "one"}}]'
    (found,) = serializers.deserialize("json", text)

    with pytest.raises(WriteRefused):
        found.save()

    assert not Object.objects.exists()
