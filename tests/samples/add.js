(html) => {
    const output = document.createElement("div");
    output.innerHTML = html;
    for (const script of output.querySelectorAll("script")) {
        const copy = document.createElement("script");
        for (const { name, value } of script.attributes) copy.setAttribute(name, value);
        copy.textContent = script.textContent;
        script.replaceWith(copy);
    }
    document.querySelector("main").append(output);
}
