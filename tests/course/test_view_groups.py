"""The view of shared keys: what it sends and says, by mouse, finger and keys."""

from bs4 import BeautifulSoup

from attention_lib.course.views import view_groups
from tests.samples.views import GROUPS as VIEW
from tests.views import each_way, refusals, showing, slide

LLAMA = {"head_dim": 128, "num_layers": 32, "tokens": 8192}


def test_explore_groups_says_the_cache_of_llama_3_without_a_script():
    view = view_groups(32, **LLAMA)
    table = BeautifulSoup(view.static, "html.parser").table
    rows = [[cell.text for cell in row.select("th, td")] for row in table.select("tr")]
    assert [row[0] for row in rows[1:]] == [
        *(f"{shared} KV heads" for shared in (32, 16, 8, 4, 2)),
        "1 KV head",
    ]
    name = "grouped queries"
    assert rows[1][1:] == ["multi-head attention", "1", "512 KiB", "4 GiB"]
    assert rows[3] == ["8 KV heads", name, "4", "128 KiB", "1 GiB"]
    assert rows[6][1:] == ["multi-query attention", "32", "16 KiB", "128 MiB"]
    assert view.data["choices"] == [32, 16, 8, 4, 2, 1]


test_explore_groups_refuses = refusals(
    view_groups,
    {"num_heads": 4, **LLAMA},
    ({"num_heads": 1}, ValueError, "num_heads must be 2 to 32; got 1"),
    ({"num_heads": 33}, ValueError, "num_heads must be 2 to 32; got 33"),
    ({"tokens": 0}, ValueError, "tokens must be at least 1; got 0"),
    ({"head_dim": 2.5}, TypeError, "head_dim must be an int; got 2.5"),
)


@each_way
def test_groups_show_who_shares_for_every_number_of_heads(browser, by):
    with showing(browser, VIEW, by=by) as (page, view):
        slider = view.get_by_role("slider", name="KV heads")
        for at, shared in enumerate([12, 6, 4, 3, 2, 1]):
            slide(slider, at, by)
            frames = [
                [button.inner_text() for button in frame.get_by_role("button").all()]
                for frame in view.locator(".groups-one").all()
            ]
            size = 12 // shared
            whole = [min(size, 8 - head) for head in range(0, 8, size)]
            assert [len(frame) for frame in frames] == whole  # 8 of the 12 are drawn
            flat = [query for frame in frames for query in frame]
            assert flat == [str(query) for query in range(8)]
            tops = {it.bounding_box()["y"] for it in view.locator(".groups-one").all()}
            assert len(tops) == 1
            said = view.locator("[aria-live=polite]").first.inner_text()
            assert f"{shared * 64} bytes per token" in said
            button = view.get_by_role("button", name="query head 7", exact=True)
            if by == "keys":
                view.get_by_role("button", name="query head 6", exact=True).focus()
                page.keyboard.press("ArrowRight")
            else:
                button.tap() if by == "finger" else button.click()
            assert button.get_attribute("aria-pressed") == "true"
            own = 7 * shared // 12
            said = view.locator("[aria-live=polite]").last
            assert f"reads head {own} " in said.inner_text()
            here = view.locator(".groups-one").nth(own)
            assert "groups-here" in here.get_attribute("class")
            if by != "keys":
                button.click()  # and let go
