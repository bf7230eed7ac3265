"""Rows of tables with up to 100 rows. In Django's template language they would be most of the time of a page.

Every text from outside is escaped here by `escape`. Texts that are HTML already come from the tags of `console`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import lru_cache
from html import escape
from typing import Any, Final

from django import template
from django.utils.safestring import SafeString, mark_safe
from django.utils.text import Truncator

from apps.console.object_links import cluster_url
from apps.console.templatetags import console
from controlplane.kinds.fleet_status import BAD, WARN
from controlplane.scheduling.filter_table import KEEPS, PASSES, REFUSES, Cell

register = template.Library()

NOTHING: Final = '<span class="quiet">–</span>'
_PASSES: Final = '<td>✓<span class="hidden-text">passes</span></td>'
_CHOOSE: Final = '<td><input type="checkbox" name="item" value="{}" aria-label="Choose {}/{} on {}"></td>'
_QUEUE_ROW: Final = (
    '<tr>{}<td class="num" data-label="No.">{}</td>'
    '<td data-label="Workload"><div><a href="{}">{}</a><br><small>{}</small></div></td>'
    '<td data-label="State">{}</td><td data-label="Why"><div>{}</div></td>'
    '<td class="nowrap" data-label="From"><a href="{}">{}</a></td><td data-label="Would go"><div>{}</div></td>'
    '<td class="nowrap" data-label="Due">{}</td><td class="nowrap" data-label="Estimate">{}</td></tr>\n'
)
_RECORD_ROW: Final = (
    '<tr><td data-label="Workload"><div><a href="{}">{}</a><br><small>{}</small></div></td>'
    '<td data-label="Left">{}</td><td data-label="State">{}</td><td data-label="Reason">{}</td>'
    '<td class="nowrap" data-label="Begun">{}</td><td class="num" data-label="Took">{}</td>'
    '<td data-label="Record"><a href="{}">{}</a></td></tr>\n'
)
_READINESS_ROW: Final = (
    '<tr><td data-label="Workload"><div><a href="{}">{}</a> <small>{}</small></div></td>'
    '<td data-label="Verdict">{}</td><td data-label="Runs on">{}</td><td data-label="Obstacles"><div>{}</div></td>'
    '<td class="nowrap" data-label="Since">{}</td></tr>\n'
)
_OBSTACLE: Final = "<div><strong>{}</strong>{}: {}. <small>{}</small></div>"
_OBSTACLE_FIELDS: Final = ("what", "cluster", "message", "remedy")
_WORKLOAD_ROW: Final = (
    '<tr><td data-label="Workload"><a href="{}">{}</a></td><td data-label="Kind">{}</td>'
    '<td data-label="Replicas" class="num">{}</td><td data-label="Health">{}</td>'
    '<td data-label="If it went down">{} <span class="hint">{}</span></td></tr>\n'
)
_STRIP_ITEM: Final = '<li><a class="{}" href="{}" title="{}" aria-label="{}">{}</a></li>'
_SEVERITIES: Final = {BAD: ("bad", "✕"), WARN: ("warn", "!")}
_HEALTH: Final = {"Healthy": "ok", "Unhealthy": "bad"}
_FATE: Final = 200  # characters of the reason that a row shows
_FILTER_ROW: Final = '<tr><td class="nowrap"><a href="{}">{}</a>{}</td>{}<td>{}</td></tr>\n'


@lru_cache(maxsize=256)  # there are few states, and many rows have the same times
def _badge(state: str, word: str) -> str:
    return console.badge(state, word)


@lru_cache(maxsize=1024)
def _utc(moment: datetime | None, style: str = "time", now: datetime | None = None) -> str:
    return console.utc_at(moment, style, now=now)


@lru_cache(maxsize=1024)
def _age(moment: datetime | None, now: datetime) -> str:
    return console.age_at(moment, now)


@lru_cache(maxsize=1024)
def _moments(text: str) -> str:
    return console.moments(text)


@register.simple_tag
def queue_rows(lines: Iterable[Any], verbs: Sequence[str], now: datetime) -> SafeString:
    """Return the rows of the queue (`queue.Line`), with checkboxes for readers who may give orders."""
    return mark_safe("".join(_queue_row(line, bool(verbs), now) for line in lines))


def _queue_row(line: Any, can_be_chosen: bool, now: datetime) -> str:
    name, namespace, cluster = escape(line.name), escape(line.namespace), escape(line.cluster)
    kind, nowhere = escape(line.kind), "" if line.has_refuge else f"{_badge('bad', 'nowhere')} "
    return _QUEUE_ROW.format(
        _CHOOSE.format(escape(line.value), namespace, name, cluster) if can_be_chosen else "",
        "–" if line.position is None else line.position,
        escape(line.url),
        name,
        f"{kind} in {namespace}" if namespace else kind,
        _badge(line.badge, line.state),
        _moments(line.why),
        escape(cluster_url(line.cluster)),
        cluster,
        f"{nowhere}{_moments(line.destination)}" if line.destination else NOTHING,
        _utc(line.due_at, now=now),
        _utc(line.at, now=now) if line.at is not None else escape(line.unknown) or NOTHING,
    )


@register.simple_tag
def record_rows(lines: Iterable[Any]) -> SafeString:
    """Return the rows of a list of failovers (`records.Line`)."""
    return mark_safe("".join(map(_record_row, lines)))


def _record_row(line: Any) -> str:
    begun = line.begun
    kind, namespace = escape(begun.resource.kind), escape(begun.resource.namespace)
    return _RECORD_ROW.format(
        escape(line.workload_url),
        escape(begun.resource.name),
        f"{kind} in {namespace}" if namespace else kind,
        escape(", ".join(begun.left)),
        _badge("info", "Running") if line.is_running else _badge("ok", "Finished"),
        escape(begun.reason),
        _utc(begun.at, "date"),
        escape(line.took),
        escape(line.url),
        escape(begun.name),
    )


@register.simple_tag
def readiness_rows(lines: Iterable[Any], now: datetime) -> SafeString:
    """Return the rows of the stored answers (`readiness.Line`)."""
    return mark_safe("".join(_readiness_row(line, now) for line in lines))


def _readiness_row(line: Any, now: datetime) -> str:
    row = line.row
    obstacles = "".join([_obstacle(*(one.get(name, "") for name in _OBSTACLE_FIELDS)) for one in row.obstacles])
    return _READINESS_ROW.format(
        escape(line.page),
        escape(f"{row.namespace}/{row.name}" if row.namespace else row.name),
        escape(line.kind),
        _badge(line.badge, row.verdict),
        escape(", ".join(row.clusters)),
        obstacles or f'<a href="{escape(line.api)}">where it would go</a>',
        _age(row.since, now),
    )


@lru_cache(maxsize=1024)  # many bindings have the same obstacles
def _obstacle(what: str, cluster: str, message: str, remedy: str) -> str:
    where = f" ({escape(cluster)})" if cluster else ""
    return _OBSTACLE.format(escape(what), where, console.moments(message), escape(remedy))


@register.simple_tag
def workload_rows(lines: Iterable[Any]) -> SafeString:
    """Return the rows of the workloads of a cluster (`cluster.Workload`)."""
    return mark_safe("".join(map(_workload_row, lines)))


def _workload_row(line: Any) -> str:
    why = line.why if len(line.why) <= _FATE else Truncator(line.why).chars(_FATE)
    if line.is_last_known:
        health = f"{_badge('warn', 'last known')} {escape(line.health) or 'nothing reported'}"
    else:
        health = _badge(_HEALTH.get(line.health, "off"), line.health or "not reported")
    return _WORKLOAD_ROW.format(
        escape(line.url),
        escape(f"{line.namespace}/{line.name}" if line.namespace else line.name),
        escape(line.kind),
        line.replicas,
        health,
        _badge(line.badge, line.fate),
        console.moments(why),
    )


@register.simple_tag
def strip_items(members: Iterable[Any]) -> SafeString:
    """Return the clusters of a region (`fleet_status.MemberStatus`), each as a link of one character."""
    return mark_safe("".join(map(_strip_item, members)))


def _strip_item(one: Any) -> str:
    style, sign = _SEVERITIES.get(one.severity, ("ok", "✓"))
    said = escape(f"{one.name}: {one.state}")
    return _STRIP_ITEM.format(style, escape(cluster_url(one.name)), said, said, sign)


@register.simple_tag
def filter_rows(table: Iterable[Any]) -> SafeString:
    """Return the rows of the table of clusters and filters (`workload_answers.TableRow`)."""
    return mark_safe("".join(map(_filter_row, table)))


def _filter_row(line: Any) -> str:
    return _FILTER_ROW.format(
        escape(cluster_url(line.row.name)),
        escape(line.row.name),
        "" if line.row.replicas is None else f" {_badge('info', 'here')}",
        "".join(map(_cell, line.cells)),
        console.moments(line.sentence) or NOTHING,
    )


def _cell(cell: Cell) -> str:
    if cell.says == PASSES:
        return _PASSES
    if cell.says in (REFUSES, KEEPS):
        shown = _badge("bad", "refuses") if cell.says == REFUSES else _badge("warn", "keeps")
        return f"<td>{shown} {console.moments(cell.why)}</td>"
    return f"<td>{NOTHING}</td>"
