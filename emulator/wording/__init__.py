"""From numbers to sentences and tables; no program reads them again."""
