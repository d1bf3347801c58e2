"""What a scenario may say."""
