"""Check that a method conforms to the contract."""
