"""The form with which the admin edits objects of every kind: the manifest as text, and the version it is based on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django import forms

from apps.objects import edits
from apps.objects.edits import Document, Edited
from apps.objects.yaml_text import line_of
from controlplane.apimachinery.errors import Conflict, StatusError


class DocumentForm(forms.Form):
    """A manifest to be saved. Errors are shown at the field, and the text stays as the user typed it."""

    basis = forms.IntegerField(required=False, widget=forms.HiddenInput)
    document = forms.CharField(
        label="Manifest",
        strip=False,
        widget=forms.Textarea(
            attrs={"rows": 30, "cols": 100, "class": "manifest", "spellcheck": "false", "autocapitalize": "off"}
        ),
        help_text="YAML or JSON. The status and the metadata that the server writes cannot be edited here.",
    )

    is_conflict = False  # another user changed the same part meanwhile

    def write(self, change: Callable[[Document], Edited]) -> Edited | None:
        """Call `change` with the document and return the stored object; None: refused, and the form has the errors."""
        if not self.is_valid():
            return None
        try:
            return change(edits.parse(self.cleaned_data["document"]))
        except StatusError as error:
            self._add_errors(error)
        return None

    def rebase(self, version: str) -> None:
        """Make the next save replace the object that is stored at this version."""
        self.data: Any = self.data.copy()
        self.data["basis"] = version

    def _add_errors(self, error: StatusError) -> None:
        self.is_conflict = isinstance(error, Conflict)
        if not error.details.causes:
            self.add_error("document", error.message)
        for cause in error.details.causes:
            line = line_of(self.cleaned_data.get("document", ""), cause.field) if cause.field else 0
            place = f" (line {line})" if line else ""
            self.add_error("document", f"{cause.field}: {cause.message}{place}" if cause.field else cause.message)
