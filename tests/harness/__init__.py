"""What the tests from outside share: servers to start, and replies to compare."""
