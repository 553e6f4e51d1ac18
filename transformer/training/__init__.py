"""Training one model on one or several workers (section 5)."""
