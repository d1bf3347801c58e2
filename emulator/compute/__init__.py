"""Who does jobs: this process, worker processes, Ray, a GPU; and what does each job only once."""
