// How one message of a chat looks.

import {el, setText} from "./dom.js";
import {formatCount, formatSeconds} from "./format.js";
import {renderMarkdown} from "./markdown.js";

const OPEN_THOUGHT = "<think>";
const CLOSE_THOUGHT = "</think>";
// A rate over less time says nothing.
const MIN_SECONDS = 0.1;

// What the user wrote.
export function userMessage(text) {
  return el("article", {class: "message user"},
    el("h3", {class: "hidden"}, "You"), el("div", {class: "bubble"}, text));
}

// What a tool returned.
export function toolMessage(name, text) {
  return el("article", {class: "message tool-result"},
    el("h3", {}, `Result of ${name}`), el("pre", {tabindex: "0"}, text));
}

// An error, and a way on.
export function errorMessage(text, onretry) {
  return el("div", {class: "failure", role: "alert"},
    el("p", {}, text),
    el("button", {type: "button", class: "quiet", onclick: onretry}, "Try again"));
}

// Thoughts that the server left in the text are taken out of it: some models
// begin with them.
function split(text) {
  const start = text.trimStart();
  if (!start.startsWith(OPEN_THOUGHT)) return ["", text];
  const inner = start.slice(OPEN_THOUGHT.length);
  const end = inner.indexOf(CLOSE_THOUGHT);
  if (end < 0) return [inner, ""];
  return [inner.slice(0, end), inner.slice(end + CLOSE_THOUGHT.length)];
}

// Arguments of a call, on lines of their own if they are an object.
function prettyArguments(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

// A reply that grows. `content` and `calls` are what the next request sends.
export class Reply {
  constructor() {
    this.content = "";
    this.reasoning = "";
    this.calls = [];  // {id, name, arguments}
    this.finish = null;
    this.usage = null;
    this.evictions = [];
    this.began = performance.now();
    this.first = null;  // when the first text came
    this.last = null;
    this.isDirty = false;

    this.thoughtText = el("div", {class: "prose"});
    this.thoughtTitle = el("summary", {}, "Reasoning");
    this.thought = el("details", {class: "thought", hidden: true},
      this.thoughtTitle, this.thoughtText);
    this.text = el("div", {class: "prose"});
    this.callList = el("div", {class: "calls"});
    this.meta = el("p", {class: "meta"});
    this.node = el("article", {class: "message reply pending"},
      el("h3", {class: "hidden"}, "Reply"),
      this.thought, this.text, this.callList, this.meta);
  }

  // Takes a message of the stream.
  add(message) {
    if (message.usage) this.usage = message.usage;
    const choice = message.choices[0];
    if (!choice) return;
    const {delta} = choice;
    this.evictions.push(...(choice.evictions ?? []));
    this.reasoning += delta.reasoning_content ?? delta.reasoning ?? "";
    this.content += delta.content ?? "";
    for (const call of delta.tool_calls ?? []) this.#addCall(call);
    if (choice.finish_reason) this.finish = choice.finish_reason;
    const isText = delta.content || delta.reasoning_content || delta.reasoning ||
      delta.tool_calls;
    if (isText) {
      this.last = performance.now();
      this.first ??= this.last;
    }
    this.#drawSoon();
  }

  // Calls may come in pieces.
  #addCall(piece) {
    const call = this.calls[piece.index] ??= {id: "", name: "", arguments: ""};
    call.id ||= piece.id ?? "";
    call.name += piece.function?.name ?? "";
    call.arguments += piece.function?.arguments ?? "";
  }

  // The screen's rate is enough.
  #drawSoon() {
    if (this.isDirty) return;
    this.isDirty = true;
    requestAnimationFrame(() => this.draw());
  }

  draw() {
    this.isDirty = false;
    const [inText, text] = split(this.content);
    const thoughts = (this.reasoning + inText).trim();
    this.thought.hidden = thoughts === "";
    if (thoughts) renderMarkdown(this.thoughtText, thoughts);
    const isThinking = this.node.classList.contains("pending") && text.trim() === "";
    setText(this.thoughtTitle, isThinking ? "Reasoning …" : "Reasoning");
    renderMarkdown(this.text, text);
    while (this.callList.children.length < this.calls.length) {
      this.callList.append(el("div", {class: "call"}, el("p", {}), el("pre", {tabindex: "0"})));
    }
    this.calls.forEach((call, n) => {
      const [title, body] = this.callList.children[n].children;
      setText(title, `Calls ${call.name}`);
      setText(body, prettyArguments(call.arguments));
    });
  }

  // Says how it ended. `stopped`: by the user.
  end({stopped = false} = {}) {
    this.node.classList.remove("pending");
    this.draw();
    setText(this.meta, this.#facts(stopped).join(" · "));
  }

  #facts(stopped) {
    const facts = [];
    if (stopped) facts.push("stopped");
    if (this.finish === "length") facts.push("cut off at its limit");
    const tokens = this.usage?.completion_tokens;
    if (tokens) facts.push(`${formatCount(tokens)} ${tokens === 1 ? "token" : "tokens"}`);
    const seconds = (this.last - this.first) / 1000;
    if (tokens > 1 && seconds > MIN_SECONDS) {
      facts.push(`${((tokens - 1) / seconds).toFixed(1)} tokens/s`);
    }
    if (this.first !== null) {
      facts.push(`first after ${formatSeconds((this.first - this.began) / 1000)}`);
    }
    return facts;
  }

  // Fields in which the user says what the calls return; `onresults` gets the
  // texts, in order.
  askForResults(onresults) {
    const fields = this.calls.map((call) => {
      const field = el("textarea", {rows: "2", placeholder: "What it returns"});
      return {field, label: el("label", {}, `Result of ${call.name}`, field)};
    });
    const form = el("form", {class: "results", onsubmit: (event) => {
      event.preventDefault();
      form.remove();
      onresults(fields.map(({field}) => field.value));
    }}, ...fields.map(({label}) => label), el("button", {type: "submit"}, "Send the results"));
    this.node.append(form);
  }

  // Returns the message in the form in which the next request sends it.
  toMessage() {
    const message = {role: "assistant", content: this.content};
    if (this.calls.length > 0) {
      message.tool_calls = this.calls.map((call) => ({
        id: call.id, type: "function",
        function: {name: call.name, arguments: call.arguments},
      }));
    }
    return message;
  }
}
