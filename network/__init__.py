"""Payloads, links, and the sharing of links: how bytes travel."""
