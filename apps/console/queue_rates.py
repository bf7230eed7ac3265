"""/queue/rates: both eviction rates, with the estimate of the queue at the new rate, set in one step."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django import forms
from rest_framework.request import Request

from apps.api.authorization import Attributes
from apps.api.eviction_metrics import tokens
from apps.console.guard import Act, ActPage, Effects
from apps.failover.queue import read_tier
from apps.failover.queue_figures import read_end
from apps.failover.queue_page import read_counts
from apps.failover.steering import apply_line, rates_of, set_rates
from apps.objects.configuration import REF, configuration
from apps.objects.store import store
from controlplane.apimachinery.times import in_words
from controlplane.clusters import eviction_tier
from controlplane.kind import KINDS
from controlplane.kinds import FAILOVER_CONFIGURATION
from controlplane.kinds.rows import QUEUED
from controlplane.settings import MAX_RATE, MIN_RATE, Settings

RESOURCE = KINDS[FAILOVER_CONFIGURATION].resource


class RatesForm(forms.Form):
    """Both rates, in evictions per second."""

    rate = forms.FloatField(
        min_value=0,
        max_value=MAX_RATE,
        label="resourceEvictionRate",
        help_text="Evictions per second while the tier is Normal. 0 stops evictions.",
    )
    secondary = forms.FloatField(
        min_value=0,
        max_value=MAX_RATE,
        label="secondaryResourceEvictionRate",
        help_text="Evictions per second while the tier is Secondary; at most the first rate. 0 stops evictions.",
    )

    def clean(self) -> dict[str, Any]:
        values: dict[str, Any] = super().clean() or {}
        rate, secondary = values.get("rate"), values.get("secondary")
        if rate is not None and secondary is not None and secondary > rate:
            problem = f"{secondary:g} is more than resourceEvictionRate, {rate:g}; write at most {rate:g}"
            self.add_error("secondary", problem)
        for name, value in (("rate", rate), ("secondary", secondary)):
            if value is not None and 0 < value < MIN_RATE:
                problem = f"{value:g} is less than {MIN_RATE:f}; write at least this, or 0 to stop evictions"
                self.add_error(name, problem)
        return values


class RatesPage(ActPage):
    """Shows when the queue would end at other rates, and sets them."""

    title = "Eviction rates"
    form_class = RatesForm
    back = "/queue"

    def asked(self, request: Request) -> Attributes:
        return Attributes(request.user, "patch", RESOURCE.group, RESOURCE.plural, name=REF.name)

    def basis(self) -> str:
        return _pair(self.first_values(self.request))

    def is_stale(self, seen: str, values: dict[str, Any]) -> bool:
        return self.basis() not in (seen, _pair(values))  # a form that is sent twice finds its own rates

    def first_values(self, request: Request) -> dict[str, Any]:
        settings = configuration().settings(reread=True)
        return {"rate": settings.resource_eviction_rate, "secondary": settings.secondary_resource_eviction_rate}

    def act(self, request: Request, values: dict[str, Any]) -> Act:
        rate, secondary = values["rate"], values["secondary"]

        def apply(reason: str) -> str:
            set_rates(self.writer(request, reason, act="EvictionRates"), rate=rate, secondary=secondary)
            return "/queue"

        return Act(
            f"Set the rates {rate:g} and {secondary:g}",
            "rates",
            effects=lambda: effects(rate, secondary),
            apply=apply,
            kubectl=apply_line(rates_of(rate, secondary), part="rates"),
            explanation="Both rates are set in one step. Running evictions are not stopped.",
            is_destructive=False,
        )


def _pair(rates: dict[str, Any]) -> str:
    return f"{rates['rate']!r},{rates['secondary']!r}"


def effects(rate: float, secondary: float) -> Effects:
    """Return what two rates would change: when the queue would end, compared with now."""
    settings, counts = configuration().settings(reread=True), read_counts()
    fleet = read_tier(store(), settings)
    new = rate_of(fleet.tier, rate, secondary)
    ends, ended = (_end(each, settings, fleet.now) for each in (new, fleet.tier.rate))
    present = (settings.resource_eviction_rate, settings.secondary_resource_eviction_rate)
    lines = [
        f"resourceEvictionRate: {present[0]:g} now, {rate:g} then; "
        f"secondaryResourceEvictionRate: {present[1]:g} now, {secondary:g} then",
        f"The tier is {fleet.tier.name}: {fleet.tier.rate:g}/s now, {new:g}/s then."
        + (f" {fleet.tier.why}." if fleet.tier.why else ""),
    ]
    if not counts.waiting:
        return Effects("No eviction waits, so no estimate changes.", lines=tuple(lines))
    queued = counts.states[QUEUED]
    others = f"; the estimate is that of the {queued} queued ones" if queued < counts.waiting else ""
    sentence = f"{counts.waiting} evictions wait{others}. At {new:g}/s {_words(ends, fleet.now)}; "
    return Effects(sentence + f"at {fleet.tier.rate:g}/s {_words(ended, fleet.now)}.", counts.waiting, tuple(lines))


def rate_of(tier: eviction_tier.Tier, rate: float, secondary: float) -> float:
    """Return the rate that a tier has with these two rates. Stopped and Blind have 0, whatever the rates are; while the
    feature gate Failover is off, all have 0."""
    if tier.why == eviction_tier.GATE_OFF:
        return 0.0
    return {eviction_tier.NORMAL: rate, eviction_tier.SECONDARY: secondary}.get(tier.name, 0.0)


def _end(rate: float, settings: Settings, now: datetime) -> datetime | None:
    return read_end(rate, settings, tokens, now=now)


def _words(end: datetime | None, now: datetime) -> str:
    if end is None:
        return "the last takes place at no time, because nothing is evicted or all are held"
    return f"the last takes place at {end:%Y-%m-%d %H:%M:%S} UTC, in {in_words((end - now).total_seconds())}"
