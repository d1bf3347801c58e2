"""What each job's result depends on."""
