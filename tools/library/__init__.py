"""The library's names: which documentation they lead to, which chapter shows them."""
