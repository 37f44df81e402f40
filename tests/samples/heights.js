// Uses what a view offers, each kind of control in turn and by chance, and gives each height
// that the view has, with what led there.
async (live) => {
    const rest = () => new Promise((done) => setTimeout(() => setTimeout(done)));
    let seed = 1;
    const one = (list) => list[(seed = (seed * 48271) % 2147483647) % list.length];
    const set = (e, value) => {
        Object.getOwnPropertyDescriptor(e.constructor.prototype, "value").set.call(e, value);
        e.dispatchEvent(new Event(e.matches("select") ? "change" : "input", { bubbles: true }));
    };
    const KINDS = ["[type=range]", "select", "[type=radio], [type=checkbox]", "button", "td"];
    const heights = {};
    const note = (led) => (heights[Math.round(live.getBoundingClientRect().height)] ??= led);
    note("start");
    for (let n = 0; n < 100; n++) {
        const kinds = KINDS.map((kind) => [...live.querySelectorAll(kind)].filter((e) => !e.disabled && e.checkVisibility({ visibilityProperty: true })));
        const e = one(one(kinds.filter((kind) => kind.length)));
        const steps = (e.max - e.min) / (e.step || 1);
        if (e.type === "range") set(e, +e.min + (e.step || 1) * one([...Array(Math.round(steps) + 1).keys()]));
        else if (e.matches("select")) set(e, one([...e.options]).value);
        else {
            e.focus({ preventScroll: true });
            e.click();
        }
        await rest();
        note(`${n}: ${e.ariaLabel ?? e.className} ${e.textContent.slice(0, 30)} ${e.value ?? ""}`);
    }
    return heights;
}
