"""Model fields of this product."""

from __future__ import annotations

from typing import Any

from django.db import models


class CodePointTextField(models.TextField):
    """Text that sorts by code point, as in Python and Kubernetes, whatever the database's locale is."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs["db_collation"] = "C"
        super().__init__(*args, **kwargs)

    def deconstruct(self) -> Any:
        """Return the field as migrations write it: a TextField of Django with that collation."""
        name, _, args, kwargs = super().deconstruct()
        return name, "django.db.models.TextField", args, kwargs
