"""The built scenario, and the pure jobs that compute on it."""
