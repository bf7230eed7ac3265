"""Celery: beat sends ticks, and a worker runs a turn for each. No results, no ETA; a lost message loses nothing."""

import os
import sys
from datetime import UTC, datetime
from functools import partial

from celery import Celery
from celery.schedules import schedule
from kombu.transport.redis import Channel

from apps.worker.groups import INTERVAL_SECONDS, tick_names
from config import env
from config.metrics_folder import prepare_metrics_folder

prepare_metrics_folder()  # before any app, and with it prometheus_client, is imported
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
env.required("LIFEBOAT_SECRET_KEY", example="$(openssl rand -base64 48)")
env.keys("LIFEBOAT_ENCRYPTION_KEYS", env.text("LIFEBOAT_ENCRYPTION_KEYS", default=""))

# A tick that no worker received in time expires: the next one has been sent.
TICK_OPTIONS = {"expires": INTERVAL_SECONDS, "retry": False}

# Otherwise a worker that loses its broker would try to return unprocessed ticks to it, fail, and end (kombu 5.6).
Channel.do_restore = False

app = Celery("lifeboat")
# Celery's own clock looks for ambiguous times of day, also in UTC, which was a fifth of what beat did.
_EACH_INTERVAL = schedule(INTERVAL_SECONDS, nowfun=partial(datetime.now, UTC))
app.conf.update(
    broker_url=env.redis("REDIS_URL", default="redis://127.0.0.1:6379/0"),
    broker_connection_retry_on_startup=True,
    broker_connection_max_retries=None,  # None: try for ever; workers also run without the broker
    broker_channel_error_retry=True,  # also if the broker answers and refuses: READONLY, NOREPLICAS, MISCONF, OOM
    result_backend=None,
    task_ignore_result=True,
    task_acks_late=False,  # a tick that was lost need not be repeated: the next one follows
    worker_prefetch_multiplier=1,
    worker_concurrency=len(tick_names()),  # a turn lasts a whole interval, so each group needs a process of its own
    worker_pool="apps.worker.process_pool:ProcessPool",
    worker_hijack_root_logger=False,
    worker_send_task_events=False,
    accept_content=["json"],
    task_serializer="json",
    timezone="UTC",
    enable_utc=True,
    beat_schedule={
        name: {"task": "lifeboat.tick", "schedule": _EACH_INTERVAL, "args": (name,), "options": TICK_OPTIONS}
        for name in tick_names()
    },
    beat_scheduler="apps.worker.tick_scheduler:TickScheduler",
    beat_max_loop_interval=INTERVAL_SECONDS,
)
# Otherwise Celery closes the database pool of a process after each tick, and PostgreSQL starts a new session for
# each turn. A turn returns its connections itself.
app.conf.CELERY_DB_REUSE_MAX = sys.maxsize
app.autodiscover_tasks(["apps.worker"])
