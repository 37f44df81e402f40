// Builds the programs in attention_lib/course/views: `npm ci && npm run build`. They are in
// the repository, so only someone who changes a view needs this. `runtime.js` is what all
// views share; each view has a small program of its own, which needs that one.
// `SHA256SUMS` names the sources and what was built from them: a test compares.
import { createHash } from "node:crypto";
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { build, transform } from "esbuild";

const target = "../attention_lib/course/views";
const sources = readdirSync("src");
// A view is a component with a style sheet: `growth.jsx` and `growth.css`.
const kinds = sources
  .filter((name) => name.endsWith(".jsx"))
  .map((name) => name.slice(0, -".jsx".length))
  .filter((name) => sources.includes(`${name}.css`));

const styles = {
  name: "styles as text",
  setup: ({ onLoad }) =>
    onLoad({ filter: /\.css$/ }, async ({ path }) => {
      const { code } = await transform(readFileSync(path, "utf8"), { loader: "css", minify: true });
      return { contents: code.trim(), loader: "text" };
    }),
};

const options = {
  outdir: target,
  bundle: true,
  minify: true,
  format: "iife",
  target: "es2020",
  charset: "utf8",
  jsx: "automatic",
  jsxImportSource: "preact",
  legalComments: "none",
};

const runtime = { ...options, entryPoints: ["src/runtime.js"], plugins: [styles] };
const { metafile } = await build({ ...runtime, format: "esm", metafile: true, write: false });
const [{ exports }] = Object.values(metafile.outputs);
const shared = readFileSync("src/runtime.js", "utf8").match(/(?<=from ")[^"]+/g);

const views = {
  name: "views",
  setup({ onLoad, onResolve }) {
    onResolve({ filter: /^view:/ }, ({ path }) => ({ path: path.slice("view:".length), namespace: "view" }));
    onLoad({ filter: /./, namespace: "view" }, ({ path: kind }) => {
      const name = kind[0].toUpperCase() + kind.slice(1);
      const lines = [`import { mount } from "./mount.js";`, `import { ${name} } from "./${kind}.jsx";`];
      return { contents: [...lines, `mount("${kind}", ${name});`].join("\n"), resolveDir: "src" };
    });
    // What the runtime holds is taken from there. Only a pure call is left out if unused.
    onResolve({ filter: /./ }, ({ path }) => {
      if (shared.includes(path) || path.startsWith("preact")) return { path: "runtime", namespace: "runtime" };
    });
    const taken = exports.map((name) => `export const ${name} = /* @__PURE__ */ (() => attentionRuntime.${name})();`);
    onLoad({ filter: /./, namespace: "runtime" }, () => ({ contents: taken.join("\n") }));
  },
};

const licences = ["preact"].map((name) => {
  const { version, license } = JSON.parse(readFileSync(`node_modules/${name}/package.json`));
  const text = readFileSync(`node_modules/${name}/LICENSE`, "utf8").trim();
  return `${name} ${version} (${license})\n\n${text}`;
});

await build({
  ...runtime,
  globalName: "attentionRuntime",
  banner: { js: `/*! Built from explorer_source.\n\nIt holds:\n\n${licences.join("\n\n")}\n*/` },
});
await build({
  ...options,
  entryPoints: kinds.map((kind) => ({ in: `view:${kind}`, out: kind })),
  plugins: [views, styles],
  banner: { js: "/*! Built from explorer_source. */" },
});

const files = ["build.mjs", "package-lock.json", ...sources.map((name) => `src/${name}`)];
files.push(...["runtime", ...kinds].map((name) => `${target}/${name}.js`));
const sum = (path) => createHash("sha256").update(readFileSync(path)).digest("hex");
writeFileSync("SHA256SUMS", files.sort().map((path) => `${sum(path)}  ${path}\n`).join(""));
