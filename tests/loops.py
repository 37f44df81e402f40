"""What the library computes at once, computed number by number."""

import math

import torch


def positions_by_loops(length, d_model):
    """Section 3.5 of Vaswani et al. (2017), number by number."""
    table = torch.empty(length, d_model, dtype=torch.float64)
    for place in range(length):
        for column in range(d_model):
            angle = place / 10_000 ** (2 * (column // 2) / d_model)
            wave = math.sin if column % 2 == 0 else math.cos
            table[place, column] = wave(angle)
    return table


def loss_by_loops(logits, token_ids, lengths):
    losses = []
    for row, text, length in zip(logits, token_ids, lengths, strict=True):
        for place in range(1, int(length)):
            exps = row[place - 1].exp()
            losses.append(-(exps[text[place]] / exps.sum()).log())
    return torch.stack(losses).mean()
