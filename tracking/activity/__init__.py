"""What trials are doing: who runs them, what they show, and why they have no result."""
