"""Bugs in generation: sampling, caches, padding and pages."""

from attention_lib.course.museum.bug import Bug

WRITING_BUGS = (
    Bug(
        "the cache of the last text",
        "write",
        """\
kept = []

def write(model, token_ids, count):
    cache = kept[0] if kept else model.new_cache(1, 60)
    kept[:] = [cache]  # made once, for speed
    for _ in range(count):
        unread = token_ids[:, -1:] if cache.length else token_ids
        best = model(unread, cache=cache)[:, -1:].argmax(dim=-1)
        token_ids = torch.cat([token_ids, best], dim=1)
    return token_ids
""",
        (
            (
                "kept[:] = [cache]  # made once, for speed",
                "kept[:] = [cache]\n    cache.crop(0)",
            ),
        ),
        "The first answer is right. The second one answers the first question, too.",
        ("written twice",),
        "casper-hansen/AutoAWQ#178",
        ("same text, different answer", "different text with the cache"),
        "Its memory may be reused. But the old text was not cleared.",
    ),
    Bug(
        "dropout during generation",
        "write",
        """\
def write(model, token_ids, count):
    model.train()  # as training left it
    for _ in range(count):
        best = model(token_ids)[:, -1:].argmax(dim=-1)
        token_ids = torch.cat([token_ids, best], dim=1)
    return token_ids
""",
        (("model.train()  # as training left it", "model.eval()"),),
        "The best token is taken at each step, and still the text differs each time.",
        ("written twice", "written in full"),
        "jadore801120/attention-is-all-you-need-pytorch#53",
        ("same text, different answer",),
        "A model is in training mode until `eval()` is called.",
        former="dropout while writing",
    ),
    Bug(
        "the prompt is read again",
        "write",
        """\
def write(model, token_ids, count):
    model.eval()
    cache = model.new_cache(1, 60)
    for step in range(count):
        unread = token_ids if step < 2 else token_ids[:, -1:]
        best = model(unread, cache=cache)[:, -1:].argmax(dim=-1)
        token_ids = torch.cat([token_ids, best], dim=1)
    return token_ids
""",
        (("step < 2", "step < 1"),),
        "The first new token is right, the others are not.",
        ("written in full",),
        "skyzh/tiny-llm#46",
        ("different text with the cache",),
        "Tokens that are already in the cache are passed to the model once more.",
    ),
    Bug(
        "left padding counts as positions",
        "ragged",
        """\
def write(model, token_ids, real, count):  # real: (B, T), padding on the left
    for _ in range(count):
        positions = torch.arange(token_ids.shape[1]).expand_as(token_ids)
        logits = model(token_ids, mask=real[:, None], positions=positions)
        best = logits[:, -1:].argmax(dim=-1)
        token_ids = torch.cat([token_ids, best], dim=1)
        real = F.pad(real, (0, 1), value=True)
    return token_ids
""",
        (
            (
                "torch.arange(token_ids.shape[1]).expand_as(token_ids)",
                "(real.cumsum(dim=1) - 1).clamp(min=0)",
            ),
        ),
        "Short prompts of a batch get worse answers than long ones.",
        ("alone",),
        "ndif-team/nnsight#673",
        ("answer depends on the batch",),
        "The first word of a padded text is at position 3 instead of 0.",
    ),
    Bug(
        "the attention mask is forgotten",
        "ragged",
        """\
def write(model, token_ids, real, count):  # real: (B, T), padding on the left
    for _ in range(count):
        positions = (real.cumsum(dim=1) - 1).clamp(min=0)
        logits = model(token_ids, positions=positions)
        best = logits[:, -1:].argmax(dim=-1)
        token_ids = torch.cat([token_ids, best], dim=1)
        real = F.pad(real, (0, 1), value=True)
    return token_ids
""",
        (("token_ids, positions", "token_ids, mask=real[:, None], positions"),),
        "Short prompts in a batch get different answers from the same prompts alone.",
        ("alone",),
        "huggingface/transformers#7745",
        ("answer depends on the batch",),
        "Every word attends to the padding before it.",
    ),
    Bug(
        "the token at the bound is dropped",
        "chances",
        """\
def chances(logits, temperature, top_k, top_p):
    ordered, order = (logits / temperature).softmax(dim=-1).sort(descending=True)
    keep = ordered.cumsum(dim=-1) <= top_p
    keep[0] = True
    keep[top_k:] = False
    kept = torch.zeros_like(ordered).scatter(0, order, ordered * keep)
    return kept / kept.sum()
""",
        (
            (
                "ordered.cumsum(dim=-1) <= top_p",
                "ordered.cumsum(dim=-1) - ordered < top_p",
            ),
        ),
        "Text is duller than with the same setting elsewhere.",
        ("top-p",),
        "rasbt/reasoning-from-scratch#164",
        ("good loss, poor text",),
        "The token that takes the sum over the bound belongs to the nucleus.",
    ),
    Bug(
        "one token more than top-k",
        "chances",
        """\
def chances(logits, temperature, top_k, top_p):
    ordered, order = (logits / temperature).softmax(dim=-1).sort(descending=True)
    keep = ordered.cumsum(dim=-1) - ordered < top_p
    keep[torch.arange(len(keep)) > top_k] = False
    kept = torch.zeros_like(ordered).scatter(0, order, ordered * keep)
    return kept / kept.sum()
""",
        (("> top_k", ">= top_k"),),
        "With `top_k=1` the text is not always the same.",
        ("top-k",),
        "kingoflolz/mesh-transformer-jax#164",
        ("same text, different answer",),
        "Ranks count from 0: the token of rank k is number k + 1.",
    ),
    Bug(
        "temperature twice",
        "chances",
        """\
def chances(logits, temperature, top_k, top_p):
    logits = logits / temperature
    ordered, order = (logits / temperature).softmax(dim=-1).sort(descending=True)
    keep = ordered.cumsum(dim=-1) - ordered < top_p
    keep[top_k:] = False
    kept = torch.zeros_like(ordered).scatter(0, order, ordered * keep)
    return kept / kept.sum()
""",
        (("logits = logits / temperature", "pass  # once, below"),),
        "At 1 all is well. At 0.7 the text is far too tame, at 1.5 far too wild.",
        ("temperature",),
        "RL-Align/RL-Kernel#81",
        ("good loss, poor text",),
        "The temperature divides twice: it acts as its square.",
    ),
    Bug(
        "a page without its past",
        "pages",
        """\
def names(tokens, page_len):
    found = []
    for start in range(0, len(tokens) - page_len + 1, page_len):
        page = tuple(tokens[start : start + page_len])
        found.append(hash(page))
    return found
""",
        (("hash(page)", "hash((found[-1] if found else None, page))"),),
        "Rarely, an answer belongs to a different person's question.",
        ("shared pages",),
        "vllm-project/aibrix#2329",
        ("same text, different answer", "answer depends on the batch"),
        "Keys and values depend on all earlier tokens, so a page's name must, too.",
    ),
)
