"""The ConfigMap kube-public/cluster-info: the address and the authority of the API, for members that register."""

from __future__ import annotations

import base64

import yaml

from apps.objects.store import DjangoStore
from apps.objects.writer import Author, Writer
from controlplane.apimachinery.errors import AlreadyExists, Conflict
from controlplane.authentication.bootstrap_tokens import KUBECONFIG
from controlplane.controllers.bootstrap_tokens import CLUSTER_INFO
from controlplane.kinds import KINDS
from controlplane.kinds.template import Template
from controlplane.settings import Settings


def write_cluster_info(store: DjangoStore, *, server: str, authority: str) -> bool:
    """Write the address of the API and the PEM of its authority. Return whether this call has changed them.

    False: they were the same, or another process writes them at this moment.
    """
    cluster = {"server": server}
    if authority:
        cluster["certificate-authority-data"] = base64.b64encode(authority.encode()).decode()
    document = {"apiVersion": "v1", "kind": "Config", "clusters": [{"name": "", "cluster": cluster}]}
    kubeconfig = yaml.safe_dump(document, sort_keys=False)
    writer, stored = Writer(store, Settings(), Author("prepare", "Prepare")), store.get([CLUSTER_INFO])
    if CLUSTER_INFO in stored and _data(stored[CLUSTER_INFO]).get(KUBECONFIG) == kubeconfig:
        return False
    try:
        if CLUSTER_INFO in stored:
            writer.act(CLUSTER_INFO, lambda info: _with_kubeconfig(info, kubeconfig))
        else:
            metadata = {"namespace": CLUSTER_INFO.namespace, "name": CLUSTER_INFO.name}
            data = {KUBECONFIG: kubeconfig}
            created = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
            writer.create(KINDS[CLUSTER_INFO.kind], created)
    except (AlreadyExists, Conflict):  # another process prepares the same database
        return False
    return True


def _with_kubeconfig(info: Template, kubeconfig: str) -> Template:
    return info.with_content({**info.content, "data": {**_data(info), KUBECONFIG: kubeconfig}})


def _data(info: Template) -> dict[str, str]:
    return info.content.get("data") or {}
