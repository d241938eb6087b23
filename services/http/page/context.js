// What of a chat has left the model's context. A reply says which tokens left;
// the server's tokenizer says which messages they were.

import {postJson} from "./api.js";
import {el} from "./dom.js";
import {plural} from "./format.js";

// The tokens that left, as one stretch behind the pinned ones: {from, to};
// null if none did.
function stretchOf(evictions) {
  if (evictions.length === 0) return null;
  const ends = evictions.map(({position, tokens}) => position + tokens);
  return {from: evictions[0].position, to: Math.max(...ends)};
}

// Counts tokens of a chat's messages. A chat only grows, so each is counted
// once.
export class ContextBook {
  constructor() {
    this.ends = [];  // ends[i]: the tokens of messages 0 to i
  }

  // The tokens up to the end of each of `messages`.
  async #endsOf(model, messages, tools) {
    for (let n = this.ends.length; n < messages.length; n += 1) {
      const body = {
        model, messages: messages.slice(0, n + 1), add_generation_prompt: false,
      };
      if (tools) body.tools = tools;
      this.ends.push((await postJson("tokenize", body)).count);
    }
    return this.ends;
  }

  // The tokens of the leading message, which is the system's.
  async pinned(model, messages, tools) {
    return (await this.#endsOf(model, messages.slice(0, 1), tools))[0];
  }

  // Says of each message whether it has left: "all", "part" or "". `reply` is
  // the index of the message that `evictions` came with.
  async whatLeft(model, messages, tools, evictions) {
    const stretch = stretchOf(evictions);
    if (stretch === null) return messages.map(() => "");
    const ends = await this.#endsOf(model, messages, tools);
    return messages.map((message, n) => {
      const begin = n === 0 ? 0 : ends[n - 1];
      if (begin >= stretch.from && ends[n] <= stretch.to) return "all";
      const overlaps = begin < stretch.to && ends[n] > stretch.from;
      return overlaps ? "part" : "";
    });
  }
}

// The line that says it in the transcript.
export function leftNote(evictions) {
  const stretch = stretchOf(evictions);
  const text = `${plural(stretch.to - stretch.from, "token")} above ` +
    "left the context, which was full";
  return el("p", {class: "left-note"}, text);
}

// Marks messages' nodes by what whatLeft says.
export function markLeft(nodes, left) {
  nodes.forEach((node, n) => {
    node.classList.toggle("left", left[n] === "all");
    node.classList.toggle("partly-left", left[n] === "part");
  });
}
