"""Views of attention that the reader can touch: the same in the site and in notebooks.

Numbers come from Python; the page only shows them, or computes them again where the
reader changes something. Every view has a static part that needs no script.
"""

from attention_lib.explorer._interactive import Interactive
from attention_lib.explorer.align import explore_alignment
from attention_lib.explorer.cache import explore_cache
from attention_lib.explorer.costs import explore_costs
from attention_lib.explorer.flash import explore_flash
from attention_lib.explorer.graph import explore_graph
from attention_lib.explorer.groups import explore_groups
from attention_lib.explorer.growth import explore_growth
from attention_lib.explorer.kernels import explore_kernels
from attention_lib.explorer.latent import explore_latent
from attention_lib.explorer.mask import explore_mask
from attention_lib.explorer.museum import explore_museum
from attention_lib.explorer.pages import explore_pages
from attention_lib.explorer.reach import explore_reach
from attention_lib.explorer.ring import explore_ring
from attention_lib.explorer.rope import explore_rope
from attention_lib.explorer.split import explore_split
from attention_lib.explorer.vectors import explore_vectors
from attention_lib.explorer.weights import explore_weights

__all__ = [
    "Interactive",
    "explore_alignment",
    "explore_cache",
    "explore_costs",
    "explore_flash",
    "explore_graph",
    "explore_groups",
    "explore_growth",
    "explore_kernels",
    "explore_latent",
    "explore_mask",
    "explore_museum",
    "explore_pages",
    "explore_reach",
    "explore_ring",
    "explore_rope",
    "explore_split",
    "explore_vectors",
    "explore_weights",
]
