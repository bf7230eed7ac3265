from __future__ import annotations

import pytest

from controlplane.apimachinery import names
from controlplane.apimachinery.selectors import label_key_errors


def test_the_work_of_a_deployment_is_called_as_scripts_expect() -> None:
    assert names.work_name("Deployment", "nginx", "default") == "nginx-687f7fb96f"


@pytest.mark.parametrize(("name", "lowered"), [("System:Admin", "system.admin"), ("ΑΣ", "ασ"), ("İd", "id")])
def test_names_are_lowered_character_by_character(name: str, lowered: str) -> None:
    assert names.binding_name("ClusterRole", name) == f"{lowered}-clusterrole"
    assert names.work_name("ClusterRole", name).startswith(f"{lowered}-")


def test_colons_become_dots_in_names_and_nowhere_else() -> None:
    assert names.work_name("Role", "a:b", "x:y") == f"a.b-{names.safe_hash('x:y-a.b-role')}"


def test_works_of_the_same_name_in_other_namespaces_do_not_collide() -> None:
    places = ["", "default", "prod"]

    assert len({names.work_name("ConfigMap", "web", place) for place in places}) == len(places)


@pytest.mark.parametrize(("text", "hashed"), [("", 2166136261), ("a", 0xE40C292C), ("foobar", 0xBF9CF968)])
def test_the_hash_is_32_bit_fnv_1a(text: str, hashed: int) -> None:
    assert names.fnv1a32(text) == hashed


def test_a_cluster_is_found_back_from_its_execution_namespace() -> None:
    assert names.cluster_of_execution_namespace(names.execution_namespace("member1")) == "member1"


def test_a_namespace_without_works_is_refused_by_name() -> None:
    with pytest.raises(names.ForeignNamespace, match=r'"default".*karmada-es-'):
        names.cluster_of_execution_namespace("default")


@pytest.mark.parametrize(
    ("namespace", "reserved"),
    [
        ("karmada-system", True),
        ("karmada-cluster", True),
        ("karmada-es-m1", True),
        ("default", False),
        ("karmada", False),
    ],
)
def test_system_namespaces_are_never_propagated(namespace: str, reserved: bool) -> None:
    assert names.is_reserved_namespace(namespace) is reserved


def test_every_label_and_annotation_is_a_valid_key() -> None:
    keys = [
        value for name, value in vars(names).items() if name.endswith(("_LABEL", "_ANNOTATION", "_FINALIZER", "_TAINT"))
    ]

    assert len(keys) > 30
    assert [key for key in keys if label_key_errors(key)] == []
    assert not label_key_errors(names.depended_by_label("default", "web-deployment"))
