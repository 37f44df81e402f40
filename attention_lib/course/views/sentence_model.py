"""A small block trained to find words in short sentences: the pipeline's model.

It is trained in the cell that needs it, in two seconds, the same in every chapter. Head
1 has to name the word that each word belongs to, head 2 the word before; the loss does
not say where to attend. Half of the steps hide the future.
"""

import itertools

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attention_lib.attention import scaled_dot_product_attention
from attention_lib.block import TinyBlock
from attention_lib.masks import causal_mask
from attention_lib.multi_head import MultiHeadAttention, split_heads
from attention_lib.reproducibility import seeded

NOUNS = ("cat", "dog", "child", "robot")
VERBS = ("slept", "fell", "ran", "stopped")
STATES = ("tired", "hungry", "ill", "cold")
WORDS = ("the", *NOUNS, *VERBS, "because", "it", "was", *STATES, "pad")
# Each kind of sentence, and for each of its words the position of the related one.
KINDS = (
    ("the {0} {1} because it was {2}", (1, 1, 1, 6, 1, 6, 1)),
    ("because it was {2} the {0} {1}", (3, 5, 3, 5, 5, 5, 5)),
    ("the {0} was {2} because it {1}", (1, 1, 3, 1, 6, 1, 1)),
)
MAX_WORDS, WIDTH, HEADS = 8, 8, 2
STEPS, BATCH = 300, 32
SMALL = 0.002  # penalty on squared scores, which keeps the weights soft


class SentenceModel(nn.Module):
    """Embedding, positions and one pre-norm block of two heads, in float64.

    Its norms have no learned scale, and all its numbers have two decimals, so a page
    can show them exactly.
    """

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(len(WORDS), WIDTH)
        self.positions = nn.Embedding(MAX_WORDS, WIDTH)
        self.block = TinyBlock(WIDTH, HEADS, norm="pre")
        self.double()

    @property
    def attention(self) -> MultiHeadAttention:
        """Return the layer of the two heads."""
        layer = self.block.attention
        assert isinstance(layer, MultiHeadAttention)
        return layer

    def stream(self, token_ids: Tensor) -> Tensor:
        """Return word plus position embeddings, (B, T, M)."""
        return self.embedding(token_ids) + self.positions.weight[: token_ids.shape[1]]

    def encode(self, sentence: str) -> Tensor:
        """Return the ids of a sentence's words, (1, T).

        Raises:
            ValueError: an unknown word; no words, or too many.
        """
        words = sentence.split()
        if unknown := [word for word in words if word not in WORDS]:
            raise ValueError(f"sentence has unknown words: {', '.join(unknown)}")
        if not 0 < len(words) <= MAX_WORDS:
            raise ValueError(
                f"sentence must have 1 to {MAX_WORDS} words; got {len(words)}"
            )
        device = self.embedding.weight.device
        return torch.tensor([[WORDS.index(word) for word in words]], device=device)

    def forward(self, token_ids: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return the stream after the block."""
        return self.block(self.stream(token_ids), mask)


def train_sentence_model(seed: int = 2) -> SentenceModel:
    """Train both heads and the block, and round every number to two decimals."""
    usual = torch.get_default_dtype()
    try:
        # With a different type set by a chapter, the layers would draw other numbers.
        torch.set_default_dtype(torch.float32)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model = SentenceModel()
            # Each head predicts its word from its output, and the block predicts both.
            widths = (WIDTH // HEADS, WIDTH // HEADS, WIDTH, WIDTH)
            read = nn.ModuleList(nn.Linear(width, len(WORDS)) for width in widths)
    finally:
        torch.set_default_dtype(usual)
    read.double()
    generator = seeded(seed)
    for table in (model.embedding, model.positions):
        nn.init.normal_(table.weight, std=0.5, generator=generator)
    named = [*model.named_parameters(), *read.named_parameters()]
    chosen = [parameter for name, parameter in named if "norm" not in name]
    optimizer = torch.optim.AdamW(chosen, lr=0.02, weight_decay=0.1)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
    texts, aims = _sentences()
    mask = causal_mask(texts.shape[1])
    for step in range(STEPS):
        pick = torch.randint(len(texts), (BATCH,), generator=generator)
        mixed = torch.randint(len(WORDS) - 1, texts[pick].shape, generator=generator)
        hide = mask if step % 2 else None
        loss = _loss(model, read, texts[pick], aims[pick], mixed, hide)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(parameter.mul(100).round().div(100))
    return model.requires_grad_(False).eval()


def _sentences() -> tuple[Tensor, Tensor]:
    """Return all sentences (S, 7), and the positions of each word's target (S, 7)."""
    texts, aims = [], []
    for (kind, aim), words in itertools.product(
        KINDS, itertools.product(NOUNS, VERBS, STATES)
    ):
        texts.append([WORDS.index(word) for word in kind.format(*words).split()])
        aims.append(aim)
    return torch.tensor(texts), torch.tensor(aims)


def _loss(
    model: SentenceModel,
    read: nn.ModuleList,
    texts: Tensor,
    aims: Tensor,
    mixed: Tensor,
    hide: Tensor | None,
) -> Tensor:
    """Return the loss: sentences train head 1, words in any order head 2."""
    before = (torch.arange(texts.shape[1]) - 1).clamp(min=0)
    seen = torch.ones_like(aims, dtype=torch.bool)
    if hide is not None:
        seen = aims <= torch.arange(texts.shape[1])  # the target is visible
    loss = torch.zeros((), dtype=torch.float64)
    for head, ids, wanted, counts in [
        (0, texts, texts.gather(1, aims), seen),
        (1, mixed, mixed[:, before], torch.ones_like(seen)),
    ]:
        stream = model.stream(ids)
        x = model.block.attention_norm(stream)
        query, key, value = (
            split_heads(project(x), HEADS)
            for project in (
                model.attention.q_proj,
                model.attention.k_proj,
                model.attention.v_proj,
            )
        )
        mix = scaled_dot_product_attention(query, key, value, hide)  # (B, H, T, D)
        after = model.block(stream, hide)
        named = [read[head](mix[:, head]), read[2 + head](after)]
        targets = wanted[counts]
        loss = loss + sum(F.cross_entropy(name[counts], targets) for name in named)
        loss = loss + SMALL * (query @ key.mT).square().mean()
    return loss
