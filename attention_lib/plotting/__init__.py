"""The book's figures: weights, masks, matrices and cells, curves and bars.

Every function returns a ``BookFigure``, which notebooks show as the last line of a
cell. In a notebook a figure has a light background; on the site it is a drawing in the
page's colours. Arrays may come from NumPy or torch, from any device.
"""

from attention_lib.plotting._figure import BookFigure
from attention_lib.plotting.cells import show_cells
from attention_lib.plotting.charts import show_bars, show_curves, show_panels
from attention_lib.plotting.maps import show_masks, show_weights
from attention_lib.plotting.matrices import show_matrices

__all__ = [
    "BookFigure",
    "show_bars",
    "show_cells",
    "show_curves",
    "show_masks",
    "show_matrices",
    "show_panels",
    "show_weights",
]
