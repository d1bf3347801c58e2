"""Worlds, which are the surroundings in which a run is played: in virtual time, or in real time over sockets."""
