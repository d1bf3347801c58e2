"""A scenario as text: plain values, places, and what is wrong there."""
