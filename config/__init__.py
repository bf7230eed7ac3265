"""The Django project: settings, URLs, the ASGI and WSGI applications, Celery. The first thing every process imports."""

import faulthandler
import gc
import signal

# A batch creates tens of thousands of values that live until it is written, and a start as many that live as long as
# the process. With the default of 700 the garbage collector searched them for cycles again and again. That cost a
# seventh of the speed of propagation (752 instead of 864 bindings/s) and a tenth of a start, and found no cycles.
gc.set_threshold(50_000)

# `kill -USR2 PID` prints the stacks of all threads to the log, also of a process whose threads wait for each other.
faulthandler.register(signal.SIGUSR2, file=2, all_threads=True)
