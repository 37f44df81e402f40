"""What the course says to readers, in their language: the library's own."""

from typing import TYPE_CHECKING

from tools.alone import alone

if TYPE_CHECKING:
    from attention_lib.course import language
else:
    language = alone("course/language.py")

__all__ = ["language"]
