"""Check boxes for many choices. Django renders two templates for each of them, which is most of the time of a form."""

from __future__ import annotations

from html import escape
from typing import Any, Final

from django import forms
from django.utils.safestring import SafeString, mark_safe

_BOX: Final = (
    '<div><label for="{0}_{1}"><input type="checkbox" name="{2}" value="{3}" id="{0}_{1}"{4}> {5}</label></div>'
)


class CheckBoxes(forms.CheckboxSelectMultiple):
    """The check boxes of Django, for choices without groups. Their HTML is the same."""

    def render(self, name: str, value: Any, attrs: Any = None, renderer: Any = None) -> SafeString:
        """Return the choices as HTML, those of `value` checked."""
        of, chosen = escape(str(attrs["id"])), set(self.format_value(value))
        boxes = [
            _BOX.format(
                of, number, escape(name), escape(str(key)), " checked" if key in chosen else "", escape(str(text))
            )
            for number, (key, text) in enumerate(self.choices)
        ]
        return mark_safe(f'<div id="{of}">{"".join(boxes)}</div>')
