// Notes what hears taps, before a page's own scripts; `cramped` names what a finger may miss:
// what is below 24 by 24 pixels, and has not as much room around its middle (WCAG 2.5.8).
(() => {
    const SIZE = 23.99; // rounding
    const FOUND = "a[href], button, input, select, summary, [tabindex]";
    const heard = new Set();
    const listen = EventTarget.prototype.addEventListener;
    EventTarget.prototype.addEventListener = function (kind, ...rest) {
        if (/^(click|pointer(down|up))$/.test(kind) && this instanceof Element) heard.add(this);
        return listen.call(this, kind, ...rest);
    };
    // A link in a sentence is as high as its line.
    const inline = (e) => e.matches("p a") && e.textContent !== e.closest("p").textContent;
    const boxOf = (e) => {
        const own = [e, ...(e.matches("a, label") ? e.children : [])].filter((part) => !part.matches("input"));
        const boxes = (own.length ? own : [e]).map((part) => part.getBoundingClientRect());
        const far = (side, of) => of(...boxes.map((box) => box[side]));
        return { e, left: far("left", Math.min), right: far("right", Math.max), top: far("top", Math.min), bottom: far("bottom", Math.max) };
    };
    const small = ({ left, right, top, bottom }) => Math.min(right - left, bottom - top) < SIZE;
    const middle = ({ left, right, top, bottom }) => [(left + right) / 2, (top + bottom) / 2];
    const meets = (one, other) => {
        const [x, y] = middle(one), [u, v] = middle(other);
        if (small(other)) return Math.hypot(x - u, y - v) < SIZE;
        const across = Math.max(other.left - x, x - other.right, 0), down = Math.max(other.top - y, y - other.bottom, 0);
        return Math.hypot(across, down) < SIZE / 2;
    };
    globalThis.cramped = () => {
        const found = [...document.querySelectorAll(".attention-live *")]
            .filter((e) => (e.matches(FOUND) || heard.has(e)) && !e.matches(":disabled") && !inline(e))
            .map((e) => (e.matches("[type=radio], [type=checkbox]") ? e.closest("label") ?? e : e));
        const all = [...new Set(found)].map(boxOf).filter((it) => it.right - it.left > 1);
        const apart = (one, other) => !one.e.contains(other.e) && !other.e.contains(one.e);
        return all.filter((one) => small(one) && all.some((other) => apart(one, other) && meets(one, other)))
            .map(({ e, left, right, top, bottom }) => `${Math.round(right - left)} by ${Math.round(bottom - top)}: ${e.outerHTML.slice(0, 80)}`);
    };
})();
