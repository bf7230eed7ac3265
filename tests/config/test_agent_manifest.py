"""The manifest of the agent fits Kubernetes, and the agent accepts the arguments that are in it."""

from __future__ import annotations

from typing import Any

import kubernetes_validate
import pytest
import yaml

from apps.agent.program import _parser
from tests.config.prose import PROJECT
from tests.config.test_chart import KUBERNETES

PLACES = {"CLUSTER": "edge1", "SERVER": "https://lifeboat.example.com", "IMAGE": "lifeboat-agent:0.1.0"}


def documents() -> list[dict[str, Any]]:
    """Return the manifest as its first lines say that it is to be filled in."""
    text = (PROJECT / "docker" / "agent.yaml").read_text()
    for place, value in PLACES.items():
        text = text.replace(place, value)
    return list(yaml.safe_load_all(text))


@pytest.mark.parametrize("version", KUBERNETES)
def test_every_object_of_the_manifest_fits_kubernetes(version: str) -> None:
    for document in documents():
        kubernetes_validate.validate(document, version, strict=True)


def test_the_agent_accepts_the_arguments_of_both_containers_and_works_in_one_folder() -> None:
    (deployment,) = [one for one in documents() if one["kind"] == "Deployment"]
    pod = deployment["spec"]["template"]["spec"]

    asked = [_parser().parse_args(one["args"]) for one in (*pod["initContainers"], *pod["containers"])]

    assert [(one.command, one.cluster) for one in asked] == [("register", "edge1"), ("run", "edge1")]
    assert asked[0].folder == asked[1].folder
    mounted = {mount["name"]: mount["mountPath"] for mount in pod["containers"][0]["volumeMounts"]}
    assert asked[1].folder.is_relative_to(mounted["state"])
    assert set(mounted) <= {volume["name"] for volume in pod["volumes"]}
