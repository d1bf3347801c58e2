from hypothesis import settings

# the deadline of an example is wall-clock time: on a busy machine it fails tests that are right
settings.register_profile("steady", deadline=None)
settings.load_profile("steady")
