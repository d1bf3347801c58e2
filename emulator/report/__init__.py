"""The report on results (report.html, Markdown, pictures), and the pages and figures of maps, tunings and studies.

Each chart has a module of its own.  Pure functions.
"""
