"""What a layer says of itself: the width of its input, and what it drops."""

from torch import nn

_WIDTHS = "d_model", "embed_dim", "hidden_size", "dim", "n_embd", "embed_dim"


def raise_dropout(layer: nn.Module) -> None:
    """Lets dropout that is 0 drop something: else nobody sees where it stands."""
    for part in layer.modules():
        if isinstance(part, nn.Dropout) and part.p == 0:
            part.p = 0.25
        for name in ("dropout", "dropout_p", "attention_dropout", "attn_dropout"):
            value = getattr(part, name, None)
            if isinstance(value, float) and value == 0:
                setattr(part, name, 0.25)


def width_of(layer: nn.Module) -> int:
    """Gives the width of the input that a layer takes, by its names or weights."""
    for owner in (layer, getattr(layer, "config", None)):
        for name in _WIDTHS:
            if isinstance(value := getattr(owner, name, None), int):
                return value
    for part in layer.modules():
        if isinstance(part, nn.Linear):
            return part.in_features
    for name, parameter in layer.named_parameters():
        if parameter.ndim == 2:
            return parameter.shape[0 if name.endswith("T") else -1]
    raise TypeError("the width of the layer's input is not known: give d_model")
