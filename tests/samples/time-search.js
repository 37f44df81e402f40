// What is found for a query, laid out.
(query) => {
    const field = document.querySelector("#pst-search-dialog input");
    field.value = query;
    field.dispatchEvent(new InputEvent("input"));
    document.querySelector("#pst-search-dialog [role=option]").getBoundingClientRect();
}
