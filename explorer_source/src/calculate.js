// The value of a number or a calculation as a reader types it: no `eval`, a parser of
// its own. What cannot be read throws; 1/0 and the like give what is not finite.

const NUMBER = "\\d{1,3}(?:[,'_ \\u00a0\\u2009\\u202f]\\d{3})+(?!\\d)(?:\\.\\d*)?|(?:\\d+\\.?\\d*|\\.\\d+)(?:e[+-]?\\d+)?";
const TOKEN = new RegExp(`^(?:${NUMBER}|(?:ln|log|sqrt)(?!\\w)|√|\\*\\*|[-+*/()%])`, "i");
const SIGNS = { "×": "*", "·": "*", "÷": "/", "^": "**" };

export function calculate(text) {
  const tokens = [];
  let rest = text.replace(/[×·÷^]/g, (sign) => SIGNS[sign]).trim();
  while (rest) {
    const [token] = TOKEN.exec(rest) ?? [];
    if (!token || tokens.length > 99) throw new SyntaxError();
    tokens.push(token.toLowerCase());
    rest = rest.slice(token.length).trim();
  }

  let at = 0;
  const take = (...signs) => signs.includes(tokens[at]) && tokens[at++];
  const sum = () => {
    let value = product();
    for (let sign; (sign = take("+", "-")); ) value += sign === "+" ? product() : -product();
    return value;
  };
  const product = () => {
    let value = signed();
    for (let sign; (sign = take("*", "/")); ) value = sign === "*" ? value * signed() : value / signed();
    return value;
  };
  const signed = () => (take("-") ? -signed() : take("+") ? signed() : power());
  const power = () => {
    let value = atom();
    if (take("%")) value /= 100;
    return take("**") ? value ** signed() : value;
  };
  const atom = () => {
    const name = take("ln", "log", "sqrt", "√");
    // ln(2)**3 is (ln 2)**3, but ln 2**3 is ln 8.
    if (name) return (name[0] === "l" ? Math.log : Math.sqrt)(tokens[at] === "(" ? atom() : power());
    const inner = take("(") && [sum()];
    const value = inner ? inner[0] : Number(tokens[at++]?.replace(/[^\d.e+-]/g, "") || NaN);
    if (inner ? !take(")") : Number.isNaN(value)) throw new SyntaxError();
    return value;
  };
  const value = sum();
  if (at < tokens.length) throw new SyntaxError();
  return value;
}
