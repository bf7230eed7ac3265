"""Forms of actions on clusters."""

from __future__ import annotations

from django import forms

from controlplane.apimachinery.errors import StatusError
from controlplane.clusters.fence import LONGEST_SECONDS

FIELDS = {"reason": "reason", "expiresInSeconds": "expires_in_seconds"}  # the field of a cause → the form's field


class FenceForm(forms.Form):
    """A fence: the reason why the cluster is known to be down, and how long the fence is valid."""

    reason = forms.CharField(
        required=False,
        strip=True,
        help_text="How do you know that the cluster is down? The reason is stored with your name.",
    )
    expires_in_seconds = forms.IntegerField(
        min_value=1,
        initial=3600,
        label="Valid for (seconds)",
        help_text=f"At most {LONGEST_SECONDS}, which is one week.",
    )

    def add_errors(self, error: StatusError) -> None:
        """Show at the fields why the fence was refused."""
        if not error.details.causes:
            self.add_error(None, error.message)
        for cause in error.details.causes:
            self.add_error(FIELDS.get(cause.field), cause.message)
