"""The emulator: worlds, the conversation, the record and the commands."""
