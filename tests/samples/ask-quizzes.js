() => [...document.querySelectorAll(".quiz")].map((quiz) => {
    const inputs = [...quiz.querySelectorAll("input")];
    const answers = [...quiz.querySelectorAll(":scope > details li")];
    const right = answers.map((answer) => answer.dataset.right === "true");
    const told = [];
    const answer = (chosen) => {
        let is = null;
        const hear = (event) => { is = event.detail.right; };
        quiz.addEventListener("attention-answered", hear);
        inputs.forEach((input, n) => { input.checked = chosen[n]; });
        quiz.querySelector("form").requestSubmit();
        quiz.removeEventListener("attention-answered", hear);
        return [is, quiz.querySelector(".quiz-verdict").textContent.length > 20];
    };
    inputs.forEach((_, one) => told.push(answer(inputs.map((_, n) => n === one))));
    const only = right.filter(Boolean).length === 1;
    const wanted = right.map((it) => [it && only, true]);
    const all = answer(right);
    return [quiz.id, JSON.stringify(told) === JSON.stringify(wanted), all[0]];
})
