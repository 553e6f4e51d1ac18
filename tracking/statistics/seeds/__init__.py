"""Tests over seeds: one metric's rows against their references, and what seeds can show."""
