"""The Django project: settings, URLs, the ASGI and WSGI applications, Celery. The first thing every process imports."""

import gc

# A batch creates tens of thousands of values that live until it is written, and a start as many that live as long as
# the process. With the default of 700 the garbage collector searched them for cycles again and again. That cost a
# seventh of the speed of propagation (752 instead of 864 bindings/s) and a tenth of a start, and found no cycles.
gc.set_threshold(50_000)
