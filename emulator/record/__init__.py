"""Events, rows and files of a run.  Imports no torch."""
