() => {
    const formulas = [...document.querySelectorAll(".bd-article span.math")];
    const followed = formulas.filter((formula) =>
        /^[.,;:!?)]/.test(formula.nextSibling?.data ?? ""));
    const apart = followed.filter((formula) => {
        const range = document.createRange();
        range.setStart(formula.nextSibling, 0);
        range.setEnd(formula.nextSibling, 1);
        const box = [...formula.querySelectorAll(".katex-base")].pop();
        const [sign, last] = [range, box].map((e) => e.getBoundingClientRect());
        return sign.width && sign.left < last.left;
    });
    return [followed.length, apart.map((formula) => formula.textContent)];
}
