"""The long-lived process that talks to members: probes, applies, watches; a slow member delays nobody else."""
