"""Which cells of a notebook some of its cells need: those that make what they use.

Read from the syntax alone. A cell that changes a value counts as one that makes it.
What reaches a cell unnamed, as the state of a random generator does, is not seen: a run
of these cells alone may fail where a run of all does not.
"""

import ast
import symtable
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple


class Names(NamedTuple):
    """What a cell does with the names that all cells share."""

    used: set[str]
    used_later: set[str]  # by its functions, when they are called
    made: set[str]
    changed: set[str]
    imported: set[str]


def needed(sources: Sequence[str], wanted: Iterable[int]) -> set[int]:
    """Return the wanted cells, by their numbers, and all that they need before them."""
    cells = [names(source) for source in sources]
    # A call such as torch.manual_seed(0) changes no name: modules are the same for all.
    imported = set[str]().union(*(cell.imported for cell in cells))
    cells = [cell._replace(changed=cell.changed - imported) for cell in cells]
    return set[int]().union(*(_needed(cells, number) for number in wanted))


def _needed(cells: Sequence[Names], end: int) -> set[int]:
    """Return one cell and all that it needs before it."""
    found: set[int] = set()
    todo = {end}
    while todo:
        number = todo.pop()
        found.add(number)
        cell = cells[number]
        for name in cell.used | cell.changed:
            todo |= _makers(name, cells[:number]) - found
        for name in cell.used_later:
            todo |= _makers(name, cells[: end + 1]) - found
    return found


def names(source: str) -> Names:
    """Return the names that a cell takes from others, and those that it gives them."""
    table = symtable.symtable(source, "a cell", "exec")
    symbols = table.get_symbols()
    made = {s.get_name() for s in symbols if s.is_assigned() or s.is_imported()}
    used = {s.get_name() for s in symbols if s.is_referenced()}
    later = {name for child in table.get_children() for name in _from_outside(child)}
    changed = {name for node in _run(ast.parse(source)) for name in _changed(node)}
    imported = {s.get_name() for s in symbols if s.is_imported()}
    return Names(used - made, later, made, changed, imported)


def _from_outside(table: symtable.SymbolTable) -> Iterator[str]:
    """Yield what a function or a class, and those in it, take from the cells."""
    yield from (s.get_name() for s in table.get_symbols() if s.is_global())
    for child in table.get_children():
        yield from _from_outside(child)


def _run(node: ast.AST) -> Iterator[ast.AST]:
    """Yield all of a syntax tree that runs when the cell does."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.FunctionDef | ast.ClassDef | ast.Lambda):
            yield child
            yield from _run(child)


def _changed(node: ast.AST) -> set[str]:
    """Return the name whose value a statement changes, if it does."""
    match node:
        case ast.AugAssign(target=target):
            return _root(target)
        case ast.Subscript(ctx=ast.Store()) | ast.Attribute(ctx=ast.Store()):
            return _root(node)
        case ast.Expr(value=ast.Call(func=ast.Attribute() as called)):
            return _root(called)
    return set()


def _root(node: ast.AST) -> set[str]:
    """Return the name that attributes, items and calls are taken from, if any."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return {node.id} if isinstance(node, ast.Name) else set()


def _makers(name: str, before: Sequence[Names]) -> set[int]:
    """Return the last cell that makes a name, and those that change it afterwards."""
    found = set[int]()
    for number in reversed(range(len(before))):
        if name in before[number].changed:
            found.add(number)
        if name in before[number].made:
            return found | {number}
    return found
