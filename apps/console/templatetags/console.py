"""Template tags of the console: live parts, times, badges and bars."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from html import escape
from typing import Any, Final

from django import template
from django.template.context import Context
from django.template.loader import render_to_string
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

from controlplane.apimachinery.times import in_words
from controlplane.kinds.fleet_status import FleetStatusStatus

register = template.Library()

STYLES: Final = {"time": "%H:%M:%S", "date": "%Y-%m-%d %H:%M:%S", "minute": "%H:%M"}
ICONS: Final = {"ok": "✓", "warn": "!", "bad": "✕", "info": "i", "off": "–"}


@register.simple_tag(takes_context=True)
def part(context: Context, name: str) -> SafeString:
    """Return a live part of the page, in an element that the stream can renew."""
    variables = {str(key): value for key, value in context.flatten().items()}
    text = render_to_string(f"console/parts/{name}.html", variables)
    return format_html('<div id="part-{0}" data-part="{0}">{1}</div>', name, mark_safe(text))


@register.simple_tag(takes_context=True)
def utc(context: Context, moment: datetime | None, style: str = "time") -> SafeString:
    """Return a time in UTC, with its date unless it is on the day of the page."""
    return utc_at(moment, style, now=context.get("now"))


def utc_at(moment: datetime | None, style: str = "time", *, now: datetime | None = None) -> SafeString:
    """Return a time in UTC. A script adds the zone of the reader. `style`: of STYLES; "date" has the date as well.

    A "time" on another day than `now` has its date, because a queue may end days ahead.
    """
    if moment is None:
        return mark_safe('<span class="quiet">never</span>')
    at = moment.astimezone(UTC)
    if style == "time" and now is not None and at.date() != now.astimezone(UTC).date():
        style = "date"
    written, shown = at.strftime("%Y-%m-%dT%H:%M:%SZ"), at.strftime(STYLES[style])
    return mark_safe(f'<time class="utc" datetime="{written}" data-style="{style}">{shown} <small>UTC</small></time>')


_MOMENT: Final = re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z| UTC)")


@register.filter
def moments(text: object) -> SafeString:
    """Return a text of the API with its times (2026-11-27T22:41:00Z, 2026-11-27 22:41:00 UTC) as `utc` shows them."""
    written = str(text)
    if ":" not in written:  # most texts have no time, and a page has hundreds of them
        return mark_safe(escape(written))
    shown, end = [], 0
    for found in _MOMENT.finditer(written):
        try:
            at = datetime.fromisoformat(found[0].removesuffix("Z").removesuffix(" UTC"))
        except ValueError:  # it looks like a time: 2026-13-01T00:00:00Z
            continue
        shown += [escape(written[end : found.start()]), utc_at(at.replace(tzinfo=UTC), "date")]
        end = found.end()
    return mark_safe("".join((*shown, escape(written[end:]))))


@register.simple_tag
def sentence(status: FleetStatusStatus) -> SafeString:
    """Return the sentence of the fleet, with the time since when all clusters are Ready as `utc` shows it."""
    since = status.ready_since
    if since is None:
        return moments(status.sentence)
    before, written, after = status.sentence.partition(f" {since:%H:%M} UTC")
    shown = format_html(" {}", utc_at(since, "minute")) if written else ""
    return format_html("{}{}{}", moments(before), shown, moments(after))


@register.simple_tag(takes_context=True)
def age(context: Context, moment: datetime | None) -> SafeString:
    """Return how long ago a time was at the time of the page: 4 min. A script goes on counting."""
    return age_at(moment, context["now"])


def age_at(moment: datetime | None, now: datetime) -> SafeString:
    """Return how long ago a time was, as `age` shows it."""
    if moment is None:
        return mark_safe('<span class="quiet">never</span>')
    at = moment.astimezone(UTC)
    seconds = max(0.0, (now - moment).total_seconds())
    written, shown = at.strftime("%Y-%m-%dT%H:%M:%SZ"), at.strftime("%Y-%m-%d %H:%M:%S UTC")
    return mark_safe(
        f'<time class="age" datetime="{written}" data-seconds="{int(seconds)}"'
        f' title="{shown}">{in_words(seconds)}</time>'
    )


@register.simple_tag(takes_context=True)
def ahead(context: Context, moment: datetime) -> str:
    """Return how far ahead a time is at the time of the page: 4 min."""
    return in_words((moment - context["now"]).total_seconds())


@register.filter
def rate(number: float) -> str:
    """Return a rate without zeros at its end: 0.5."""
    return f"{number:g}"


@register.filter
def tail(name: str) -> str:
    """Return a name without the part before its last slash: not-ready:NoExecute."""
    return name.rpartition("/")[2]


@register.filter
def span(seconds: float | None) -> str:
    """Return a number of seconds as text: 4 min."""
    return "unknown" if seconds is None else in_words(seconds)


@register.filter
def grouped(number: int) -> str:
    """Return a number with a comma after each three digits: 10,000."""
    return f"{number:,}"


@register.simple_tag
def badge(state: str, word: str, title: str = "") -> SafeString:
    """Return a state as an icon with a word. `state`: ok, warn, bad, info or off."""
    return format_html(
        '<span class="badge {}" title="{}"><span class="icon" aria-hidden="true">{}</span>{}</span>',
        *(state, title, ICONS[state], word),
    )


@register.simple_tag
def bar(sections: Iterable[tuple[str, int, str]], label: str) -> SafeString:
    """Return a bar of sections (class, number, word) as SVG. The numbers are in its text as well."""
    found = [(kind, number, word) for kind, number, word in sections if number]
    total = sum(number for _, number, _ in found) or 1
    rects, x = list[tuple[Any, ...]](), 0.0
    for kind, number, word in found:
        width = 1000 * number / total
        rects.append((f"{x:.2f}", f"{width:.2f}", kind, word, number))
        x += width
    drawn = format_html_join(
        "", '<rect x="{}" y="0" width="{}" height="12" class="{}"><title>{}: {}</title></rect>', rects
    )
    text = ", ".join(f"{word} {number}" for _, number, word in found) or "empty"
    return format_html(
        '<svg class="bar" viewBox="0 0 1000 12" preserveAspectRatio="none" role="img" aria-label="{}: {}">{}</svg>',
        *(label, text, drawn),
    )
