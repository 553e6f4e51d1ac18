"""A study as one page of HTML that needs no network, and its figures. Matplotlib draws."""
