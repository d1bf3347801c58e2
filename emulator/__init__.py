"""Where time passes: worlds, the conversation, the record and the commands."""
