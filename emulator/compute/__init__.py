"""Executors of jobs: in this process, in worker processes, on Ray or a GPU, and from the ledger."""
