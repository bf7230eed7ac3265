"""The one form of every object: its manifest as text, and the version it was read at."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django import forms

from apps.objects import edits
from apps.objects.edits import Document, Edited
from apps.objects.yaml_text import line_of
from controlplane.apimachinery.errors import Conflict, StatusError


class DocumentForm(forms.Form):
    """A manifest to be written. Whatever is wrong with it is said at the field, and the text stays as it was typed."""

    basis = forms.IntegerField(required=False, widget=forms.HiddenInput)
    document = forms.CharField(
        label="Manifest",
        strip=False,
        widget=forms.Textarea(
            attrs={"rows": 30, "cols": 100, "class": "manifest", "spellcheck": "false", "autocapitalize": "off"}
        ),
        help_text="YAML or JSON. Status and the server's part of metadata are not edited here.",
    )

    is_conflict = False  # somebody else changed the same part meanwhile

    def write(self, change: Callable[[Document], Edited]) -> Edited | None:
        """Hand the document to `change`; return what was stored, None with errors in the form where it was refused."""
        if not self.is_valid():
            return None
        try:
            return change(edits.parse(self.cleaned_data["document"]))
        except StatusError as error:
            self._tell(error)
        return None

    def rebase(self, version: str) -> None:
        """Let the next save replace what is stored at that version."""
        self.data: Any = self.data.copy()
        self.data["basis"] = version

    def _tell(self, error: StatusError) -> None:
        self.is_conflict = isinstance(error, Conflict)
        if not error.details.causes:
            self.add_error("document", error.message)
        for cause in error.details.causes:
            line = line_of(self.cleaned_data.get("document", ""), cause.field) if cause.field else 0
            place = f" (line {line})" if line else ""
            self.add_error("document", f"{cause.field}: {cause.message}{place}" if cause.field else cause.message)
