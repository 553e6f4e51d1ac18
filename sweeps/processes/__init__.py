"""What processes of a sweep share: `storage` that fails for a while, `times` to wait, and what is
private to Ray."""
