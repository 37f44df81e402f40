"""The exercises' checks, one module per chapter: ``ch03`` is chapter 3's.

Each check returns a ``Verdict`` that says what is wrong and where to look; none raises.
"""
