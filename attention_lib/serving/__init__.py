"""Serve many texts at once: pages of keys and values, batches, and guesses.

Each text is the one that the model writes alone.
"""

from attention_lib.serving.paged_cache import (
    PagedCache,
    PagedLayer,
    PagePool,
    page_hash,
    pages_for,
)
from attention_lib.serving.server import (
    Request,
    Server,
)
from attention_lib.serving.speculative import (
    DraftStats,
    model_draft,
    ngram_draft,
    speculative_generate,
)

__all__ = [
    "DraftStats",
    "PagePool",
    "PagedCache",
    "PagedLayer",
    "Request",
    "Server",
    "model_draft",
    "ngram_draft",
    "page_hash",
    "pages_for",
    "speculative_generate",
]
