"""The widgets of the console have the HTML of Django's own."""

from __future__ import annotations

from typing import Any

import pytest
from django.forms import CheckboxSelectMultiple, Select, SelectMultiple

from apps.objects.widgets import CheckBoxes, SelectOne, SelectSeveral

CHOICES = [("", "none"), ("a", "A & <b>"), ('"c"', "C"), ("d", "D")]
PAIRS = ((CheckBoxes, CheckboxSelectMultiple), (SelectOne, Select), (SelectSeveral, SelectMultiple))


@pytest.mark.parametrize(("own", "by_django"), PAIRS)
@pytest.mark.parametrize("value", [["d", '"c"'], ["a"], [], None, "d"])
def test_the_html_of_a_widget_is_that_of_django(own: Any, by_django: Any, value: Any) -> None:
    if own is SelectOne and isinstance(value, list):
        value = value[0] if value else ""
    attrs = {"id": "id_x"}

    shown = own(choices=CHOICES).render("x", value, attrs)

    assert "".join(shown.split()) == "".join(by_django(choices=CHOICES).render("x", value, attrs).split())
