"""Workloads: Deployment, ReplicaSet, StatefulSet, DaemonSet, Job, CronJob, and their strategies."""

from __future__ import annotations

from typing import Any

from controlplane.apimachinery import causes, selectors
from controlplane.kube import meta_types
from controlplane.kube.cron import check_schedule, check_zone
from controlplane.kube.rules import (
    Causes,
    Document,
    Rule,
    Type,
    dns_label,
    not_negative,
    one_of,
    share,
    share_errors,
)
from controlplane.kube.volume_types import claim_spec

_ENDING, _ALWAYS = ("OnFailure", "Never"), ("Always",)
_NOT_MATCHED = "`selector` does not match template `labels`"
_ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")


def _selected(noun: str) -> Any:
    """Return the rule that a selector is there, is not empty, and matches the pod template."""

    def whole(value: Document, at: str, out: Causes) -> None:
        selector, where = value.get("selector"), f"{at}.selector"
        if selector is None:
            if noun != "daemonset":
                out.append(causes.required(where))
        elif meta_types.has_no_terms(selector):
            out.append(causes.invalid(where, selector, f"empty selector is invalid for {noun}"))
        valid = selector is None or meta_types.is_selector(selector)
        if not valid:
            if noun != "daemonset":
                out.append(causes.invalid(where, selector, "invalid label selector"))
        else:
            _match(value, selector, at, out)

    return whole


def _match(value: Document, selector: Document | None, at: str, out: Causes) -> None:
    tags = ((value.get("template") or {}).get("metadata") or {}).get("labels") or {}
    if (selector is None or not meta_types.has_no_terms(selector)) and not meta_types.selects(selector, tags):
        out.append(causes.invalid(f"{at}.template.metadata.labels", tags or None, _NOT_MATCHED))


def _controller(value: Document, at: str, out: Causes) -> None:
    """Append the causes against the selector of a ReplicationController, which is a map of labels."""
    chosen = value.get("selector") or {}
    tags = ((value.get("template") or {}).get("metadata") or {}).get("labels") or {}
    if not chosen:
        out.append(causes.required(f"{at}.selector"))
    if not value.get("template"):
        out.append(causes.required(f"{at}.template"))
    elif chosen and any(tags.get(key) != text for key, text in chosen.items()):
        out.append(causes.invalid(f"{at}.template.metadata.labels", tags or None, _NOT_MATCHED))


def _selected_by_labels(value: Document) -> Document:
    tags = ((value.get("template") or {}).get("metadata") or {}).get("labels")
    return {**value, "selector": tags} if tags and not value.get("selector") else value


def _template(allowed: tuple[str, ...]) -> Any:
    """Return the rule for a pod template: it is there, and its restart policy is one that its kind allows."""

    def whole(value: Document, at: str, out: Causes) -> None:
        template = value.get("template")
        spec = (template or {}).get("spec") or {}
        if not template:
            out.append(causes.required(f"{at}.template.spec.containers"))
        where = f"{at}.template.spec.restartPolicy"
        policy = spec.get("restartPolicy") or "Always"
        if policy == "Always" and allowed == _ENDING:
            out.append(causes.required(where, 'valid values: "OnFailure", "Never"'))
        elif policy not in allowed:
            out.append(causes.unsupported(where, policy, allowed))
        if allowed == _ALWAYS and spec.get("activeDeadlineSeconds") is not None:
            where = f"{at}.template.spec.activeDeadlineSeconds"
            out.append(causes.forbidden(where, "activeDeadlineSeconds in pod template is not supported"))

    return whole


def _deployment(value: Document, at: str, out: Causes) -> None:
    strategy = value.get("strategy") or {}
    kind, rolling = strategy.get("type"), strategy.get("rollingUpdate")
    if kind == "Recreate":
        if rolling is not None:
            words = "may not be specified when strategy `type` is 'Recreate'"
            out.append(causes.forbidden(f"{at}.strategy.rollingUpdate", words))
    elif kind == "RollingUpdate":
        _rolling(rolling or {}, f"{at}.strategy.rollingUpdate", out)
    else:
        out.append(causes.unsupported(f"{at}.strategy", kind, ("Recreate", "RollingUpdate")))
    deadline, ready = value.get("progressDeadlineSeconds"), value.get("minReadySeconds") or 0
    if isinstance(deadline, int) and deadline <= ready:
        out.append(causes.invalid(f"{at}.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds"))


def _rolling(value: Document, at: str, out: Causes) -> None:
    surge, missing = value.get("maxSurge"), value.get("maxUnavailable")
    if missing in (0, "0%") and surge in (0, "0%"):
        out.append(causes.invalid(f"{at}.maxUnavailable", missing, "may not be 0 when `maxSurge` is 0"))


def _rolled(value: Document) -> Document:
    kind = value.get("type") or "RollingUpdate"
    made = {**value, "type": kind}
    if kind == "RollingUpdate":
        made["rollingUpdate"] = {"maxUnavailable": "25%", "maxSurge": "25%", **(value.get("rollingUpdate") or {})}
    return made


def _share_of(value: Any) -> int:
    return 0 if share_errors(value) else int(str(value).removesuffix("%"))


def _daemon_set(value: Document, at: str, out: Causes) -> None:
    strategy = value.get("updateStrategy") or {}
    kind, where = strategy.get("type"), f"{at}.updateStrategy"
    if kind == "RollingUpdate":
        rolling = strategy.get("rollingUpdate") or {}
        surge, missing = rolling.get("maxSurge", 0), rolling.get("maxUnavailable", 0)
        if not _share_of(missing) and not _share_of(surge) and not share_errors(missing):
            out.append(causes.required(f"{where}.rollingUpdate.maxUnavailable", "cannot be 0 when maxSurge is 0"))
        if missing not in (0, "0%") and surge not in (0, "0%"):
            words = "may not be set when maxUnavailable is non-zero"
            out.append(causes.invalid(f"{where}.rollingUpdate.maxSurge", surge, words))
    elif kind != "OnDelete":
        out.append(causes.unsupported(where, kind, ("RollingUpdate", "OnDelete")))


def _daemon_rolled(value: Document) -> Document:
    kind = value.get("type") or "RollingUpdate"
    made = {**value, "type": kind}
    if kind == "RollingUpdate":
        made["rollingUpdate"] = {"maxUnavailable": 1, "maxSurge": 0, **(value.get("rollingUpdate") or {})}
    return made


def _stateful_set(value: Document, at: str, out: Causes) -> None:
    if value.get("podManagementPolicy") not in ("OrderedReady", "Parallel"):
        words = "must be 'OrderedReady' or 'Parallel'"
        out.append(causes.invalid(f"{at}.podManagementPolicy", value.get("podManagementPolicy"), words))
    for index, claim in enumerate(value.get("volumeClaimTemplates") or ()):
        if not claim.get("spec"):
            claim_spec({}, f"{at}.volumeClaimTemplates[{index}].spec", out)
    strategy = value.get("updateStrategy") or {}
    kind, where = strategy.get("type"), f"{at}.updateStrategy"
    if kind == "OnDelete":
        if strategy.get("rollingUpdate") is not None:
            words = "only allowed for updateStrategy 'RollingUpdate'"
            out.append(causes.invalid(f"{where}.rollingUpdate", strategy["rollingUpdate"], words))
    elif kind != "RollingUpdate":
        out.append(causes.invalid(where, kind, "must be 'RollingUpdate' or 'OnDelete'"))


def _stateful_rolled(value: Document) -> Document:
    kind = value.get("type") or "RollingUpdate"
    made = {**value, "type": kind}
    if kind == "RollingUpdate":
        made["rollingUpdate"] = {"partition": 0, **(value.get("rollingUpdate") or {})}
    return made


def _stateful_filled(value: Document) -> Document:
    retained = {"whenDeleted": "Retain", "whenScaled": "Retain"}
    given = value.get("persistentVolumeClaimRetentionPolicy") or {}
    made = {**value, "persistentVolumeClaimRetentionPolicy": retained | {k: v for k, v in given.items() if v}}
    if value.get("volumeClaimTemplates"):
        made["volumeClaimTemplates"] = [
            {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **claim, "status": {"phase": "Pending"}}
            for claim in value["volumeClaimTemplates"]
        ]
    return {"serviceName": "", **made}


def with_claims(value: Document) -> Document:
    """Return the spec of a StatefulSet with the volumes of its claims, as its pods get them, for the rules of a pod."""
    template = value.get("template")
    claims = value.get("volumeClaimTemplates")
    if not claims or not isinstance(template, dict) or not isinstance(template.get("spec"), dict):
        return value
    names = [(claim.get("metadata") or {}).get("name") for claim in claims]
    kept = [volume for volume in template["spec"].get("volumes") or () if volume.get("name") not in names]
    more = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in names]
    return {**value, "template": {**template, "spec": {**template["spec"], "volumes": [*more, *kept]}}}


def _job(value: Document, at: str, out: Causes) -> None:
    mode, completions = value.get("completionMode"), value.get("completions")
    indexed = mode == "Indexed"
    if indexed and completions is None:
        out.append(causes.required(f"{at}.completions", "when completion mode is Indexed"))
    if indexed and isinstance(completions, int) and completions > 100_000 and (value.get("parallelism") or 0) > 100_000:
        out.append(causes.invalid(f"{at}.parallelism", value["parallelism"], "must be less than or equal to 100000"))
    if mode == "NonIndexed":
        for field in ("backoffLimitPerIndex", "maxFailedIndexes"):
            if value.get(field) is not None:
                words = "requires indexed completion mode"
                out.append(causes.invalid(f"{at}.{field}", value[field], words))
    failed, per_index = value.get("maxFailedIndexes"), value.get("backoffLimitPerIndex")
    if failed is not None:
        if per_index is None and indexed:
            out.append(causes.required(f"{at}.backoffLimitPerIndex", "when maxFailedIndexes is specified"))
        if isinstance(completions, int) and failed > completions:
            words = "must be less than or equal to completions"
            out.append(causes.invalid(f"{at}.maxFailedIndexes", failed, words))
    policy = value.get("podFailurePolicy")
    if policy is not None:
        _failure_policy(value, policy, at, out)
    choices = ("Failed",) if policy is not None else ("Failed", "TerminatingOrFailed")
    replaced = value.get("podReplacementPolicy")
    if replaced is not None and replaced not in choices:
        out.append(causes.unsupported(f"{at}.podReplacementPolicy", replaced, choices))


def _failure_policy(value: Document, policy: Document, at: str, out: Causes) -> None:
    spec = (value.get("template") or {}).get("spec") or {}
    if spec.get("restartPolicy") not in ("Never", "Always", None):
        out.append(causes.unsupported(f"{at}.template.spec.restartPolicy", spec["restartPolicy"], ("Never",)))
    names = [item.get("name") for part in ("containers", "initContainers") for item in spec.get(part) or ()]
    for index, rule in enumerate(policy.get("rules") or ()):
        _failure_rule(rule, f"{at}.podFailurePolicy.rules[{index}]", names, value, out)


def _failure_rule(rule: Document, at: str, names: list[Any], value: Document, out: Causes) -> None:
    action, codes, conditions = rule.get("action"), rule.get("onExitCodes"), rule.get("onPodConditions")
    if not action:
        out.append(causes.required(f"{at}.action", f"valid values: [{' '.join(map(causes.shown, _ACTIONS))}]"))
    elif action == "FailIndex" and value.get("backoffLimitPerIndex") is None:
        words = "requires the backoffLimitPerIndex to be set"
        out.append(causes.invalid(f"{at}.action", action, words))
    elif action not in _ACTIONS:
        out.append(causes.unsupported(f"{at}.action", action, _ACTIONS))
    if codes is None and not conditions:
        out.append(causes.invalid(at, "", "specifying one of OnExitCodes and OnPodConditions is required"))
    if codes is not None and conditions:
        out.append(causes.invalid(at, "", "specifying both OnExitCodes and OnPodConditions is not supported"))
    if codes is not None:
        _exit_codes(codes, f"{at}.onExitCodes", names, out)
    for index, condition in enumerate(conditions or ()):
        where, kind = f"{at}.onPodConditions[{index}]", condition.get("type") or ""
        out.extend(causes.invalid(f"{where}.type", kind, wrong) for wrong in selectors.label_key_errors(kind))
        one_of("False", "True", "Unknown")(condition.get("status") or "True", f"{where}.status", out)


def _exit_codes(codes: Document, at: str, names: list[Any], out: Causes) -> None:
    operator, values, name = codes.get("operator"), codes.get("values") or [], codes.get("containerName")
    if not operator:
        out.append(causes.required(f"{at}.operator", 'valid values: ["In" "NotIn"]'))
    elif operator not in ("In", "NotIn"):
        out.append(causes.unsupported(f"{at}.operator", operator, ("In", "NotIn")))
    if name is not None and name not in names:
        words = "must be one of the container or initContainer names in the pod template"
        out.append(causes.invalid(f"{at}.containerName", name, words))
    if not values:
        out.append(causes.invalid(f"{at}.values", values, "at least one value is required"))
    seen: set[int] = set()
    for index, number in enumerate(values):
        if operator == "In" and number == 0:
            out.append(causes.invalid(f"{at}.values[{index}]", number, "must not be 0 for the In operator"))
        if number in seen:
            out.append(causes.duplicate(f"{at}.values[{index}]", number))
        seen.add(number)
    if values != sorted(values):
        out.append(causes.invalid(f"{at}.values", values, "must be ordered"))


def _job_filled(value: Document) -> Document:
    made = {"backoffLimit": 6, "completionMode": "NonIndexed", "suspend": False, **value}
    if value.get("backoffLimitPerIndex") is not None and value.get("backoffLimit") is None:
        made["backoffLimit"] = 2147483647
    if value.get("parallelism") is None:
        made["parallelism"] = 1
        if value.get("completions") is None:
            made["completions"] = 1
    policy = made.get("podFailurePolicy")
    if made.get("podReplacementPolicy") is None:
        made["podReplacementPolicy"] = "Failed" if policy is not None else "TerminatingOrFailed"
    if policy and policy.get("rules"):
        rules = [_with_statuses(rule) for rule in policy["rules"]]
        made["podFailurePolicy"] = {**policy, "rules": rules}
    return made


def _with_statuses(rule: Document) -> Document:
    conditions = rule.get("onPodConditions")
    return rule if not conditions else {**rule, "onPodConditions": [{"status": "True", **item} for item in conditions]}


def _job_template(value: Document, at: str, out: Causes) -> None:
    spec = value.get("spec") or {}
    if not spec:
        _template(_ENDING)(spec, f"{at}.spec", out)
    if spec.get("manualSelector"):
        out.append(causes.unsupported(f"{at}.spec.manualSelector", spec["manualSelector"], ("nil", "false")))


def new_stateful_set(value: Document, out: Causes) -> None:
    """Append the causes against the name of the Service of a new StatefulSet."""
    dns_label((value.get("spec") or {}).get("serviceName") or "", "spec.serviceName", out)


def new_job(value: Document, out: Causes) -> None:
    """Append the causes against the selector of a new Job. A member generates it, unless the Job has its own."""
    spec = value.get("spec") or {}
    selector = spec.get("selector")
    if not spec.get("manualSelector"):
        if not meta_types.has_no_terms(selector):
            out.append(causes.invalid("spec.selector", selector, "`selector` not auto-generated"))
        return
    if selector is None:
        out.append(causes.required("spec.selector"))
    _match(spec, selector, "spec", out)


def new_revision(value: Document, out: Causes) -> None:
    """Append the cause against a new ControllerRevision without data."""
    if value.get("data") is None:
        out.append(causes.required("data", "data is mandatory"))


_COUNTS: dict[str, Rule] = dict.fromkeys(
    ("replicas", "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"), not_negative
)
_SHARES = {"maxSurge": share, "maxUnavailable": share}
_JOB_COUNTS: dict[str, Rule] = dict.fromkeys(
    (
        *("parallelism", "completions", "backoffLimit", "backoffLimitPerIndex", "maxFailedIndexes"),
        *("activeDeadlineSeconds", "ttlSecondsAfterFinished"),
    ),
    not_negative,
)
_RETAINED = one_of("Retain", "Delete")

TYPES = {
    "apps.v1.DeploymentSpec": Type(
        fields=_COUNTS,
        whole=(_selected("deployment"), _template(_ALWAYS), _deployment),
        fill=lambda value: {
            "replicas": 1,
            "revisionHistoryLimit": 10,
            "progressDeadlineSeconds": 600,
            "strategy": {},
            **value,
        },
    ),
    "apps.v1.DeploymentStrategy": Type(fill=_rolled),
    "apps.v1.RollingUpdateDeployment": Type(fields=_SHARES),
    "apps.v1.ReplicaSetSpec": Type(
        fields=_COUNTS,
        whole=(_selected("deployment"), _template(_ALWAYS)),
        fill=lambda value: {"replicas": 1, **value},
    ),
    "core.v1.ReplicationControllerSpec": Type(
        fields={**_COUNTS},
        whole=(_controller,),
        fill=lambda value: {"replicas": 1, **_selected_by_labels(value)},
    ),
    "apps.v1.DaemonSetSpec": Type(
        fields=_COUNTS,
        whole=(_selected("daemonset"), _template(_ALWAYS), _daemon_set),
        fill=lambda value: {"revisionHistoryLimit": 10, "updateStrategy": {}, **value},
    ),
    "apps.v1.DaemonSetUpdateStrategy": Type(fill=_daemon_rolled),
    "apps.v1.RollingUpdateDaemonSet": Type(fields=_SHARES),
    "apps.v1.StatefulSetSpec": Type(
        fields=_COUNTS,
        whole=(_selected("statefulset"), _template(_ALWAYS), _stateful_set),
        defaults={"podManagementPolicy": "OrderedReady"},
        fill=lambda value: {
            "replicas": 1,
            "revisionHistoryLimit": 10,
            "updateStrategy": {},
            **_stateful_filled(value),
        },
    ),
    "apps.v1.StatefulSetUpdateStrategy": Type(fill=_stateful_rolled),
    "apps.v1.RollingUpdateStatefulSetStrategy": Type(fields={"partition": not_negative}),
    "apps.v1.StatefulSetPersistentVolumeClaimRetentionPolicy": Type(
        fields={"whenDeleted": _RETAINED, "whenScaled": _RETAINED}
    ),
    "apps.v1.StatefulSetOrdinals": Type(fields={"start": not_negative}),
    "batch.v1.JobSpec": Type(
        fields={**_JOB_COUNTS, "completionMode": one_of("NonIndexed", "Indexed", empty=True)},
        whole=(_template(_ENDING), _job),
    ),
    "batch.v1.Job": Type(fill=lambda value: {**value, "spec": _job_filled(value.get("spec") or {})}),
    "batch.v1.PodFailurePolicy": Type(),
    "batch.v1.PodFailurePolicyRule": Type(),
    "batch.v1.PodFailurePolicyOnExitCodesRequirement": Type(),
    "batch.v1.PodFailurePolicyOnPodConditionsPattern": Type(),
    "batch.v1.CronJobSpec": Type(
        required=("schedule",),
        fields={
            "schedule": check_schedule,
            "timeZone": check_zone,
            "concurrencyPolicy": one_of("Allow", "Forbid", "Replace"),
            "startingDeadlineSeconds": not_negative,
            "successfulJobsHistoryLimit": not_negative,
            "failedJobsHistoryLimit": not_negative,
        },
        whole=(
            lambda value, at, out: (
                _job_template({}, f"{at}.jobTemplate", out) if not value.get("jobTemplate") else None
            ),
        ),
        defaults={"concurrencyPolicy": "Allow"},
        fill=lambda value: {
            "suspend": False,
            "successfulJobsHistoryLimit": 3,
            "failedJobsHistoryLimit": 1,
            **value,
        },
    ),
    "batch.v1.JobTemplateSpec": Type(whole=(_job_template,), fill=lambda value: {"metadata": {}, **value}),
    "apps.v1.ControllerRevision": Type(fields={"revision": not_negative}),
}
