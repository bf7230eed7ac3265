"""Admin of policies."""

from django.contrib import admin

from apps.objects.admin_for import admin_for
from apps.policies.models import ClusterTaintPolicy, Policy

admin.site.register(Policy, admin_for(Policy))
admin.site.register(ClusterTaintPolicy, admin_for(ClusterTaintPolicy))
