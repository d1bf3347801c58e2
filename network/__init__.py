"""The network model: payloads, links, and the sharing of links."""
