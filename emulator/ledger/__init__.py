"""What jobs read and write, and what is remembered of them: stores, keys, facts."""
