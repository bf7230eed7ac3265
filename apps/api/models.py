"""Bearer tokens. Only a hash is kept: what was handed out once cannot be read back."""

from __future__ import annotations

from django.conf import settings
from django.db import models


class Token(models.Model):
    """A user's way in for programs. `digest` is the SHA-256 of 256 random bits, so no salt is needed."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="api_tokens")
    name = models.CharField(max_length=100)
    digest = models.CharField(max_length=64, unique=True)  # read by authentication.bearer
    created = models.DateTimeField(auto_now_add=True)
    expires = models.DateTimeField(null=True, blank=True)  # null: never
    lifetime = models.DurationField(null=True, blank=True)  # what a renewal adds to the present; null: for ever
    last_used = models.DateTimeField(null=True, blank=True)  # rounded to the minute; null: never used
    # an agent's: uid of its Cluster, with which it ends, and which no later one of that name has; null: a person's
    cluster_uid = models.TextField(null=True, blank=True)

    class Meta:
        constraints = [
            # read by tokens.revoke: a user's tokens are told apart by name
            models.UniqueConstraint(fields=["user", "name"], name="token_name"),
        ]

    def __str__(self) -> str:
        return f"{self.user}/{self.name}"
