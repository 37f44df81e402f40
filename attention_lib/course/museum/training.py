"""Bugs in losses and training steps."""

from attention_lib.course.museum.bug import Bug

LEARNING_BUGS = (
    Bug(
        "shifted twice",
        "loss",
        """\
def loss(logits, token_ids, lengths):
    places = torch.arange(token_ids.shape[1])
    targets = token_ids.masked_fill(places >= lengths[:, None], -100)
    targets = F.pad(targets[:, 1:], (0, 1), value=-100)  # the data set shifts,
    targets = F.pad(targets[:, 1:], (0, 1), value=-100)  # and the model again
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())
""",
        (
            (
                "targets = F.pad(targets[:, 1:], (0, 1), value=-100)  # and",
                "pass  # not",
            ),
        ),
        "The loss stays higher than it should, and the text skips every second word.",
        ("targets",),
        "huggingface/transformers#46895",
        ("loss stays too high", "good loss, poor text"),
        "The model learns the word after the next one.",
    ),
    Bug(
        "never shifted",
        "loss",
        """\
def loss(logits, token_ids, lengths):
    targets = token_ids
    real = torch.arange(targets.shape[1]) < lengths[:, None]
    targets = targets.masked_fill(~real, -100)
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())
""",
        (
            ("targets = token_ids\n", "targets = F.pad(token_ids[:, 1:], (0, 1))\n"),
            ("lengths[:, None]", "lengths[:, None] - 1"),
        ),
        "The loss goes to 0 within minutes. The model repeats its last word for ever.",
        ("targets",),
        "huggingface/transformers#3711",
        ("loss falls too fast", "good loss, poor text"),
        "Each token is its own target: copying is enough.",
    ),
    Bug(
        "padding in the loss",
        "loss",
        """\
def loss(logits, token_ids, lengths):
    targets = F.pad(token_ids[:, 1:], (0, 1), value=-100)
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())
""",
        (
            (
                "targets = F.pad(token_ids[:, 1:], (0, 1), value=-100)",
                "places = torch.arange(1, token_ids.shape[1] + 1)\n"
                "    targets = F.pad(token_ids[:, 1:], (0, 1))\n"
                "    targets = targets.masked_fill(places >= lengths[:, None], -100)",
            ),
        ),
        "The loss falls fast, and faster with more padding: that is easy to predict.",
        ("padding in the loss", "targets"),
        "saahiluppal/catr#12",
        ("loss falls too fast", "answer depends on the batch"),
        "Targets that are padding count like words.",
    ),
    Bug(
        "the end is taken for padding",
        "loss",
        """\
def loss(logits, token_ids, lengths):
    targets = F.pad(token_ids[:, 1:], (0, 1))
    real = targets != 0  # token 0 ends a text, and fills it up
    targets = targets.masked_fill(~real, -100)
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())
""",
        (
            (
                "targets != 0",
                "torch.arange(1, targets.shape[1] + 1) < lengths[:, None]",
            ),
        ),
        "The model never stops writing.",
        ("targets",),
        "mlabonne/llm-course#33",
        ("good loss, poor text",),
        "Padding is recognised by its token. Where the end has the same token, the "
        "model never learns to end.",
    ),
    Bug(
        "softmax twice",
        "loss",
        """\
def loss(logits, token_ids, lengths):
    targets = F.pad(token_ids[:, 1:], (0, 1))
    places = torch.arange(1, targets.shape[1] + 1)
    targets = targets.masked_fill(places >= lengths[:, None], -100)
    scores = logits.softmax(dim=-1)
    return F.cross_entropy(scores.flatten(0, 1), targets.flatten())
""",
        (("logits.softmax(dim=-1)", "logits"),),
        "The loss falls a little and then not at all: it cannot come near 0.",
        ("targets",),
        "ariecattan/SciCo#2",
        ("loss stays too high",),
        "`cross_entropy` takes the softmax itself. Of probabilities, the best one is "
        "never more than e times as likely as the others.",
    ),
    Bug(
        "means of pieces are averaged",
        "pieces",
        """\
def train(model, optimizer, loss_sum, pieces):
    optimizer.zero_grad()
    for inputs, targets in pieces:  # of different sizes
        loss = loss_sum(model, inputs, targets) / len(targets)
        (loss / len(pieces)).backward()
    optimizer.step()
""",
        (
            ("/ len(targets)", "/ sum(len(own) for _, own in pieces)"),
            ("(loss / len(pieces)).backward()", "loss.backward()"),
        ),
        "With small batches whose gradients are added up, the loss differs from that "
        "of one large batch.",
        ("pieces",),
        "huggingface/transformers#24725",
        ("loss stays too high", "answer depends on the batch"),
        "Tokens of a short piece count more than those of a long one.",
    ),
    Bug(
        "gradients are never cleared",
        "train",
        """\
def train(model, optimizer, loss_of, batches):
    for batch in batches:
        loss = loss_of(model, batch)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
""",
        (
            (
                "        loss.backward()",
                "        optimizer.zero_grad()\n        loss.backward()",
            ),
        ),
        "The first step is right. Then the weights run past their goal, and back.",
        ("steps",),
        "IDEA-Research/DN-DETR#19",
        ("loss stays too high",),
        "`backward` adds to the gradients that are there.",
    ),
    Bug(
        "clipped after the step",
        "train",
        """\
def train(model, optimizer, loss_of, batches):
    for batch in batches:
        optimizer.zero_grad()
        loss_of(model, batch).backward()
        optimizer.step()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
""",
        (
            ("        optimizer.step()\n        nn.utils", "        nn.utils"),
            ("parameters(), 1.0)\n", "parameters(), 1.0)\n        optimizer.step()\n"),
        ),
        "Whatever is set as the largest gradient, nothing changes; one bad batch "
        "destroys the model.",
        ("clipping",),
        "awslabs/graphstorm#1382",
        ("nan after some steps",),
        "The optimizer has used the gradient already.",
    ),
    Bug(
        "clipped before the gradient exists",
        "train",
        """\
def train(model, optimizer, loss_of, batches):
    for batch in batches:
        loss = loss_of(model, batch)
        optimizer.zero_grad()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        loss.backward()
        optimizer.step()
""",
        (
            ("        nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n", ""),
            (
                "loss.backward()\n",
                "loss.backward()\n"
                "        nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n",
            ),
        ),
        "Gradients are clipped, and one bad batch still destroys the model.",
        ("clipping",),
        "Cranial-XIX/FAMO#4",
        ("nan after some steps",),
        "There is no gradient to clip before `backward`.",
    ),
    Bug(
        "never back in training mode",
        "measure",
        """\
def measure(model, loss_of, batches):
    model.eval()
    with torch.no_grad():
        total = sum(loss_of(model, batch) * len(batch) for batch in batches)
    return total / sum(len(batch) for batch in batches)
""",
        (
            (
                "    return total / sum",
                "    model.train()\n    return total / sum",
            ),
        ),
        "From the first evaluation on, the model overfits: dropout is off.",
        ("mode",),
        "tk-rusch/coRNN#1",
        ("good loss, poor text",),
        "`eval` stays in force until somebody calls `train`.",
    ),
    Bug(
        "measured with dropout",
        "measure",
        """\
def measure(model, loss_of, batches):
    with torch.no_grad():
        total = sum(loss_of(model, batch) * len(batch) for batch in batches)
    model.train()
    return total / sum(len(batch) for batch in batches)
""",
        (("    with torch.no_grad():", "    model.eval()\n    with torch.no_grad():"),),
        "The same model has a different loss at each evaluation, and a worse one than "
        "it could.",
        ("measured twice",),
        "udacity/deep-learning-v2-pytorch#3",
        ("same text, different answer", "loss stays too high"),
        "`no_grad` saves memory. It does not switch dropout off.",
    ),
)
