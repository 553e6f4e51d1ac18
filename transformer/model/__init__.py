"""The Transformer (section 3). Its numerics are tested against the formulas and against torch."""
