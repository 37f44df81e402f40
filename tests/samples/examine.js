async ([where, rules]) => {
    // It would fetch style sheets again, and look for imported ones in the wrong place.
    const asked = {...rules, resultTypes: ["violations"], preload: false};
    const parts = where ? { include: where } : document;
    const found = (await axe.run(parts, asked)).violations;
    return found.flatMap((rule) => rule.nodes.map(
        (node) => `${rule.id}: ${node.target.join(" ")}: ${node.html.slice(0, 160)}`
    ));
}
