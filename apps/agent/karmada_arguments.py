"""The arguments of karmada-agent, so that a Deployment of it can run this agent [agent-arguments].

Arguments with a meaning here become arguments or settings of this agent. Every other one is refused with the reason and
the nearest argument of this agent, because an argument without effect would only look as if it was followed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Final, NamedTuple

from apps.agent.credentials import Unusable
from controlplane.apimachinery.names import CLUSTER_NAMESPACE

# Fields of the Cluster that karmada-agent writes when it joins its cluster. This agent compares them, because only
# administrators of the control plane write the spec of a Cluster.
CLUSTER_FIELDS: Final[Mapping[str, str]] = {
    "cluster-api-endpoint": "apiEndpoint",
    "proxy-server-address": "proxyURL",
    "cluster-provider": "provider",
    "cluster-region": "region",
}
_RENAMED: Final[Mapping[str, str]] = {
    "karmada-kubeconfig": "--kubeconfig",
    "karmada-context": "--context",
    "kubeconfig": "--member-kubeconfig",
}
_DURATIONS: Final = (
    "cluster-lease-duration",
    "cluster-status-update-frequency",
    "cluster-success-threshold",
    "cluster-failure-threshold",
)
_SETTINGS: Final[Mapping[str, str]] = {
    **{name: name.replace("-", "_") for name in _DURATIONS},
    "cluster-lease-renew-interval-fraction": "cluster_lease_renew_fraction",
    "enable-cluster-resource-modeling": "enable_cluster_resource_modeling",
    "feature-gates": "feature_gates",
}
_SWITCHES: Final = frozenset(("enable-cluster-resource-modeling", "leader-elect", "enable-pprof"))
_ALWAYS_ON: Final = frozenset(("*", "certRotation", "clusterStatus", "execution", "workStatus"))
# Arguments of karmada-agent without a meaning here, and why. Others of the same beginning have the same reason.
_WITHOUT_MEANING: Final[Mapping[str, str]] = {
    "bind-address": "the agent serves nothing but metrics: --metrics-host",
    "secure-port": "the agent serves nothing but metrics: --metrics-port",
    "health-probe-bind-address": "/metrics is the probe of the agent: --metrics-port",
    "profiling-bind-address": "the agent has no profiler: use py-spy on the process",
    "enable-pprof": "the agent has no profiler: use py-spy on the process",
    "cert-rotation-checking-interval": "the agent computes when to renew: --renew-at",
    "karmada-kubeconfig-namespace": "the agent keeps its certificate in a folder and not in a Secret: --folder",
    "leader-elect": "a cluster has one agent, which keeps its state in a folder: --folder",
    "cluster-cache-sync-timeout": "the agent keeps trying until the API of its cluster answers",
    "cluster-api-": "the agent has a fixed number of requests to its cluster at a time",
    "kube-api-": "the agent has a fixed number of requests to the control plane at a time",
    "rate-limiter-": "the agent waits longer after each failure of an object, at most 60 s",
    "concurrent-": "the agent works on all objects in one process, with a fixed number of requests at a time",
    "resync-period": "the agent compares all objects every LIFEBOAT_MEMBERS_COMPARE_SECONDS",
    "v": "the level of the log is LIFEBOAT_LOG_LEVEL",
    "vmodule": "the level of the log is LIFEBOAT_LOG_LEVEL",
    "log": "the log goes to standard error, at the level LIFEBOAT_LOG_LEVEL",
    "alsologtostderr": "the log goes to standard error, at the level LIFEBOAT_LOG_LEVEL",
    "stderrthreshold": "the log goes to standard error, at the level LIFEBOAT_LOG_LEVEL",
    "skip_": "the form of the log is fixed",
    "one_output": "the form of the log is fixed",
    "add_dir_header": "the form of the log is fixed",
}
_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")


class Translated(NamedTuple):
    """Arguments of this agent, values of its environment, and fields that its Cluster is expected to have."""

    arguments: list[str]
    environment: dict[str, str]
    expected: dict[str, str]


def is_karmada(arguments: Sequence[str]) -> bool:
    """Test whether arguments are those of karmada-agent, which has no commands: the first one is an option."""
    return bool(arguments) and arguments[0].startswith("-") and arguments[0] not in ("-h", "--help")


def translated(arguments: Sequence[str], *, own: Iterable[str]) -> Translated:
    """Return arguments of karmada-agent as those of this agent. `own`: the options of `run`, which may be mixed in.

    Raises Unusable, which names every argument that cannot be followed.
    """
    known, found, cluster, refused = frozenset(own), Translated([], {}, {}), "", []
    for name, value in _given(arguments):
        try:
            if name == "cluster-name":
                cluster = value
            else:
                _follow(name, value, known, found)
        except ValueError as error:
            refused.append(f"--{name}: {error}" if len(name) > 1 else f"-{name}: {error}")
    if not cluster:
        refused.append("--cluster-name NAME is missing")
    if refused:
        raise Unusable("; ".join(refused) + "; docs/agent.md lists the arguments of karmada-agent that are followed")
    return found._replace(arguments=["run", cluster, *found.arguments])


def differences(spec: Mapping[str, object], expected: Mapping[str, str]) -> str:
    """Return where the spec of a Cluster differs from arguments, with a command that changes it; "": nowhere."""
    other = {field: value for field, value in expected.items() if spec.get(field, "") != value}
    if not other:
        return ""
    said = ", ".join(f'{field} is "{spec.get(field, "")}" and not "{value}"' for field, value in other.items())
    patch = ",".join(f'"{field}":"{value}"' for field, value in other.items())
    return (
        f"{said}; kubectl patch cluster NAME --type=merge -p '{{\"spec\":{{{patch}}}}}' on the control plane changes it"
    )


def _given(arguments: Sequence[str]) -> Iterable[tuple[str, str]]:
    """Yield names and values, written as --name=value or --name value. The value of a switch alone is "true"."""
    rest = list(arguments)
    while rest:
        name, sign, value = rest.pop(0).partition("=")
        name = name.lstrip("-")
        if not sign:
            takes_next = rest and not rest[0].startswith("-") and name not in _SWITCHES
            value = rest.pop(0) if takes_next else "true"
        yield name, value


def _follow(name: str, value: str, own: frozenset[str], found: Translated) -> None:
    """Add an argument to what was found. Raises ValueError with the reason why it cannot be followed."""
    if name in _RENAMED:
        found.arguments.append(f"{_RENAMED[name]}={value}")
    elif name in CLUSTER_FIELDS:
        found.expected[CLUSTER_FIELDS[name]] = value
    elif name in _SETTINGS:
        text = f"{_seconds(value):g}" if name in _DURATIONS else value
        found.environment[f"LIFEBOAT_{_SETTINGS[name].upper()}"] = text
    elif name in _READ:
        found.arguments.extend(_READ[name](value))
    elif f"--{name}" in own:
        found.arguments.append(f"--{name}={value}")
    else:
        raise ValueError(_reason(name, own))


def _reason(name: str, own: frozenset[str]) -> str:
    why = next((text for start, text in _WITHOUT_MEANING.items() if name == start), "") or next(
        (text for start, text in _WITHOUT_MEANING.items() if len(start) > 1 and name.startswith(start)), ""
    )
    if why:
        return f"it has no meaning here: {why}"
    names = [one.removeprefix("--") for one in own] + [*_RENAMED, *CLUSTER_FIELDS, *_SETTINGS, *_READ, "cluster-name"]
    (nearest,) = get_close_matches(name, names, n=1, cutoff=0.0)
    return f"there is no such argument; the nearest one is --{nearest}"


def _seconds(value: str) -> float:
    """Return the seconds of a duration as Go writes it: 40s, 1m30s, 500ms."""
    parts = _PART.findall(value)
    if not parts or "".join(number + unit for number, unit in parts) != value:
        raise ValueError(f'"{value}" is not a duration; write for example 40s or 1m30s')
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


def _metrics(value: str) -> list[str]:
    host, _, port = value.rpartition(":")
    if not port.isdigit():
        raise ValueError(f'"{value}" is not an address; write for example :8080, 127.0.0.1:8080, or 0 for none')
    return [f"--metrics-port={port}", *([f"--metrics-host={host.strip('[]')}"] if host else [])]


def _renew_at(value: str) -> list[str]:
    try:
        left = float(value)
    except ValueError:
        left = -1.0
    if not 0.0 < left < 1.0:
        raise ValueError(f'"{value}" is not a share between 0 and 1')
    return [f"--renew-at={1.0 - left:g}"]


def _cluster_namespace(value: str) -> list[str]:
    if value != CLUSTER_NAMESPACE:
        raise ValueError(f'it is "{value}", and Lifeboat keeps what belongs to clusters in {CLUSTER_NAMESPACE}')
    return []


def _report_secrets(value: str) -> list[str]:
    if value != "None":
        raise ValueError(
            f'it is "{value}", and the agent never sends credentials of its cluster: write None. For requests through '
            "the proxy, join the cluster with lifeboat join NAME --cluster-kubeconfig FILE"
        )
    return []


def _controllers(value: str) -> list[str]:
    other = [one for one in value.split(",") if one not in _ALWAYS_ON]
    if other:
        raise ValueError(f"{', '.join(other)}: the agent always runs {', '.join(sorted(_ALWAYS_ON - {'*'}))}")
    return []


def _leader_elect(value: str) -> list[str]:
    if value != "false":
        raise ValueError(f"it has no meaning here: {_WITHOUT_MEANING['leader-elect']}; write --leader-elect=false")
    return []


_READ: Final[Mapping[str, Callable[[str], list[str]]]] = {
    "metrics-bind-address": _metrics,
    "cert-rotation-remaining-time-threshold": _renew_at,
    "cluster-namespace": _cluster_namespace,
    "report-secrets": _report_secrets,
    "controllers": _controllers,
    "leader-elect": _leader_elect,
}
