"""Where the documentation of others stands, by the full name of what it documents.

The rules follow the sources of each project's documentation. No inventory is fetched,
since the book is built without a network; `make links` visits every address.
"""

import builtins
import re

TORCH = "https://docs.pytorch.org/docs/stable"
NUMPY = "https://numpy.org/doc/stable/reference/generated"
PYTHON = "https://docs.python.org/3/library"
JAXTYPING = "https://docs.kidger.site/jaxtyping/api/array/"
MATPLOTLIB = "https://matplotlib.org/stable/api"

# What people write for what is meant.
SHORT = {"nn.": "torch.nn.", "F.": "torch.nn.functional.", "np.": "numpy."}
# What PyTorch describes on a page of several things.
SHARED = {
    "torch.Tensor": "tensors",
    "torch.device": "tensor_attributes",
    "torch.dtype": "tensor_attributes",
    "torch.finfo": "type_info",
    "torch.iinfo": "type_info",
    "torch.optim.Optimizer": "optim",
    "torch.utils.data.DataLoader": "data",
    "torch.utils.data.Dataset": "data",
}
# Modules of PyTorch have a page each, with a name of their own.
PAGES = {
    "torch.distributions": "distributions",
    "torch.nn": "nn",
    "torch.nn.functional": "nn.functional",
    "torch.nn.attention": "nn.attention",
    "torch.nn.attention.bias": "nn.attention.bias",
    "torch.optim": "optim",
    "torch.utils.data": "data",
}
DTYPES = {"bool", "float16", "bfloat16", "float32", "float64", "int64", "int32", "long"}
# A page each: functions of torch, classes of nn, functions of nn.functional, and so on.
OWN_PAGE = re.compile(
    r"torch\.(?:[a-z]\w*|Generator"
    r"|Tensor\.[a-z]\w*"
    r"|nn\.[A-Z]\w*|nn\.functional\.[a-z]\w*|nn\.attention\.\w+|nn\.attention\.bias\.\w+"
    r"|nn\.init\.[a-z]\w*|nn\.utils\.[a-z]\w*"
    r"|optim\.[A-Z]\w*|autograd\.(?:grad|backward)|linalg\.[a-z]\w*|cuda\.[a-z]\w*)"
)
MODULES = {"autograd", "cuda", "linalg", "nn", "optim", "utils"}
STANDARD = {
    "collections.abc",
    "dataclasses",
    "functools",
    "itertools",
    "math",
    "os",
    "pathlib",
    "random",
    "typing",
}
# The others stand among the functions: `int`, `float`, `bool`, `type`.
BASIC_TYPES = {"bytes", "dict", "frozenset", "list", "range", "set", "str", "tuple"}


def address_elsewhere(name: str) -> str | None:
    """Return where a name of PyTorch, NumPy, Python and so on is documented, or None.

    >>> address_elsewhere("nn.Linear")
    'https://docs.pytorch.org/docs/stable/generated/torch.nn.Linear.html'
    """
    for short, long in SHORT.items():
        if name.startswith(short):
            name = long + name.removeprefix(short)
    package = name.partition(".")[0]
    find = {
        "torch": _torch,
        "numpy": _numpy,
        "jaxtyping": lambda name: JAXTYPING,
        "matplotlib": _matplotlib,
    }.get(package, _python)
    return find(name)


def _torch(name: str) -> str | None:
    """A page of PyTorch."""
    rest = name.removeprefix("torch.")
    if name in PAGES:
        return f"{TORCH}/{PAGES[name]}.html"
    if name in SHARED:
        return f"{TORCH}/{SHARED[name]}.html#{name}"
    if rest in DTYPES:
        return f"{TORCH}/tensor_attributes.html#torch.dtype"
    if OWN_PAGE.fullmatch(name) and rest not in MODULES:
        return f"{TORCH}/generated/{name}.html"
    return None


def _numpy(name: str) -> str | None:
    """A page of NumPy: each function and class has one."""
    return f"{NUMPY}/{name}.html" if re.fullmatch(r"numpy\.\w+", name) else None


def _matplotlib(name: str) -> str | None:
    """A place on a page of Matplotlib, which has one for each module."""
    module = name.rpartition(".")[0]
    return f"{MATPLOTLIB}/{module.removeprefix('matplotlib.')}_api.html#{name}"


def _python(name: str) -> str | None:
    """A place in the documentation of Python's library."""
    if name in BASIC_TYPES or name == "None":
        page = "constants" if name == "None" else "stdtypes"
        return f"{PYTHON}/{page}.html#{name}"
    module, _, last = name.rpartition(".")
    if module in STANDARD and last:
        return f"{PYTHON}/{module}.html#{name}"
    kind = getattr(builtins, name, None)
    if isinstance(kind, type) and issubclass(kind, BaseException):
        return f"{PYTHON}/exceptions.html#{name}"
    return f"{PYTHON}/functions.html#{name}" if isinstance(kind, type) else None
