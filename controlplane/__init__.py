"""What should happen: every rule of Lifeboat as pure functions. Data in, decision out; no Django, no I/O, no clock."""
