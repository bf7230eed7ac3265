"""Bearer tokens. Only a hash of each token is stored, so a token cannot be read from the database."""

from __future__ import annotations

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
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


class ServiceAccountToken(models.Model):
    """A bearer token of a ServiceAccount. It is valid until it expires, and while its ServiceAccount exists."""

    digest = models.CharField(max_length=64, unique=True)  # read by service_accounts.find
    namespace = models.TextField()
    name = models.TextField()
    account_uid = models.TextField()
    audiences = ArrayField(models.TextField())
    bound_kind = models.TextField(default="", db_default="")  # "": the token is bound to no other object
    bound_name = models.TextField(default="", db_default="")
    bound_uid = models.TextField(default="", db_default="")
    created = models.DateTimeField(auto_now_add=True)
    last_used = models.DateTimeField(null=True, blank=True)  # null: never used
    expires = models.DateTimeField(db_index=True)  # read by service_accounts.create, which removes expired tokens

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name} until {self.expires:%Y-%m-%d %H:%M}"


class ProviderUser(models.Model):
    """A user whom an OpenID provider knows. Browsers log in as this user through the provider, never by password."""

    user = models.OneToOneField(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="provider_user")
    issuer = models.TextField()
    subject = models.TextField()

    class Meta:
        constraints = [
            # read by oidc_users.user_of: the provider names a user by its subject for ever
            models.UniqueConstraint(fields=["issuer", "subject"], name="provider_user"),
        ]

    def __str__(self) -> str:
        return f"{self.subject} of {self.issuer}"


class LoginSession(models.Model):
    """The use of a browser's session. The session itself is Django's; this row follows it."""

    session_key = models.CharField(max_length=40, primary_key=True)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="login_sessions")
    created = models.DateTimeField()
    last_used = models.DateTimeField()
    address = models.TextField()
    agent = models.TextField()

    def __str__(self) -> str:
        return f"{self.user} since {self.created:%Y-%m-%d %H:%M}"
