"""Sentences and tables made from numbers; no program reads them again."""
