"""The main job on a machine with a GPU: ``make test-gpu``.

Any Python that has loadgen's dependencies can run ``python -m tests.gpu [OUT]``;
nothing is installed. Without a GPU it says so and ends with 0.
"""
