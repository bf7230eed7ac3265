"""Every rule of Lifeboat as pure functions: data in, decision out. No Django, no I/O, no clock."""

__version__ = "0.1.0"
