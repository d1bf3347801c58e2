"""The laws that a record must obey, read from the record alone."""
