() => {
    const frame = ".bd-sidebar a, .bd-header-article :is(a, button), .skip-link a";
    const look = (it) => {
        const { outlineStyle, boxShadow } = getComputedStyle(it);
        return `${outlineStyle} ${boxShadow}`;
    };
    const unseen = [...document.querySelectorAll(frame)].filter((it) => {
        document.activeElement.blur();
        const before = look(it);
        it.focus();
        return document.activeElement === it && look(it) === before;
    });
    return unseen.map((it) => it.textContent.trim() || it.className);
}
