"""Real engines and proxies: how to install, start and load-test them."""
