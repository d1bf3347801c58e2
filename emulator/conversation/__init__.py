"""The messages and work of server and devices in a run: the same code in virtual time and over real sockets."""
