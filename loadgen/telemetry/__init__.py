"""What is measured beside the requests: GPUs, the server, ourselves."""
