"""How bytes travel: payloads, links, and the sharing of links."""
