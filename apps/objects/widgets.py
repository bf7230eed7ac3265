"""Widgets for many choices. Django renders a template or two for each choice, which is most of the time of a form.

Choices have no groups. The HTML is that of Django's own widgets.
"""

from __future__ import annotations

from html import escape
from typing import Any, Final

from django import forms
from django.contrib.admin.helpers import ActionForm
from django.forms.utils import flatatt
from django.utils.safestring import SafeString, mark_safe

_BOX: Final = (
    '<div><label for="{0}_{1}"><input type="checkbox" name="{2}" value="{3}" id="{0}_{1}"{4}> {5}</label></div>'
)
_OPTION: Final = '<option value="{}"{}>{}</option>'


class CheckBoxes(forms.CheckboxSelectMultiple):
    """The check boxes of Django."""

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


class _Options(forms.Select):
    """Base of both kinds of lists."""

    def render(self, name: str, value: Any, attrs: Any = None, renderer: Any = None) -> SafeString:
        """Return the choices as HTML, those of `value` selected."""
        chosen = set(self.format_value(value))
        options = [
            _OPTION.format(escape(str(key)), " selected" if str(key) in chosen else "", escape(str(text)))
            for key, text in self.choices
        ]
        multiple = {"multiple": True} if self.allow_multiple_selected else {}
        own = flatatt({**self.build_attrs(self.attrs, attrs), **multiple})
        return mark_safe(f'<select name="{escape(name)}"{own}>{"".join(options)}</select>')


class SelectOne(_Options):
    """The list of Django from which a user selects one value."""


class SelectSeveral(_Options, forms.SelectMultiple):
    """The list of Django from which a user selects several values."""


class Actions(ActionForm):
    """The form of Django with which lists of the admin choose an action."""

    action = forms.ChoiceField(label="Action:", widget=SelectOne)
