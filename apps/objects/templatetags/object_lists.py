"""Rows of lists of the admin, as HTML. In Django's template language they would be most of the time of a page.

The HTML is that of Django's own list. Each column is prepared once for all rows of a page.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, date, datetime
from html import escape
from typing import Any, Final
from urllib.parse import quote as percent_encoded

from django import template
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.templatetags.admin_list import result_headers
from django.contrib.admin.templatetags.admin_urls import add_preserved_filters
from django.contrib.admin.utils import display_for_field, display_for_value, lookup_field, quote
from django.db import models
from django.utils.html import conditional_escape
from django.utils.http import RFC3986_SUBDELIMS
from django.utils.safestring import SafeString, mark_safe

register = template.Library()

CHECKBOX: Final = "action_checkbox"
_CHECK: Final = (
    '<td class="action-checkbox"><input type="checkbox" name="{}" value="{}" class="action-select"'
    ' aria-label="Select this object for an action - {}"></td>'
)
_TEXTS: Final = (models.CharField, models.TextField)
_TIMES: Final = (models.DateField, models.TimeField, models.ForeignKey)

_FAILOVER: Final = (
    '<tr><td>{}{}</td><td>{}</td><td>{}</td><td><a href="{}">Record</a> · <a href="{}">Binding</a></td></tr>\n'
)

Cell = Callable[[Any], str]
"""Returns the cell of a row as HTML."""


@register.simple_tag
def object_headers(page: Any) -> list[dict[str, Any]]:
    """Return the headers of the columns as Django does, with `several`: the list is sorted by several columns."""
    headers = list(result_headers(page))
    several = len([header for header in headers if header.get("sorted")]) > 1
    return [{**header, "several": several} for header in headers]


@register.simple_tag
def object_rows(page: Any) -> SafeString:
    """Return the rows of a list page: a `tr` for each object."""
    if not page.result_list:
        return SafeString()
    cells = cells_of(page)
    return mark_safe("\n".join(f"<tr>{''.join([cell(row) for cell in cells])}</tr>" for row in page.result_list))


@register.simple_tag
def linked_rows(rows: Iterable[Iterable[tuple[str, str]]]) -> SafeString:
    """Return rows of cells, each a text with its URL, as `tr` elements. URL "": the text is no link."""
    return mark_safe("".join(f"<tr>{''.join([_linked(*cell) for cell in row])}</tr>" for row in rows))


def _linked(text: str, url: str) -> str:
    return f'<td><a href="{escape(url)}">{escape(text)}</a></td>' if url else f"<td>{escape(text)}</td>"


@register.simple_tag
def failover_rows(failovers: Iterable[Any]) -> SafeString:
    """Return a row for each failover (`console.admin_records.FailoverSummary`)."""
    return mark_safe("".join(map(_failover, failovers)))


def _failover(one: Any) -> str:
    running, at = " <strong>Running.</strong>" if one.is_running else "", one.at.astimezone(UTC)
    texts = map(escape, (one.reason, f"{at:%Y-%m-%d %H:%M:%S}", one.record, one.binding))
    return _FAILOVER.format(escape(one.sentence), running, *texts)


@register.simple_tag
def options(choices: Sequence[tuple[str, str]]) -> SafeString:
    """Return the values of a filter as `option` elements."""
    return mark_safe("".join([f'<option value="{escape(value)}">{escape(text)}</option>' for value, text in choices]))


def cells_of(page: Any) -> list[Cell]:
    """Return the functions that make the cells of a row, in the order of the columns. The page has rows."""
    link, linked, made = _link(page), False, list[Cell]()
    for name in page.list_display:
        if name == CHECKBOX:
            made.append(_checkbox)
            continue
        is_link = page.list_display_links is not None and (
            name in page.list_display_links or (not page.list_display_links and not linked)
        )
        made.append(_cell(page, name, link=link if is_link else None, tag="th" if is_link and not linked else "td"))
        linked = linked or is_link
    return made


def _checkbox(row: Any) -> str:
    return _CHECK.format(ACTION_CHECKBOX_NAME, escape(str(row.pk)), escape(str(row)))


def _link(page: Any) -> Callable[[Any], str]:
    """Return the function that returns the URL of a row: the URL of the first row, with the row's key instead."""
    first = page.result_list[0]
    url = page.url_for_result(first)
    kept = {"preserved_filters": page.preserved_filters, "opts": page.opts}
    query = escape(add_preserved_filters(kept, url).removeprefix(url))
    begin, _, end = url.rpartition(f"/{_in_url(first.pk)}/")
    return lambda row: f"{begin}/{_in_url(row.pk)}/{end}{query}"


def _in_url(key: Any) -> str:
    """Return a primary key as Django writes it into the URL of an object."""
    return escape(percent_encoded(str(quote(key)), safe=f"{RFC3986_SUBDELIMS}/~:@"))


def _cell(page: Any, name: str, *, link: Callable[[Any], str] | None, tag: str) -> Cell:
    """Return the function that makes the cells of a column. `link`: of its URL; None: the text is no link."""
    text, is_narrow = _text(page, name)
    begin, end = f'<{tag} class="field-{name}{" nowrap" if is_narrow else ""}">', f"</{tag}>"
    if link is None:
        return lambda row: f"{begin}{text(row)}{end}"
    return lambda row: f'{begin}<a href="{link(row)}">{text(row)}</a>{end}'


def _text(page: Any, name: str) -> tuple[Cell, bool]:
    """Return the function that returns the text of a column as HTML, and whether the text is kept on one line."""
    owner, first = page.model_admin, page.result_list[0]
    found: tuple[Any, Any, Any] = lookup_field(name, first, owner)
    field, shown_by, value = found
    empty = getattr(shown_by, "empty_value_display", owner.get_empty_value_display())
    if field is not None and not field.auto_created:
        return _text_of_field(field, str(conditional_escape(empty))), isinstance(field, _TIMES)
    is_boolean, is_method = getattr(shown_by, "boolean", False), hasattr(owner, name) and name != "__str__"

    def text(row: Any) -> str:
        shown = shown_by(row) if is_method else lookup_field(name, row, owner)[2]
        if type(shown) is str:
            return escape(shown) if shown.strip() else str(conditional_escape(empty))
        return str(conditional_escape(display_for_value(shown, empty, is_boolean)))

    return text, isinstance(value, date)


def _text_of_field(field: Any, empty: str) -> Cell:
    name = field.name
    if isinstance(field, models.DateTimeField):
        return lambda row: empty if (at := getattr(row, name)) is None else _time(at)
    if isinstance(field, _TEXTS) and not field.flatchoices:
        return lambda row: escape(text) if (text := getattr(row, name)) and text.strip() else empty
    if isinstance(field, models.ForeignKey):
        return lambda row: empty if (other := getattr(row, name)) is None else escape(str(other))
    if isinstance(field, models.IntegerField) and not field.flatchoices:
        return lambda row: empty if (number := getattr(row, name)) is None else str(number)
    return lambda row: str(conditional_escape(display_for_field(getattr(row, name), field, empty)))


def _time(at: datetime) -> str:
    """Return a time as in `config/formats`, which Django's own function needs ten times as long for."""
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
