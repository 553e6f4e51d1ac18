"""Pictures of attention heads, as in the paper's Figures 3 to 5.

``sentence`` runs the model, ``weights`` collects what its heads read, ``words`` joins pieces into
words, ``choice`` is what to show. ``columns`` and ``heat_maps`` lay out a ``sketch``; ``svg``,
``paper_files`` and ``page`` write it.
"""
