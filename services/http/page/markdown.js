// Markdown to elements, as far as models write it: headings, paragraphs, lists,
// quotes, tables, code, emphasis and links. Everything a model says ends as the
// text of an element: there is no HTML in it. What is not understood stays text.

import {el} from "./dom.js";

// Quotes, lists and emphasis within each other; what is deeper stays text.
const MAX_DEPTH = 6;
// The end of emphasis, code or a link is looked for within this many
// characters, so that a hostile text takes no more time than others.
const REACH = 4000;
// Marks that could end emphasis and do not, before it is taken for none.
const MAX_TRIES = 8;

const FENCE = /^ {0,3}(`{3,}|~{3,})(.*)$/;
const HEADING = /^ {0,3}(#{1,6}) (.*)$/;
const ITEM = /^( *)([-*+]|\d{1,9}[.)]) (.*)$/;
const SPECIAL = /[\\`*_~[!<]|https?:\/\//g;
const WORD = /[\p{L}\p{N}]/u;

const isBlank = (line) => line.trim() === "";
const indentOf = (line) => line.length - line.trimStart().length;

function isRule(line) {
  const marks = line.replaceAll(" ", "");
  return marks.length >= 3 && "-*_".includes(marks[0]) &&
    marks === marks[0].repeat(marks.length);
}

// ---- Links ----------------------------------------------------------------

// The address if it is a whole one of the web; null of any other kind.
export function safeAddress(text) {
  try {
    const url = new URL(text);
    return ["http:", "https:"].includes(url.protocol) ? url.href : null;
  } catch {
    return null;
  }
}

function link(address) {
  return el("a", {
    href: address, title: address, target: "_blank", rel: "noopener noreferrer",
  });
}

// ---- Within a line --------------------------------------------------------

// The index of `mark` at or after `from`, within reach of `start`; -1 without
// one.
function find(text, mark, from, start) {
  const at = text.slice(from, start + REACH).indexOf(mark);
  return at < 0 ? -1 : from + at;
}

function codeSpan(text, at) {
  let run = 1;
  while (text[at + run] === "`") run += 1;
  const mark = "`".repeat(run);
  let end = find(text, mark, at + run, at);
  // A longer run is none of its ends.
  while (end >= 0 && text[end + run] === "`") {
    let after = end + run;
    while (text[after] === "`") after += 1;
    end = find(text, mark, after, at);
  }
  if (end < 0) return null;
  let inner = text.slice(at + run, end);
  if (inner.startsWith(" ") && inner.endsWith(" ") && !isBlank(inner)) {
    inner = inner.slice(1, -1);
  }
  return {node: el("code", {}, inner), end: end + run};
}

// Where emphasis by `mark` ends that begins at `at`; -1 if it is none.
function emphasisEnd(text, at, mark) {
  const first = at + mark.length;
  if (first >= text.length || isBlank(text[first])) return -1;
  const inWords = mark[0] === "_";
  if (inWords && at > 0 && WORD.test(text[at - 1])) return -1;
  let end = find(text, mark, first + 1, at);
  for (let tries = 0; end >= 0 && tries < MAX_TRIES; tries += 1) {
    // A single mark does not end at a double one.
    let run = mark.length;
    while (text[end + run] === mark[0]) run += 1;
    const after = text[end + run] ?? " ";
    const fits = mark.length === 1 ? run === 1 || run >= 3 : true;
    if (fits && !isBlank(text[end - 1]) && !(inWords && WORD.test(after))) {
      return end + run - mark.length;
    }
    end = find(text, mark, end + run, at);
  }
  return -1;
}

function emphasis(text, at, depth) {
  const mark = text[at];
  const double = text[at + 1] === mark;
  if (mark === "~" && !double) return null;
  const tags = double ? [[mark + mark, mark === "~" ? "del" : "strong"]] : [];
  if (mark !== "~") tags.push([mark, "em"]);
  for (const [marks, tag] of tags) {
    const end = emphasisEnd(text, at, marks);
    if (end < 0) continue;
    const node = el(tag);
    appendInline(node, text.slice(at + marks.length, end), depth + 1);
    return {node, end: end + marks.length};
  }
  return null;
}

// [text](address), or an image, which becomes a link: nothing is loaded.
function namedLink(text, at, depth) {
  const open = text[at] === "!" ? at + 1 : at;
  if (text[open] !== "[") return null;
  const middle = find(text, "](", open + 1, at);
  if (middle < 0) return null;
  const label = text.slice(open + 1, middle);
  let close = middle + 2;
  for (let nested = 0; ; close += 1) {
    const c = text[close];
    if (c === undefined || close - middle > REACH) return null;
    if (c === "(") nested += 1;
    if (c === ")" && nested === 0) break;
    if (c === ")") nested -= 1;
  }
  const address = safeAddress(text.slice(middle + 2, close).trim().split(/\s/, 1)[0]);
  if (address === null) return null;
  const node = link(address);
  appendInline(node, label || address, MAX_DEPTH);
  return {node, end: close + 1};
}

function bareLink(text, at) {
  if (at > 0 && WORD.test(text[at - 1])) return null;
  let word = text.slice(at, at + REACH).match(/^[^\s<>"'`*\\]+/)[0];
  word = word.replace(/[.,;:!?_]+$/, "");
  while (word.endsWith(")") && !word.includes("(")) word = word.slice(0, -1);
  const address = safeAddress(word);
  if (address === null) return null;
  const node = link(address);
  node.append(word);
  return {node, end: at + word.length};
}

function pointedLink(text, at) {
  const end = find(text, ">", at, at);
  const address = end < 0 ? null : safeAddress(text.slice(at + 1, end));
  if (address === null) return null;
  const node = link(address);
  node.append(text.slice(at + 1, end));
  return {node, end: end + 1};
}

// What begins at a special character: {node, end}, or null if it is text.
function spanAt(text, at, depth) {
  switch (text[at]) {
    case "\\":
      return /[!-/:-@[-`{-~]/.test(text[at + 1] ?? "")
        ? {node: text[at + 1], end: at + 2} : null;
    case "`":
      return codeSpan(text, at);
    case "[":
    case "!":
      return depth < MAX_DEPTH ? namedLink(text, at, depth) : null;
    case "<":
      return depth < MAX_DEPTH ? pointedLink(text, at) : null;
    case "h":
      return depth < MAX_DEPTH ? bareLink(text, at) : null;
    default:
      return depth < MAX_DEPTH ? emphasis(text, at, depth) : null;
  }
}

function appendInline(parent, text, depth) {
  let plain = 0;  // where the text begins that is not appended yet
  const special = new RegExp(SPECIAL);
  for (let match = special.exec(text); match; match = special.exec(text)) {
    const at = match.index;
    const span = spanAt(text, at, depth);
    if (span === null) {
      // All of a run is text, or each of its marks would be looked for anew.
      special.lastIndex = at + 1;
      while ("`*_~".includes(text[at]) && text[special.lastIndex] === text[at]) {
        special.lastIndex += 1;
      }
      continue;
    }
    if (at > plain) parent.append(text.slice(plain, at));
    parent.append(span.node);
    plain = span.end;
    special.lastIndex = span.end;
  }
  if (plain < text.length) parent.append(text.slice(plain));
}

// ---- Blocks ---------------------------------------------------------------

function cellsOf(line) {
  const cells = line.trim().replaceAll("\\|", "\u0000").split("|");
  if (cells[0].trim() === "") cells.shift();
  if (cells.length > 0 && cells[cells.length - 1].trim() === "") cells.pop();
  return cells.map((cell) => cell.trim().replaceAll("\u0000", "|"));
}

function isTableHead(lines, i) {
  const under = lines[i + 1];
  return lines[i].includes("|") && under !== undefined && under.includes("-") &&
    under.includes("|") && /^[\s|:-]+$/.test(under);
}

// Whether a line begins another block, also right behind a paragraph.
function beginsBlock(lines, i) {
  const line = lines[i];
  return FENCE.test(line) || HEADING.test(line) || line.startsWith(">") ||
    ITEM.test(line) || isRule(line) || isTableHead(lines, i);
}

// Each reader returns the index behind the block that begins at `i`, and a
// function that makes its element.

function readCode(lines, i) {
  const [, fence, info] = lines[i].match(FENCE);
  const indent = indentOf(lines[i]);
  let end = i + 1;
  const closes = (line) => {
    const mark = line.trim();
    return mark.length >= fence.length && mark === fence[0].repeat(mark.length);
  };
  while (end < lines.length && !closes(lines[end])) end += 1;
  const text = lines.slice(i + 1, end)
    .map((line) => line.slice(Math.min(indent, indentOf(line)))).join("\n");
  const make = () => codeBlock(text, info.trim().split(/\s/, 1)[0]);
  return {end: Math.min(end + 1, lines.length), make};
}

function codeBlock(text, language) {
  const copy = el("button", {type: "button", class: "quiet", onclick: async () => {
    try {
      await navigator.clipboard.writeText(text);
      copy.textContent = "Copied";
    } catch {
      copy.textContent = "Not allowed";
    }
  }}, "Copy");
  return el("div", {class: "code-block"},
    el("div", {class: "code-head"}, el("span", {}, language), copy),
    el("pre", {tabindex: "0"}, el("code", {}, text)));
}

function readHeading(lines, i) {
  const [, marks, title] = lines[i].match(HEADING);
  const text = title.trim().replace(/ #+$/, "");
  const make = () => {
    // The page itself has the levels above.
    const node = el(`h${Math.min(marks.length + 2, 6)}`);
    appendInline(node, text, 0);
    return node;
  };
  return {end: i + 1, make};
}

function readQuote(lines, i, depth) {
  let end = i;
  while (end < lines.length && lines[end].startsWith(">")) end += 1;
  const inner = lines.slice(i, end).map((line) => line.replace(/^> ?/, ""));
  const make = () => {
    const node = el("blockquote");
    appendBlocks(node, inner, depth + 1);
    return node;
  };
  return {end, make};
}

function readList(lines, i, depth) {
  const [, spaces, marker] = lines[i].match(ITEM);
  const base = spaces.length;
  const isOrdered = /\d/.test(marker);
  const items = [];
  let end = i;
  for (; end < lines.length; end += 1) {
    const line = lines[end];
    const match = line.match(ITEM);
    if (match && match[1].length <= base + 1 && !isRule(line)) {
      if (match[1].length < base || /\d/.test(match[2]) !== isOrdered) break;
      items.push({indent: match[1].length + match[2].length + 1, lines: [match[3]]});
      continue;
    }
    const item = items[items.length - 1];
    if (isBlank(line)) {
      // The list goes on if what follows belongs to it.
      const next = lines[end + 1] ?? "";
      const isInside = indentOf(next) > base || ITEM.test(next);
      if (isBlank(next) || !isInside) break;
      item.lines.push("");
    } else if (indentOf(line) > base) {
      item.lines.push(line.slice(Math.min(item.indent, indentOf(line))));
    } else if (isBlank(lines[end - 1]) || beginsBlock(lines, end)) {
      break;
    } else {
      item.lines.push(line);
    }
  }
  const make = () => {
    const node = el(isOrdered ? "ol" : "ul", isOrdered ? {start: parseInt(marker, 10)} : {});
    for (const item of items) {
      const entry = el("li");
      appendBlocks(entry, item.lines, depth + 1);
      node.append(entry);
    }
    return node;
  };
  return {end, make};
}

function readTable(lines, i) {
  const sides = cellsOf(lines[i + 1]).map((cell) => {
    const isRight = cell.endsWith(":");
    if (isRight && cell.startsWith(":")) return "center";
    return isRight ? "right" : null;
  });
  let end = i + 2;
  while (end < lines.length && lines[end].includes("|")) end += 1;
  const make = () => {
    const row = (tag, cells) => {
      const node = el("tr");
      cells.slice(0, sides.length).forEach((text, n) => {
        const cell = el(tag, {class: sides[n]});
        appendInline(cell, text, 0);
        node.append(cell);
      });
      return node;
    };
    const rows = lines.slice(i + 2, end).map((line) => row("td", cellsOf(line)));
    return el("div", {class: "table", tabindex: "0"}, el("table", {},
      el("thead", {}, row("th", cellsOf(lines[i]))), el("tbody", {}, ...rows)));
  };
  return {end, make};
}

function readParagraph(lines, i) {
  let end = i + 1;
  while (end < lines.length && !isBlank(lines[end]) && !beginsBlock(lines, end)) end += 1;
  const text = lines.slice(i, end).map((line) => line.trim()).join("\n");
  const make = () => {
    const node = el("p");
    appendInline(node, text, 0);
    return node;
  };
  return {end, make};
}

function readBlock(lines, i, depth) {
  const line = lines[i];
  if (depth >= MAX_DEPTH) return readParagraph(lines, i);
  if (FENCE.test(line)) return readCode(lines, i);
  if (HEADING.test(line)) return readHeading(lines, i);
  if (isRule(line)) return {end: i + 1, make: () => el("hr")};
  if (line.startsWith(">")) return readQuote(lines, i, depth);
  if (ITEM.test(line)) return readList(lines, i, depth);
  if (isTableHead(lines, i)) return readTable(lines, i);
  return readParagraph(lines, i);
}

// The blocks of some lines, each with the text that it was made from.
function blocksOf(lines, depth) {
  const blocks = [];
  for (let i = 0; i < lines.length;) {
    if (isBlank(lines[i])) {
      i += 1;
      continue;
    }
    const {end, make} = readBlock(lines, i, depth);
    blocks.push({source: lines.slice(i, end).join("\n"), make});
    i = end;
  }
  return blocks;
}

function appendBlocks(parent, lines, depth) {
  const blocks = blocksOf(lines, depth);
  // The only paragraph of an item needs no element of its own.
  if (parent.tagName === "LI" && blocks.length > 0) {
    const first = blocks.shift().make();
    if (first.tagName === "P") {
      parent.append(...first.childNodes);
    } else {
      parent.append(first);
    }
  }
  for (const block of blocks) parent.append(block.make());
}

// What each element was made from, so that a text that grows leaves what is
// done already, and what the reader has selected there, as it is.
const sources = new WeakMap();

// Makes `parent` show `text`.
export function renderMarkdown(parent, text) {
  const lines = text.replaceAll("\r\n", "\n").replaceAll("\t", "    ").split("\n");
  const blocks = blocksOf(lines, 0);
  blocks.forEach((block, n) => {
    const old = parent.children[n];
    if (old && sources.get(old) === block.source) return;
    const node = block.make();
    sources.set(node, block.source);
    if (old) {
      old.replaceWith(node);
    } else {
      parent.append(node);
    }
  });
  while (parent.children.length > blocks.length) parent.lastElementChild.remove();
}
