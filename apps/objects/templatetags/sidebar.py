"""The sidebar of the admin, as HTML. In Django's template language it would be a fifth of the time of a page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any, Final
from urllib.parse import quote

from django import template
from django.utils.safestring import SafeString, mark_safe

register = template.Library()

_NOTHING: Final = "<p>You don’t have permission to view or edit anything.</p>"
_HEADING: Final = (
    '<div class="app-{0} module{1}"><table><caption>'
    '<a href="{2}" class="section" title="Models in the {3} application">{3}</a></caption>'
    '<thead class="visually-hidden"><tr><th scope="col">Model name</th><th scope="col">Add link</th>'
    '<th scope="col">Change or view list link</th></tr></thead>{4}</table></div>'
)
_TABLE: Final = '<tr class="model-{0}{1}"><th scope="row" id="{2}-{0}">{3}</th>{4}</tr>'
_ADD: Final = '<td><a href="{}" class="addlink" aria-describedby="{}-{}">Add</a></td>'


@register.simple_tag
def sidebar(headings: Sequence[Mapping[str, Any]], path: str) -> SafeString:
    """Return the headings with their tables as Django's template does, for a page at this path."""
    here = quote(path)
    return mark_safe("\n".join(_heading(heading, here) for heading in headings) or _NOTHING)


def _heading(heading: Mapping[str, Any], here: str) -> str:
    label, url = escape(heading["app_label"]), heading["app_url"]
    tables = "".join(_tables(heading["models"], label, here))
    current = " current-app" if url in here else ""
    return _HEADING.format(label, current, escape(url), escape(heading["name"]), tables)


def _tables(tables: Iterable[Mapping[str, Any]], label: str, here: str) -> Iterable[str]:
    for table in tables:
        name, url, text = escape(table["object_name"].lower()), table["admin_url"], escape(table["name"])
        is_here = bool(url) and url in here
        current = ' aria-current="page"' if is_here else ""
        link = f'<a href="{escape(url)}"{current}>{text}</a>' if url else text
        add = _ADD.format(escape(table["add_url"]), label, name) if table.get("add_url") else "<td></td>"
        yield _TABLE.format(name, " current-model" if is_here else "", label, link, add)
