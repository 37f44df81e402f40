// Leads the picture to each moment, and reads the numbers of its chosen step there.
async (moments) => {
  const found = [];
  for (const moment of moments) {
    const led = new Promise((done) => addEventListener("hashchange", done, {once: true}));
    location.hash = moment;
    await led;
    const rows = document.querySelectorAll(".pipe-numbers tbody tr");
    found.push([...rows].map((row) => [...row.querySelectorAll("td")].map((cell) =>
      Number(cell.textContent.replace("−∞", "-Infinity").replace("−", "-")))));
  }
  return found;
}
