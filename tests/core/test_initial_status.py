"""The status with which a new object is stored. The recorded answers of a kube-apiserver have no Guaranteed pod."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.kube.initial_status import initial_status

BOTH = {"cpu": "1", "memory": "1Gi"}
EQUAL = {"requests": {"cpu": "1000m", "memory": "1024Mi"}, "limits": BOTH}


def pod(*resources: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {"containers": [{"name": f"c{place}", "resources": one} for place, one in enumerate(resources)], **spec}


@pytest.mark.parametrize(
    ("spec", "qos"),
    [
        (pod({}), "BestEffort"),
        (pod({"requests": {"cpu": "0", "example.com/gpu": "1"}}), "BestEffort"),
        (pod(EQUAL), "Guaranteed"),
        (pod(EQUAL, EQUAL), "Guaranteed"),
        (pod(EQUAL, {}), "Burstable"),
        (pod(EQUAL, initContainers=[{"name": "init"}]), "Burstable"),
        (pod({"requests": BOTH}), "Burstable"),
        (pod({"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}), "Burstable"),
        (pod({"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": BOTH}), "Burstable"),
        (pod({}, resources=EQUAL), "Guaranteed"),
    ],
)
def test_a_new_pod_is_pending_with_its_qos_class(spec: dict[str, Any], qos: str) -> None:
    assert initial_status("Pod", spec) == {"phase": "Pending", "qosClass": qos}


def test_a_kind_without_an_initial_status_has_none() -> None:
    assert initial_status("apps/Deployment", {"replicas": 1}) == {}
