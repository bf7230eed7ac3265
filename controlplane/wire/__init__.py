"""The Kubernetes protocol as pure functions on plain documents: used by the API and by the simulated members alike."""
