"""Every page of the built site on a phone, light and dark."""

import pytest

from tests.browsing import LOGGED, PHONE, SHOWN, Faults, visit_all


@pytest.fixture(scope="module")
def found() -> dict[str, Faults]:
    return visit_all(PHONE)


@pytest.mark.parametrize("fault", LOGGED + SHOWN)
def test_pages_on_phone_have_no_fault(found: dict[str, Faults], fault: str) -> None:
    lines = [f"{page}: {text}" for page in found for text in found[page][fault]]
    assert not lines, "\n".join(sorted(set(lines)))
