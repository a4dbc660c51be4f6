"""The issuing process: offers a sealed schedule on time, once, and stamps."""
