async (rules) => {
    const picked = (part) => `${part}[data-pick], [data-pick] ${part || "*"}`;
    axe.configure({ rules: [
        { id: "color-contrast", selector: picked("") },
        { id: "link-in-text-block", selector: picked("a[href]") },
    ] });
    // It would fetch style sheets again, and look for imported ones in the wrong place.
    const asked = { runOnly: rules, resultTypes: ["violations"], preload: false };
    const found = (await axe.run(document, asked)).violations;
    return found.flatMap((rule) => rule.nodes.map(
        (node) => `${rule.id}: ${node.target.join(" ")}: ${node.html.slice(0, 160)}`
    ));
}
