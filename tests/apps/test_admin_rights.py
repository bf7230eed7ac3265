"""Rights in one namespace count in the admin for objects of that namespace only."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.test import Client
from django.urls import reverse

from apps.objects.access import access
from apps.objects.store import store
from apps.objects.writer import Author, Writer
from controlplane.apimachinery.meta import Ref
from controlplane.authorization.policy import CLUSTER_ROLE_BINDING, ROLE_BINDING
from controlplane.kinds import KINDS
from controlplane.settings import Settings
from tests.apps.conftest import _bound
from tests.apps.pages import confirmed, found, stored
from tests.builders.templates import namespace

CLASS = "scheduling.k8s.io/PriorityClass"


@pytest.fixture
def olga(clerk: Client) -> Client:
    """A browser of an operator of the fleet who may do everything in the namespace shop."""
    stored(namespace("shop"))
    writer = Writer(store(), Settings(), Author("test", "Test"))
    writer.create(KINDS[CLUSTER_ROLE_BINDING], _bound("lifeboat:operator", to="olga"))
    whole = _bound("cluster-admin", to="olga")
    whole = {**whole, "kind": "RoleBinding", "metadata": {**whole["metadata"], "namespace": "shop"}}
    writer.create(KINDS[ROLE_BINDING], whole)
    access().policy(reread=True)
    client = Client()
    client.force_login(get_user_model().objects.create_user("olga", is_staff=True))
    return client


def add(browser: Client, text: str) -> Any:
    return confirmed(browser, reverse("admin:objects_object_add"), {"document": text, "basis": "0", "_continue": "1"})


def test_rights_in_a_namespace_add_no_object_of_the_cluster_that_names_the_namespace(olga: Client) -> None:
    """A manifest of a cluster-scoped kind may name a namespace, which is left out."""
    manifest = (
        "{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: mine, namespace: shop}, value: 9}"
    )

    answer = add(olga, manifest)

    assert found(Ref(CLASS, "", "mine")) is None
    assert answer.status_code == 403


def test_rights_in_a_namespace_add_objects_there(olga: Client) -> None:
    manifest = "{{apiVersion: v1, kind: ConfigMap, metadata: {{name: mine, namespace: {0}}}}}"

    add(olga, manifest.format("shop"))
    refused = add(olga, manifest.format("other"))

    assert found(Ref("ConfigMap", "shop", "mine")) is not None
    assert refused.status_code == 403


def test_an_administrator_adds_objects_of_the_cluster(root: Client) -> None:
    manifest = (
        "{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: all, namespace: shop}, value: 9}"
    )

    assert add(root, manifest).status_code == 200
    assert found(Ref(CLASS, "", "all")) is not None


@pytest.mark.parametrize("metadata", ["null", "[1]", "shop"])
def test_a_new_object_whose_metadata_is_no_object_is_an_error_of_the_form(root: Client, metadata: str) -> None:
    answer = add(root, f"{{apiVersion: v1, kind: ConfigMap, metadata: {metadata}}}")

    assert answer.status_code == 200
    assert "metadata must be an object with a name" in answer.content.decode()
