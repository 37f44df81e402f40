"""Interactive views of attention: the same on the site and in notebooks.

Numbers come from Python; the page only shows them, or recomputes them when the reader
changes something. Every view has a static part that needs no script.
"""

from attention_lib.course.views._interactive import Interactive
from attention_lib.course.views.ablation import view_ablation
from attention_lib.course.views.align import view_alignment
from attention_lib.course.views.cache import view_cache
from attention_lib.course.views.costs import view_costs
from attention_lib.course.views.flash import view_flash
from attention_lib.course.views.groups import view_groups
from attention_lib.course.views.growth import view_growth
from attention_lib.course.views.kernels import view_kernels
from attention_lib.course.views.latent import view_latent
from attention_lib.course.views.mask import view_mask
from attention_lib.course.views.museum import view_museum
from attention_lib.course.views.pages import view_pages
from attention_lib.course.views.reach import view_reach
from attention_lib.course.views.ring import view_ring
from attention_lib.course.views.rope import view_rope
from attention_lib.course.views.sinks import view_sinks
from attention_lib.course.views.split import view_split
from attention_lib.course.views.vectors import view_vectors
from attention_lib.course.views.weights import view_weights

__all__ = [
    "Interactive",
    "view_ablation",
    "view_alignment",
    "view_cache",
    "view_costs",
    "view_flash",
    "view_groups",
    "view_growth",
    "view_kernels",
    "view_latent",
    "view_mask",
    "view_museum",
    "view_pages",
    "view_reach",
    "view_ring",
    "view_rope",
    "view_sinks",
    "view_split",
    "view_vectors",
    "view_weights",
]
