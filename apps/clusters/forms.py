"""What people are asked before they do something to a cluster."""

from __future__ import annotations

from django import forms

from controlplane.apimachinery.errors import StatusError
from controlplane.clusters.fence import LONGEST_SECONDS

FIELDS = {"reason": "reason", "expiresInSeconds": "expires_in_seconds"}  # of a cause, and of the form


class FenceForm(forms.Form):
    """A fence: how the cluster is known to be down, and for how long that counts."""

    reason = forms.CharField(
        required=False, strip=True, help_text="How is the cluster known to be down? It is kept with your name."
    )
    expires_in_seconds = forms.IntegerField(
        min_value=1, initial=3600, label="Counts for (seconds)", help_text=f"At most {LONGEST_SECONDS}, a week."
    )

    def tell(self, error: StatusError) -> None:
        """Say why the fence was refused."""
        if not error.details.causes:
            self.add_error(None, error.message)
        for cause in error.details.causes:
            self.add_error(FIELDS.get(cause.field), cause.message)
