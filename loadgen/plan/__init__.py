"""What will be offered and when: workload, arrivals, prompts, sealed schedule.

Nothing here opens a file or reads a clock. ``schedule`` is all an issuing process
needs; it imports neither numpy nor its siblings.
"""
