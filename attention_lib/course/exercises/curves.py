"""The recorded curves of exercise 8.1: six runs, each with another fault.

A run has 80 steps of 8 stories; its model has one layer. `tests/course/odd_runs.py` is
the program that made them, and a test runs it again.
"""

#: The steps after which the losses were taken.
STEPS = range(5, 85, 5)
# Training losses, each a mean of five steps, and below them held-out losses.
_LOSSES = {
    "A": """
        4.06 3.05 1.67 1.31 1.00 1.15 1.01 0.83 1.24 0.83 0.97 0.86 0.79 1.21 0.88 0.78
        3.69 2.40 1.60 1.33 1.32 1.23 1.14 1.31 1.17 1.35 1.34 1.46 1.60 1.32 1.28 1.41
    """,
    "B": """
        4.06 3.03 1.50 0.89 0.67 0.53 0.39 0.29 0.22 0.19 0.13 0.11 0.09 0.09 0.09 0.08
        3.65 2.19 1.31 1.24 1.28 1.51 1.79 2.05 2.26 2.45 2.59 2.76 2.86 2.94 3.02 3.04
    """,
    "C": """
        4.09 6.17 5.53 4.82 4.29 4.24 3.70 3.79 3.66 3.58 3.75 3.64 3.58 3.31 3.22 3.17
        6.29 5.11 5.16 4.10 4.06 3.93 3.66 3.89 3.57 3.69 3.62 3.67 3.46 3.18 3.13 3.04
    """,
    "D": """
        4.08 3.15 1.79 1.14 0.98 0.90 0.82 0.77 0.68 0.55 0.49 0.39 0.33 0.32 0.30 0.29
        3.68 2.24 1.24 0.99 0.97 0.90 0.78 0.69 0.59 0.49 0.43 0.37 0.32 0.29 0.26 0.27
    """,
    "E": """
        4.09 3.32 2.17 1.42 1.34 1.50 1.75 3.29 3.02 4.07 3.91 5.43 5.32 6.42 6.65 8.43
        3.74 2.57 1.60 1.30 1.43 1.77 1.94 2.41 3.93 4.00 5.16 4.94 5.79 6.94 7.69 8.78
    """,
    "F": """
        4.08 3.16 1.79 1.16 1.02 0.98 0.95 0.95 1.19 2.70 4.37 5.14 5.62 5.70 5.78 5.95
        3.68 2.25 1.25 1.03 1.01 1.00 0.94 0.92 1.97 3.73 4.75 5.31 5.58 5.69 5.69 5.65
    """,
}
#: The losses of each run, and what went wrong in it.
CURVES = {
    run: {
        kind: [float(loss) for loss in line.split()]
        for kind, line in zip(
            ["training", "held-out"], lines.strip().split("\n"), strict=True
        )
    }
    for run, lines in _LOSSES.items()
}
CAUSES = {
    "A": "sorted texts",
    "B": "few texts",
    "C": "high rate",
    "D": "leak",
    "E": "no zero_grad",
    "F": "wild batch",
}
