"""Bearer tokens. Only a hash of each token is stored, so a token cannot be read from the database."""

from __future__ import annotations

from django.conf import settings
from django.db import models


class Token(models.Model):
    """A bearer token of a user. `digest` is the SHA-256 of 256 random bits, so no salt is needed."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="api_tokens")
    name = models.CharField(max_length=100)
    digest = models.CharField(max_length=64, unique=True)  # read by tokens.find
    created = models.DateTimeField(auto_now_add=True)
    expires = models.DateTimeField(null=True, blank=True)  # null: valid until revoked
    lifetime = models.DurationField(null=True, blank=True)  # a renewal sets expires to now + lifetime
    last_used = models.DateTimeField(null=True, blank=True)  # rounded to the minute; null: never used
    # Agent's token: the uid of its Cluster. The token is invalid once that Cluster is deleted. null: not an agent's
    cluster_uid = models.TextField(null=True, blank=True)

    class Meta:
        constraints = [
            # read by tokens.revoke: a name identifies a token of a user
            models.UniqueConstraint(fields=["user", "name"], name="token_name"),
        ]

    def __str__(self) -> str:
        return f"{self.user}/{self.name}"
