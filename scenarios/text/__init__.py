"""The text of a scenario: plain values, their places, and errors with places."""
