"""The whole product under its supervisor: processes are killed, clusters fail, and a ledger is kept outside."""
