"""Files that a user names: what is wrong in them is said with its place, and nothing of their text is shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from apps.command import exit_codes, manifests
from apps.command.program import app

SECRET = "lb_only-for-tests"
BAD_TEXTS = {
    "quote": f'kind: PropagationPolicy\nspec: "{SECRET}',
    "colon": f"kind: PropagationPolicy\nspec: {SECRET}: x",
    "alias": f"kind: PropagationPolicy\nspec: *{SECRET}",
    "tag": f"kind: PropagationPolicy\nspec: !{SECRET} x",
    "number": f"kind: PropagationPolicy\nspec: !!int {SECRET}",
    "time": f"kind: PropagationPolicy\nspec: !!timestamp {SECRET}",
    "bytes": "kind: PropagationPolicy\nspec: !!binary aGVsbG8=",
    "set": f"kind: PropagationPolicy\nspec: !!set {{{SECRET}}}",
    "not a number": "kind: PropagationPolicy\nspec: .nan",
    "in itself": "kind: PropagationPolicy\nspec: &all [*all]",
    "deep": f"kind: PropagationPolicy\nspec: {'[' * 2000}{']' * 2000}",
    "twice": f"kind: PropagationPolicy\nspec: 1\nspec: {SECRET}",
    "list as key": f"kind: PropagationPolicy\nspec: {{? [{SECRET}] : 1}}",
    "nul": f"kind: PropagationPolicy\nspec: {SECRET}\x00",
    "not utf-8": "kind: \udcff",
    "empty": "",
}


def lifeboat(*arguments: str) -> Any:
    done = CliRunner().invoke(app, list(arguments))
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exc_info
    return done


def written(folder: Path, text: str) -> str:
    file = folder / "file.yaml"
    file.write_bytes(text.encode(errors="surrogateescape"))
    return str(file)


@pytest.mark.parametrize(
    "command", [("whatif", "-f"), ("interpret", "-f"), ("import", "--file")], ids=lambda one: one[0]
)
@pytest.mark.parametrize("text", BAD_TEXTS.values(), ids=BAD_TEXTS)
def test_a_file_that_cannot_be_read_is_one_sentence_without_its_text(
    command: tuple[str, str], text: str, tmp_path: Path
) -> None:
    done = lifeboat(*command, written(tmp_path, text))

    nothing = command[0] == "import" and not text
    assert done.exit_code == (exit_codes.NOT_FOUND if nothing else exit_codes.USAGE).code, done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert nothing or "file.yaml" in done.stderr
    assert SECRET not in done.stderr


def test_a_file_is_read_as_kubectl_reads_it(tmp_path: Path) -> None:
    text = "at: 2026-01-01T00:00:00Z\nports: 22:22\ncpu: 1e3\n1: &a {on: x}\nb: *a\n"

    assert manifests.documents(Path(written(tmp_path, text))) == [
        {"at": "2026-01-01T00:00:00Z", "ports": "22:22", "cpu": 1000.0, "1": {"true": "x"}, "b": {"true": "x"}}
    ]


WORK, CLUSTER = "work.karmada.io/v1alpha2", "cluster.karmada.io/v1alpha1"
RESOURCE = {"apiVersion": "v1", "kind": "Secret", "namespace": "shop", "name": "a"}


@pytest.mark.parametrize(
    ("api_version", "kind", "content", "said"),
    [
        (CLUSTER, "Cluster", {}, "Cluster a: spec is missing"),
        (CLUSTER, "Cluster", {"spec": {"secretRef": {"name": "a"}}}, "spec.secretRef.namespace is missing"),
        (CLUSTER, "Cluster", {"spec": {"secretRef": "a"}}, "spec.secretRef is a text, and has to be an object"),
        (WORK, "ResourceBinding", {"spec": {}}, "ResourceBinding a: spec.resource is missing"),
        (WORK, "ResourceBinding", {"spec": {"resource": {**RESOURCE, "name": 5}}}, "spec.resource.name is a whole"),
        (WORK, "ResourceBinding", {"spec": {"resource": RESOURCE, "clusters": ["a"]}}, "spec.clusters[0] is a text"),
        ("apiextensions.k8s.io/v1", "CustomResourceDefinition", {"spec": {}}, "spec.group is missing"),
        ("batch/v1", "Job", {"spec": {"template": []}}, "spec.template is a list"),
        ("v1", "Namespace", {"metadata": {}}, "metadata.name is missing"),
        ("v1", "Namespace", {"metadata": {"name": "a", "labels": "b"}}, "metadata.labels is a text"),
        ("v1", "List", {"items": 5}, "items is a whole number, and has to be a list"),
        ("v1", "List", {"items": ["a"]}, "items[0] is a text, and has to be an object"),
    ],
)
def test_an_object_without_the_fields_that_an_import_reads_is_refused_with_the_field(
    api_version: str, kind: str, content: dict[str, Any], said: str, tmp_path: Path
) -> None:
    document = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "a", "namespace": "shop"}, **content}

    done = lifeboat("import", "--file", written(tmp_path, json.dumps(document)), "--dry-run", "-o", "json")

    assert done.exit_code == exit_codes.USAGE.code
    assert said in done.stderr
    assert "file.yaml, document 1" in done.stderr


def test_a_label_field_that_is_null_is_none(tmp_path: Path) -> None:
    metadata = {"name": "a", "labels": None, "annotations": None}
    kinds = ((CLUSTER, "Cluster"), ("policy.karmada.io/v1alpha1", "PropagationPolicy"))
    items = [{"apiVersion": group, "kind": kind, "metadata": metadata, "spec": {}} for group, kind in kinds]

    done = lifeboat(*("import", "--file", written(tmp_path, json.dumps({"items": items})), "--dry-run", "-o", "json"))

    assert (done.exit_code, len(json.loads(done.stdout)["items"])) == (0, 2)
