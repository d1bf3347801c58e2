"""What is computed: federated algorithms, their parts, and what their work costs."""
