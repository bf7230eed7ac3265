"""What `kubectl get` prints for built-in kinds."""

from datetime import UTC, datetime
from typing import Any

import pytest

from controlplane.wire import builtin
from controlplane.wire.table import columns_of, table

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
CREATED = "2026-11-20T11:54:48Z"


def printed(kind: str, *, wide: bool = False, **document: Any) -> dict[str, Any]:
    """Return what one object shows, by column; `kind` is apiVersion/Kind."""
    api_version, _, name = kind.rpartition("/")
    group, _, version = api_version.rpartition("/")
    resource = builtin.resource(group, version, name)
    assert resource is not None, kind
    metadata = {"name": "web", "creationTimestamp": CREATED, **document.pop("metadata", {})}
    rows = table(resource, [{"metadata": metadata, **document}], now=NOW)["rows"]
    shown = [column for column in columns_of(resource) if wide or column.priority == 0]
    cells = zip(columns_of(resource), rows[0]["cells"], strict=True)
    return {column.name: cell for column, cell in cells if column in shown}


HEADINGS = {
    "v1/ConfigMap": "Name Data Age",
    "v1/Secret": "Name Type Data Age",
    "v1/Namespace": "Name Status Age",
    "v1/ServiceAccount": "Name Secrets Age",
    "v1/Service": "Name Type Cluster-IP External-IP Port(s) Age Selector",
    "v1/Endpoints": "Name Endpoints Age",
    "v1/Event": "Last-Seen Type Reason Object Subobject Source Message First-Seen Count Name",
    "v1/Node": "Name Status Roles Age Version Internal-IP External-IP OS-Image Kernel-Version Container-Runtime",
    "v1/Pod": "Name Ready Status Restarts Age IP Node Nominated-Node Readiness-Gates",
    "v1/PersistentVolumeClaim": (
        "Name Status Volume Capacity Access-Modes StorageClass VolumeAttributesClass Age VolumeMode"
    ),
    "apps/v1/Deployment": "Name Ready Up-to-date Available Age Containers Images Selector",
    "apps/v1/StatefulSet": "Name Ready Age Containers Images",
    "apps/v1/ReplicaSet": "Name Desired Current Ready Age Containers Images Selector",
    "apps/v1/DaemonSet": (
        "Name Desired Current Ready Up-to-date Available Node-Selector Age Containers Images Selector"
    ),
    "batch/v1/Job": "Name Status Completions Duration Age Containers Images Selector",
    "batch/v1/CronJob": "Name Schedule Timezone Suspend Active Last-Schedule Age Containers Images Selector",
    "autoscaling/v2/HorizontalPodAutoscaler": "Name Reference Targets MinPods MaxPods Replicas Age",
    "networking.k8s.io/v1/Ingress": "Name Class Hosts Address Ports Age",
    "policy/v1/PodDisruptionBudget": "Name Min-Available Max-Unavailable Allowed-Disruptions Age",
    "coordination.k8s.io/v1/Lease": "Name Holder Age",
    "rbac.authorization.k8s.io/v1/Role": "Name Created-At",
}


@pytest.mark.parametrize("kind", HEADINGS)
def test_columns_stand_in_the_order_kubectl_prints_them(kind):
    headings = " ".join(name.replace(" ", "-") for name in printed(kind, wide=True))

    assert headings == HEADINGS[kind]


@pytest.mark.parametrize("resource", builtin.RESOURCES, ids=lambda resource: f"{resource.api_version}/{resource.kind}")
def test_an_object_of_which_nothing_is_known_yet_can_be_printed(resource):
    nulls = {"metadata": {"name": "a"}, "spec": None, "status": None, "data": None, "subsets": None, "webhooks": None}

    rows = table(resource, [{"metadata": {"name": "a"}}, nulls], now=NOW)["rows"]

    assert len(rows) == 2
    for row in rows:
        assert len(row["cells"]) == len(columns_of(resource))
        assert all(cell is not None for cell in row["cells"])


def template(**spec: Any) -> dict[str, Any]:
    containers = [{"name": "web", "image": "nginx:1.27"}, {"name": "log", "image": "busybox"}]
    return {"spec": {"containers": containers, **spec}}


def test_a_deployment_shows_how_far_its_rollout_is():
    shown = printed(
        "apps/v1/Deployment",
        wide=True,
        spec={"replicas": 3, "selector": {"matchLabels": {"app": "web", "a": "b"}}, "template": template()},
        status={"readyReplicas": 1, "updatedReplicas": 2, "availableReplicas": 1},
    )

    assert shown == {
        "Name": "web",
        "Ready": "1/3",
        "Up-to-date": 2,
        "Available": 1,
        "Age": "5m12s",
        "Containers": "web,log",
        "Images": "nginx:1.27,busybox",
        "Selector": "a=b,app=web",
    }


def test_a_selector_by_expressions_is_written_as_kubectl_takes_it():
    expressions = [
        {"key": "tier", "operator": "In", "values": ["a", "b"]},
        {"key": "env", "operator": "NotIn", "values": ["dev"]},
        {"key": "x", "operator": "Exists"},
        {"key": "y", "operator": "DoesNotExist"},
    ]

    shown = printed("networking.k8s.io/v1/NetworkPolicy", spec={"podSelector": {"matchExpressions": expressions}})

    assert shown["Pod-Selector"] == "tier in (a,b),env notin (dev),x,!y"


@pytest.mark.parametrize(
    ("spec", "status", "external", "ports"),
    [
        ({"type": "ClusterIP", "ports": [{"port": 80, "protocol": "TCP"}]}, {}, "<none>", "80/TCP"),
        ({"type": "NodePort", "ports": [{"port": 80, "nodePort": 30080}]}, {}, "<none>", "80:30080/TCP"),
        ({"type": "LoadBalancer", "ports": []}, {}, "<pending>", "<none>"),
        ({"type": "LoadBalancer"}, {"loadBalancer": {"ingress": [{"ip": "10.1.1.1"}]}}, "10.1.1.1", "<none>"),
        ({"type": "ExternalName", "externalName": "example.com"}, {}, "example.com", "<none>"),
        ({"externalIPs": ["1.2.3.4", "1.2.3.5"]}, {}, "1.2.3.4,1.2.3.5", "<none>"),
    ],
)
def test_a_service_shows_where_it_can_be_reached(spec, status, external, ports):
    shown = printed("v1/Service", spec=spec, status=status)

    assert (shown["External-IP"], shown["Port(s)"]) == (external, ports)


def running(**more: Any) -> dict[str, Any]:
    return {"name": "web", "ready": True, "restartCount": 0, "state": {"running": {}}, **more}


def waiting(reason: str) -> dict[str, Any]:
    return {"name": "web", "ready": False, "restartCount": 0, "state": {"waiting": {"reason": reason}}}


def ended(code: int, reason: str = "") -> dict[str, Any]:
    state = {"terminated": {"exitCode": code, "reason": reason}}
    return {"name": "web", "ready": False, "restartCount": 0, "state": state}


@pytest.mark.parametrize(
    ("status", "metadata", "word"),
    [
        ({"phase": "Pending"}, {}, "Pending"),
        ({"phase": "Running", "containerStatuses": [running()]}, {}, "Running"),
        ({"phase": "Running", "containerStatuses": [waiting("CrashLoopBackOff")]}, {}, "CrashLoopBackOff"),
        ({"phase": "Failed", "containerStatuses": [ended(137, "OOMKilled")]}, {}, "OOMKilled"),
        ({"phase": "Failed", "containerStatuses": [ended(2)]}, {}, "ExitCode:2"),
        ({"phase": "Failed", "reason": "Evicted"}, {}, "Evicted"),
        ({"phase": "Succeeded", "containerStatuses": [ended(0, "Completed")]}, {}, "Completed"),
        (
            {"phase": "Running", "containerStatuses": [ended(0, "Completed"), running()]},
            {},
            "NotReady",
        ),
        ({"phase": "Running", "containerStatuses": [running()]}, {"deletionTimestamp": CREATED}, "Terminating"),
        ({"phase": "Pending", "initContainerStatuses": [waiting("PodInitializing")]}, {}, "Init:0/2"),
        ({"phase": "Pending", "initContainerStatuses": [ended(0), waiting("ErrImagePull")]}, {}, "Init:ErrImagePull"),
        (
            {"phase": "Running", "initContainerStatuses": [ended(0), ended(0)], "containerStatuses": [running()]},
            {},
            "Running",
        ),
    ],
)
def test_a_pod_says_in_one_word_what_it_is_at(status, metadata, word):
    spec = template(initContainers=[{"name": "one"}, {"name": "two"}])["spec"]

    assert printed("v1/Pod", spec=spec, status=status, metadata=metadata)["Status"] == word


def test_a_pod_counts_ready_containers_and_restarts():
    crashed = {"restartCount": 3, "lastState": {"terminated": {"finishedAt": "2026-11-20T11:50:00Z"}}}
    status = {"phase": "Running", "podIP": "10.0.0.1", "containerStatuses": [running(**crashed), waiting("X")]}

    shown = printed("v1/Pod", wide=True, spec=template(nodeName="n1")["spec"], status=status)

    assert (shown["Ready"], shown["Restarts"]) == ("1/2", "3 (10m ago)")
    assert (shown["IP"], shown["Node"], shown["Nominated Node"], shown["Readiness Gates"]) == (
        "10.0.0.1",
        "n1",
        "<none>",
        "<none>",
    )


def test_a_sidecar_counts_as_a_container():
    spec = template(initContainers=[{"name": "proxy", "restartPolicy": "Always"}])["spec"]
    proxy = {"name": "proxy", "started": True, "ready": True, "state": {"running": {}}}

    shown = printed("v1/Pod", spec=spec, status={"phase": "Running", "initContainerStatuses": [proxy]})

    assert (shown["Ready"], shown["Status"]) == ("1/3", "Running")


@pytest.mark.parametrize(
    ("spec", "status", "word", "completions", "duration"),
    [
        ({"completions": 3}, {"succeeded": 1, "startTime": "2026-11-20T11:59:00Z"}, "Running", "1/3", "60s"),
        (
            {"completions": 1},
            {
                "succeeded": 1,
                "startTime": "2026-11-20T11:00:00Z",
                "completionTime": "2026-11-20T11:00:05Z",
                "conditions": [{"type": "Complete", "status": "True"}],
            },
            "Complete",
            "1/1",
            "5s",
        ),
        ({"parallelism": 4}, {"conditions": [{"type": "Failed", "status": "True"}]}, "Failed", "0/1 of 4", ""),
        ({}, {"conditions": [{"type": "Suspended", "status": "True"}]}, "Suspended", "0/1", ""),
    ],
)
def test_a_job_shows_how_it_goes(spec, status, word, completions, duration):
    shown = printed("batch/v1/Job", spec=spec, status=status)

    assert (shown["Status"], shown["Completions"], shown["Duration"]) == (word, completions, duration)


def test_a_cron_job_shows_when_it_last_ran():
    spec = {"schedule": "@hourly", "suspend": True, "timeZone": "Etc/UTC"}

    shown = printed("batch/v1/CronJob", spec=spec, status={"active": [{}], "lastScheduleTime": "2026-11-20T11:00:00Z"})

    assert [shown[name] for name in ("Schedule", "Timezone", "Suspend", "Active", "Last Schedule")] == [
        "@hourly",
        "Etc/UTC",
        "True",
        1,
        "60m",
    ]
    assert printed("batch/v1/CronJob", spec={"schedule": "@daily"})["Last Schedule"] == "<none>"


def test_a_node_shows_readiness_and_roles():
    shown = printed(
        "v1/Node",
        wide=True,
        metadata={"labels": {"node-role.kubernetes.io/control-plane": "", "kubernetes.io/role": "master"}},
        spec={"unschedulable": True},
        status={
            "conditions": [{"type": "Ready", "status": "False"}],
            "addresses": [{"type": "InternalIP", "address": "10.0.0.7"}],
            "nodeInfo": {"kubeletVersion": "v1.32.0"},
        },
    )

    assert shown["Status"] == "NotReady,SchedulingDisabled"
    assert shown["Roles"] == "control-plane,master"
    assert (shown["Version"], shown["Internal-IP"], shown["External-IP"]) == ("v1.32.0", "10.0.0.7", "<none>")


def test_an_autoscaler_shows_current_and_wanted():
    cpu = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}
    memory = {"type": "Resource", "resource": {"name": "memory", "target": {"averageValue": "1Gi"}}}
    seen = {"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 10}}}
    reference = {"kind": "Deployment", "name": "web"}

    shown = printed(
        "autoscaling/v2/HorizontalPodAutoscaler",
        spec={"scaleTargetRef": reference, "metrics": [cpu, memory], "minReplicas": 1, "maxReplicas": 5},
        status={"currentMetrics": [seen], "currentReplicas": 2},
    )

    assert shown["Targets"] == "cpu: 10%/80%, memory: <unknown>/1Gi"
    assert (shown["Reference"], shown["MinPods"], shown["MaxPods"], shown["Replicas"]) == ("Deployment/web", "1", 5, 2)


def test_an_event_shows_when_it_was_last_seen_and_of_what():
    event = {
        "type": "Warning",
        "reason": "TaintClusterFailed",
        "message": "could not\n",
        "involvedObject": {"kind": "Cluster", "name": "member1"},
        "firstTimestamp": "2026-11-20T11:00:00Z",
        "lastTimestamp": "2026-11-20T11:58:00Z",
        "count": 7,
        "source": {"component": "cluster-controller", "host": "h"},
    }

    shown = printed("v1/Event", wide=True, **event)

    assert (shown["Last Seen"], shown["First Seen"], shown["Count"]) == ("2m", "60m", 7)
    assert (shown["Object"], shown["Message"]) == ("cluster/member1", "could not")
    assert shown["Source"] == "cluster-controller, h"


def test_an_event_of_the_newer_kind_prints_alike():
    shown = printed(
        "events.k8s.io/v1/Event",
        wide=True,
        regarding={"kind": "Pod", "name": "a"},
        note="hello",
        eventTime="2026-11-20T12:00:00.400000Z",
        reportingController="me",
    )

    assert (shown["Last Seen"], shown["Object"], shown["Message"], shown["Source"]) == ("0s", "pod/a", "hello", "me")


def test_long_lists_are_cut_short():
    addresses = [{"ip": f"10.0.0.{index}"} for index in range(5)]

    shown = printed("v1/Endpoints", subsets=[{"addresses": addresses, "ports": [{"port": 80}]}])

    assert shown["Endpoints"] == "10.0.0.0:80,10.0.0.1:80,10.0.0.2:80 + 2 more..."


def test_an_ingress_shows_hosts_address_and_ports():
    spec = {"ingressClassName": "nginx", "rules": [{"host": "a.com"}, {"host": "b.com"}], "tls": [{}]}
    status = {"loadBalancer": {"ingress": [{"hostname": "lb.example.com"}]}}

    shown = printed("networking.k8s.io/v1/Ingress", spec=spec, status=status)

    assert [shown[name] for name in ("Class", "Hosts", "Address", "Ports")] == [
        "nginx",
        "a.com,b.com",
        "lb.example.com",
        "80, 443",
    ]


def test_claims_budgets_quotas_and_bindings_show_what_matters():
    claim = printed(
        "v1/PersistentVolumeClaim",
        spec={"volumeName": "pv1", "storageClassName": "fast"},
        status={"phase": "Bound", "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce", "ReadOnlyMany"]},
    )
    budget = printed("policy/v1/PodDisruptionBudget", spec={"minAvailable": 0}, status={"disruptionsAllowed": 2})
    quota = printed(
        "v1/ResourceQuota", status={"hard": {"pods": "5", "limits.cpu": "2"}, "used": {"pods": "1", "limits.cpu": "1"}}
    )
    binding = printed(
        "rbac.authorization.k8s.io/v1/RoleBinding",
        wide=True,
        roleRef={"kind": "Role", "name": "r"},
        subjects=[{"kind": "User", "name": "ann"}, {"kind": "ServiceAccount", "namespace": "n", "name": "robot"}],
    )

    assert (claim["Status"], claim["Capacity"], claim["Access Modes"]) == ("Bound", "1Gi", "RWO,ROX")
    assert (budget["Min Available"], budget["Max Unavailable"], budget["Allowed Disruptions"]) == ("0", "N/A", 2)
    assert (quota["Request"], quota["Limit"]) == ("pods: 1/5", "limits.cpu: 1/2")
    assert (binding["Role"], binding["Users"], binding["ServiceAccounts"]) == ("Role/r", "ann", "n/robot")


def test_the_default_class_is_marked():
    annotations = {"storageclass.kubernetes.io/is-default-class": "true"}

    assert printed("storage.k8s.io/v1/StorageClass", metadata={"annotations": annotations})["Name"] == "web (default)"
