"""URLs of the console."""

from django.urls import path

from apps.console.cluster import ClusterPage, ClustersPage
from apps.console.cluster_acts import ACTS
from apps.console.development import FaultPage
from apps.console.drills import DrillPage, DrillsPage, StartPage, StopPage
from apps.console.gate import GatePage
from apps.console.order_acts import OrderActPage
from apps.console.pause import PausePage, ResumePage
from apps.console.queue import QueueView
from apps.console.queue_orders import OrderPage
from apps.console.queue_rates import RatesPage
from apps.console.readiness import ReadinessFile, ReadinessPage
from apps.console.records import RecordPage, RecordReport, RecordsPage, RecordsReport
from apps.console.situation_page import SituationPage
from apps.console.stream import StreamView
from apps.console.what_if import WhatIfPage, WhatIfRunPage
from apps.console.workload import BindingPage, WorkloadPage
from apps.console.workload_acts import RebalancePage, RevertPage

app_name = "console"

urlpatterns = [
    path("", SituationPage.as_view(), name="situation"),
    path("queue", QueueView.as_view(), name="queue"),
    path("queue/order", OrderPage.as_view(), name="queue-order"),
    path("queue/rates", RatesPage.as_view(), name="queue-rates"),
    path("queue/gate/<value>", GatePage.as_view(), name="queue-gate"),
    path("readiness", ReadinessPage.as_view(), name="readiness"),
    path("readiness.csv", ReadinessFile.as_view(), name="readiness-file"),
    path("records", RecordsPage.as_view(), name="records"),
    path("records.md", RecordsReport.as_view(), name="records-report"),
    path("records/<str:name>.md", RecordReport.as_view(), name="record-report"),
    path("records/<str:name>", RecordPage.as_view(), name="record"),
    path("bindings/<str:namespace>/<str:name>", BindingPage.as_view(), name="binding"),
    path("bindings/<str:namespace>/<str:name>/revert", RevertPage.as_view(), name="binding-revert"),
    path("bindings/<str:namespace>/<str:name>/rebalance", RebalancePage.as_view(), name="binding-rebalance"),
    path("workloads/<str:group>/<str:kind>/<str:namespace>/<str:name>", WorkloadPage.as_view(), name="workload"),
    path("clusters", ClustersPage.as_view(), name="clusters"),
    path("clusters/<name>", ClusterPage.as_view(), name="cluster"),
    *(path(f"clusters/<name>/{act}", page.as_view(), name=f"cluster-{act}") for act, page in ACTS.items()),
    path("drills", DrillsPage.as_view(), name="drills"),
    path("drills/start", StartPage.as_view(), name="drill-start"),
    path("drills/<name>", DrillPage.as_view(), name="drill"),
    path("drills/<name>/stop", StopPage.as_view(), name="drill-stop"),
    path("what-if", WhatIfPage.as_view(), name="what-if"),
    path("what-if/<str:name>", WhatIfRunPage.as_view(), name="what-if-run"),
    path("orders/<plural>/<name>/<verb>", OrderActPage.as_view(), name="order-act"),
    path("stream", StreamView.as_view(), name="stream"),
    path("pause", PausePage.as_view(), name="pause"),
    path("resume/<name>", ResumePage.as_view(), name="resume"),
    path("development/<name>/<fault>", FaultPage.as_view(), name="development"),
]
