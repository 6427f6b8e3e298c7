// Text that is safe to print: strings from a bundle are hostile (trust rules, 15).

const MAX_TEXT = 2000;
const INVISIBLE = /(?! )[\p{C}\p{Z}]/gu;
const INVISIBLE_BUT_NEWLINE = /(?![ \n])[\p{C}\p{Z}]/gu;

/** `text` without control, bidirectional or other invisible characters, which are shown escaped; bounded. */
export function printable(text) {
  return shown(text, MAX_TEXT, INVISIBLE);
}

/** A string of a bundle, visibly as one: no character of `text` can end the quotes. */
export function quoted(text) {
  const safe = shown(text, 100, INVISIBLE_BUT_NEWLINE).replaceAll("\\", "\\\\").replaceAll("\n", "\\n");
  if (safe.includes("'") && !safe.includes('"')) return `"${safe}"`;
  return `'${safe.replaceAll("'", "\\'")}'`;
}

function shown(text, limit, hidden) {
  const points = [...text];
  const safe = points.slice(0, limit).join("").replace(hidden, escaped);
  return points.length <= limit ? safe : `${safe}...`;
}

function escaped(mark) {
  const point = mark.codePointAt(0);
  return point <= 0xffff ? `\\u${point.toString(16).padStart(4, "0")}` : `\\U${point.toString(16).padStart(8, "0")}`;
}
