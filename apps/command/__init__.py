"""The command `lifeboat`: a client of the API for operators. It is installed without the server and imports nothing of
it but `controlplane.apimachinery`."""
