"""Defaults, validation and warnings of spec.failover of a policy [purge-modes] [state-preservation]."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

from msgspec.structs import replace

from controlplane.apimachinery.causes import invalid, required, unsupported
from controlplane.apimachinery.errors import Cause
from controlplane.apimachinery.jsonpath import JSONPathError, parse
from controlplane.apimachinery.selectors import label_key_errors
from controlplane.kinds.policy import (
    DIRECTLY,
    GRACEFULLY,
    NEVER,
    ApplicationFailoverBehavior,
    ClusterFailoverBehavior,
    FailoverBehavior,
    StatePreservation,
    current_purge_mode,
)
from controlplane.settings import Settings

APPLICATION_TOLERATION_SECONDS = 300
APPLICATION_GRACE_PERIOD_SECONDS = 600
MAX_PRESERVATION_RULES = 32


Behaviour = TypeVar("Behaviour", ClusterFailoverBehavior, ApplicationFailoverBehavior)


def defaulted(failover: FailoverBehavior, old: FailoverBehavior | None) -> FailoverBehavior:
    """Return a failover behaviour with the defaults that depend on other fields. The types declare all other defaults.

    `old` is the stored behaviour; None: there is none.
    """
    cluster, application = failover.cluster, failover.application
    if cluster is not None:
        cluster = _one_mode(cluster, None if old is None else old.cluster)
    if application is not None:
        application = _timed(_one_mode(application, None if old is None else old.application))
    return replace(failover, cluster=cluster, application=application)


def _one_mode(new: Behaviour, old: Behaviour | None) -> Behaviour:
    """Return a behaviour whose pureMode and purgeMode agree, if only one of the two was changed."""
    if not new.pure_mode or current_purge_mode(new.pure_mode) == new.purge_mode or old is None:
        return new
    if old.purge_mode == new.purge_mode and old.pure_mode != new.pure_mode:
        return replace(new, purge_mode=current_purge_mode(new.pure_mode))
    if old.purge_mode != new.purge_mode and old.pure_mode == new.pure_mode:
        return replace(new, pure_mode=new.purge_mode)
    return new


def _timed(application: ApplicationFailoverBehavior) -> ApplicationFailoverBehavior:
    conditions = application.decision_conditions
    if conditions.toleration_seconds is None:
        conditions = replace(conditions, toleration_seconds=APPLICATION_TOLERATION_SECONDS)
    grace = application.grace_period_seconds
    if grace is None and application.purge_mode == GRACEFULLY:
        grace = APPLICATION_GRACE_PERIOD_SECONDS
    return replace(application, decision_conditions=conditions, grace_period_seconds=grace)


def validated(failover: FailoverBehavior, path: str) -> Iterator[Cause]:
    """Yield the causes to refuse a failover behaviour; `path` is its path."""
    if failover.application is not None:
        yield from _application(failover.application, f"{path}.application")
    if failover.cluster is not None:
        yield from _cluster(failover.cluster, f"{path}.cluster")


def _application(behaviour: ApplicationFailoverBehavior, path: str) -> Iterator[Cause]:
    seconds = behaviour.decision_conditions.toleration_seconds
    if seconds is not None and seconds < 0:
        yield invalid(f"{path}.decisionConditions.tolerationSeconds", seconds, "must be greater than or equal to 0")
    if behaviour.purge_mode not in (DIRECTLY, GRACEFULLY, NEVER):
        yield unsupported(f"{path}.purgeMode", behaviour.purge_mode, (DIRECTLY, GRACEFULLY, NEVER))
    grace = behaviour.grace_period_seconds
    if grace is not None and behaviour.purge_mode != GRACEFULLY:
        yield invalid(f"{path}.gracePeriodSeconds", grace, "only takes effect when purgeMode is Gracefully")
    if grace is not None and grace <= 0:
        yield invalid(f"{path}.gracePeriodSeconds", grace, "must be greater than 0")
    yield from _pure_mode(behaviour, path)
    yield from _state(behaviour.state_preservation, f"{path}.statePreservation")


def _cluster(behaviour: ClusterFailoverBehavior, path: str) -> Iterator[Cause]:
    seconds = behaviour.toleration_seconds
    if seconds < 0:
        yield invalid(f"{path}.tolerationSeconds", seconds, "must be greater than or equal to 0; 0 evicts immediately")
    if behaviour.purge_mode not in (DIRECTLY, GRACEFULLY):
        yield unsupported(f"{path}.purgeMode", behaviour.purge_mode, (DIRECTLY, GRACEFULLY))
    yield from _pure_mode(behaviour, path)
    yield from _state(behaviour.state_preservation, f"{path}.statePreservation")


def _pure_mode(behaviour: ClusterFailoverBehavior | ApplicationFailoverBehavior, path: str) -> Iterator[Cause]:
    if behaviour.pure_mode and current_purge_mode(behaviour.pure_mode) != behaviour.purge_mode:
        rule = f"pureMode is a deprecated spelling of purgeMode, which is {behaviour.purge_mode}: write purgeMode only"
        yield invalid(f"{path}.pureMode", behaviour.pure_mode, rule)


def _state(state: StatePreservation | None, path: str) -> Iterator[Cause]:
    if state is None:
        return
    if not state.rules:
        yield required(f"{path}.rules", "name at least one value to preserve, or leave statePreservation out")
    if len(state.rules) > MAX_PRESERVATION_RULES:
        rule_count = f"must have at most {MAX_PRESERVATION_RULES} rules"
        yield invalid(f"{path}.rules", len(state.rules), rule_count)
    for index, rule in enumerate(state.rules):
        place = f"{path}.rules[{index}]"
        for error in label_key_errors(rule.alias_label_name):
            yield invalid(f"{place}.aliasLabelName", rule.alias_label_name, error)
        try:
            parse(rule.json_path)
        except JSONPathError as error:
            yield invalid(f"{place}.jsonPath", rule.json_path, str(error))


def warned(failover: FailoverBehavior, settings: Settings, path: str) -> Iterator[str]:
    """Yield warnings about fields that have no effect with the present settings."""
    for name, behaviour in (("application", failover.application), ("cluster", failover.cluster)):
        if behaviour is None or behaviour.state_preservation is None:
            continue
        field = f"{path}.{name}.statePreservation"
        if not settings.gate("StatefulFailoverInjection"):
            yield f"{field} has no effect while the feature gate StatefulFailoverInjection is off"
        if behaviour.purge_mode != DIRECTLY:
            yield f"{field} has no effect with purgeMode {behaviour.purge_mode}: only Directly preserves state"
    if failover.cluster is not None and not settings.gate("Failover"):
        yield f"{path}.cluster has no effect while the feature gate Failover is off: nothing is evicted by taints"
