"""Kinds of other projects that Karmada knows without a customization [resource-interpreter]. One file per project."""

from __future__ import annotations

from controlplane.interpret.interpreter import Interpreter
from controlplane.interpret.thirdparty import argo, flink, flux, kruise, kubeflow, kyverno, ray, spark, volcano

THIRD_PARTY: dict[tuple[str, str], Interpreter] = {
    ("apps.kruise.io/v1alpha1", "AdvancedCronJob"): kruise.ADVANCED_CRON_JOB,
    ("apps.kruise.io/v1alpha1", "BroadcastJob"): kruise.BROADCAST_JOB,
    ("apps.kruise.io/v1alpha1", "CloneSet"): kruise.CLONE_SET,
    ("apps.kruise.io/v1alpha1", "DaemonSet"): kruise.DAEMON_SET,
    ("apps.kruise.io/v1alpha1", "SidecarSet"): kruise.SIDECAR_SET,
    ("apps.kruise.io/v1alpha1", "UnitedDeployment"): kruise.UNITED_DEPLOYMENT,
    ("apps.kruise.io/v1beta1", "StatefulSet"): kruise.STATEFUL_SET,
    ("argoproj.io/v1alpha1", "Workflow"): argo.WORKFLOW,
    ("batch.volcano.sh/v1alpha1", "Job"): volcano.JOB,
    ("flink.apache.org/v1beta1", "FlinkDeployment"): flink.DEPLOYMENT,
    ("helm.toolkit.fluxcd.io/v2beta1", "HelmRelease"): flux.HELM_RELEASE,
    ("kubeflow.org/v1", "Notebook"): kubeflow.NOTEBOOK,
    ("kubeflow.org/v1", "PyTorchJob"): kubeflow.PYTORCH_JOB,
    ("kubeflow.org/v1", "TFJob"): kubeflow.TF_JOB,
    ("kubeflow.org/v2beta1", "MPIJob"): kubeflow.MPI_JOB,
    **{("kubeflow.org/v1", f"{name}Job"): kubeflow.OTHER_JOB for name in ("JAX", "MPI", "Paddle", "XGBoost")},
    ("kustomize.toolkit.fluxcd.io/v1", "Kustomization"): flux.KUSTOMIZATION,
    ("kyverno.io/v1", "ClusterPolicy"): kyverno.POLICY,
    ("kyverno.io/v1", "Policy"): kyverno.POLICY,
    ("ray.io/v1", "RayCluster"): ray.CLUSTER,
    ("ray.io/v1", "RayJob"): ray.JOB,
    ("ray.io/v1", "RayService"): ray.SERVICE,
    ("source.toolkit.fluxcd.io/v1", "GitRepository"): flux.GIT_REPOSITORY,
    ("source.toolkit.fluxcd.io/v1beta2", "Bucket"): flux.BUCKET,
    ("source.toolkit.fluxcd.io/v1beta2", "HelmChart"): flux.HELM_CHART,
    ("source.toolkit.fluxcd.io/v1beta2", "HelmRepository"): flux.HELM_REPOSITORY,
    ("source.toolkit.fluxcd.io/v1beta2", "OCIRepository"): flux.OCI_REPOSITORY,
    ("sparkoperator.k8s.io/v1beta2", "SparkApplication"): spark.APPLICATION,
    ("trainer.kubeflow.org/v1alpha1", "TrainJob"): kubeflow.TRAIN_JOB,
}
