#!/usr/bin/env node
// Writes page/affiant-verifier.html: the modules, the table and the style in one file that needs nothing else.
//
//   node build_page.mjs [FILE]     write it there, or to FILE
//
// Each module becomes a function that returns what it exports, in the order of the imports; no more is changed. The
// policy of the page allows exactly this script and this style, by their digests, and nothing from anywhere.

import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";

import { buildName } from "./own_files.mjs";

const PAGE = new URL("page/affiant-verifier.html", import.meta.url);
const IMPORT = /^import \{([^}]*)\} from "([^"]+)";\n/gm;
const EXPORT = /^export (?=(?:async )?(?:function\*?|const|class) )/gm;
const EXPORTED = /^export (?:async )?(?:function\*?|const|class) (\w+)/gm;

/** The page's text. */
function buildPage() {
  const style = read("page/page.css");
  const script = bundleScript(new URL("page/page.mjs", import.meta.url));
  const policy = [
    "default-src 'none'",
    `script-src '${digest(script)}'`,
    `style-src '${digest(style)}'`,
    "base-uri 'none'",
    "form-action 'none'",
    "require-trusted-types-for 'script'",
  ].join("; ");
  const parts = {
    csp: policy,
    build: buildName(),
    style,
    records: JSON.stringify(JSON.parse(read("records.json"))).replaceAll("<", "\\u003c"),
    script,
  };
  return read("page/template.html").replace(/\{\{(\w+)\}\}/g, (_, name) => parts[name]);
}

function bundleScript(entry) {
  const modules = new Map();
  visit(entry, modules, []);
  const script = `\n"use strict";\n(() => {\n${[...modules.values()].join("\n")}})();\n`;
  if (/<\/script|<!--/i.test(script)) throw new Error("the script would end the element that holds it");
  return script;
}

/** Adds the module at `url` to `modules`, after what it imports. */
function visit(url, modules, above) {
  if (modules.has(url.href)) return;
  if (above.includes(url.href)) throw new Error(`modules import each other: ${url.href}`);
  const text = readFileSync(url, "utf8");
  const imports = [...text.matchAll(IMPORT)].map(([, names, path]) => ({ names, url: new URL(path, url) }));
  for (const each of imports) visit(each.url, modules, [...above, url.href]);
  const known = imports.map((each) => `const {${each.names}} = ${nameOf(each.url)};\n`).join("");
  const exported = [...text.matchAll(EXPORTED)].map(([, name]) => name);
  const body = text.replace(IMPORT, "").replace(EXPORT, "");
  if (/^(?:import|export)\b/m.test(body)) throw new Error(`an import or export of another form: ${url.href}`);
  const result = `return { ${exported.join(", ")} };`;
  modules.set(url.href, `const ${nameOf(url)} = (() => {\n${known}${body}${result}\n})();\n`);
}

function nameOf(url) {
  return `$${url.pathname.split("/").at(-1).replace(".mjs", "")}`;
}

function digest(text) {
  return `sha256-${createHash("sha256").update(text).digest("base64")}`;
}

function read(path) {
  return readFileSync(new URL(path, import.meta.url), "utf8");
}

writeFileSync(process.argv[2] ?? PAGE, buildPage());
