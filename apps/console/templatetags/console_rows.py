"""Rows of tables with up to 100 rows. In Django's template language they would be most of the time of a page."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from django import template
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

from apps.console.object_links import cluster_url
from apps.console.templatetags.console import badge, utc
from controlplane.scheduling.filter_table import KEEPS, PASSES, REFUSES, Cell

register = template.Library()

NOTHING: Final = mark_safe('<span class="quiet">–</span>')
_PASSES: Final = mark_safe('<td>✓<span class="hidden-text">passes</span></td>')
_UNASKED: Final = mark_safe('<td><span class="quiet">–</span></td>')

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
_FILTER_ROW: Final = '<tr><td class="nowrap"><a href="{}">{}</a>{}</td>{}<td>{}</td></tr>\n'


@register.simple_tag
def queue_rows(lines: Iterable[Any], may_order: bool) -> SafeString:
    """Return the rows of the queue (`queue.Line`), with checkboxes for readers who may order."""
    return format_html_join("", "{}", ((_queue_row(line, may_order),) for line in lines))


def _queue_row(line: Any, may_order: bool) -> SafeString:
    names = (line.value, line.namespace, line.name, line.cluster)
    nowhere = "" if line.has_refuge or not line.destination else badge("bad", "nowhere")
    return format_html(
        _QUEUE_ROW,
        format_html(_CHOOSE, *names) if may_order else "",
        "–" if line.position is None else line.position,
        line.url,
        line.name,
        f"{line.kind} in {line.namespace}" if line.namespace else line.kind,
        badge(line.badge, line.state),
        line.why,
        cluster_url(line.cluster),
        line.cluster,
        format_html("{} {}", nowhere, line.destination) if line.destination else NOTHING,
        utc(line.due_at),
        utc(line.at) if line.at is not None else line.unknown or NOTHING,
    )


@register.simple_tag
def record_rows(lines: Iterable[Any]) -> SafeString:
    """Return the rows of a list of failovers (`records.Line`)."""
    rows = (
        (
            line.workload_url,
            line.begun.resource.name,
            " in ".join(filter(None, (line.begun.resource.kind, line.begun.resource.namespace))),
            ", ".join(line.begun.left),
            badge("info", "Running") if line.is_running else badge("ok", "Finished"),
            line.begun.reason,
            utc(line.begun.at, "date"),
            line.took,
            line.url,
            line.begun.name,
        )
        for line in lines
    )
    return format_html_join("", _RECORD_ROW, rows)


@register.simple_tag
def filter_rows(table: Iterable[Any]) -> SafeString:
    """Return the rows of the table of clusters and filters (`workload_answers.TableRow`)."""
    rows = (
        (
            cluster_url(line.row.name),
            line.row.name,
            "" if line.row.replicas is None else format_html(" {}", badge("info", "here")),
            format_html_join("", "{}", ((_cell(cell),) for cell in line.cells)),
            line.sentence or NOTHING,
        )
        for line in table
    )
    return format_html_join("", _FILTER_ROW, rows)


def _cell(cell: Cell) -> SafeString:
    if cell.says == PASSES:
        return _PASSES
    if cell.says in (REFUSES, KEEPS):
        shown = badge("bad", "refuses") if cell.says == REFUSES else badge("warn", "keeps")
        return format_html("<td>{} {}</td>", shown, cell.why)
    return _UNASKED
