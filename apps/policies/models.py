"""Tables of propagation policies and cluster taint policies."""

from __future__ import annotations

from typing import ClassVar

from django.db import models

from apps.objects.fields import CodePointTextField
from apps.objects.models import StoredObject


class Policy(StoredObject):
    """A PropagationPolicy or a ClusterPropagationPolicy."""

    projections: ClassVar = {
        "priority": lambda policy: policy.spec.priority,
        "preemption": lambda policy: policy.spec.preemption,
    }

    priority = models.BigIntegerField()
    preemption = CodePointTextField()

    class Meta(StoredObject.Meta):
        verbose_name = "propagation policy"
        verbose_name_plural = "propagation policies"


class ClusterTaintPolicy(StoredObject):
    """A ClusterTaintPolicy: which conditions of a cluster add which taints to it."""

    class Meta(StoredObject.Meta):
        verbose_name_plural = "cluster taint policies"
