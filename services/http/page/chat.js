// The chat: what was said, and the request that runs.

import {streamChat} from "./api.js";
import {ContextBook, leftNote, markLeft} from "./context.js";
import {formatCount} from "./format.js";
import {errorMessage, Reply, toolMessage, userMessage} from "./message.js";

// So close to the end, in pixels, a reader follows what comes.
const FOLLOW_DISTANCE = 80;

export class Chat {
  // `page` has the elements; `modelOf` returns {id, max_model_len} of the
  // model to ask, `settings` what the settings say, and `onbusy` is told
  // whether a request runs.
  constructor(page, {modelOf, settings, onbusy}) {
    this.page = page;
    this.modelOf = modelOf;
    this.settings = settings;
    this.onbusy = onbusy;
    this.abort = null;  // aborts the request that runs
    this.clear();
  }

  get isBusy() {
    return this.abort !== null;
  }

  // Begins a new chat.
  clear() {
    this.stop();
    this.abort = null;
    this.round = {};  // a request of an older one has nothing to say any more
    this.entries = [];  // {message, node}
    this.recount();
    this.page.messages.replaceChildren();
    this.onbusy(false);
    this.page.empty.hidden = false;
    this.page.context.textContent = "";
  }

  stop() {
    this.abort?.abort();
  }

  // Counts tokens anew: the model or what comes first has changed.
  recount() {
    this.book = new ContextBook();
  }

  say(text) {
    this.#append({role: "user", content: text}, userMessage(text));
    this.#answer();
  }

  #append(message, node) {
    this.page.empty.hidden = true;
    this.entries.push({message, node});
    this.page.messages.append(node);
    this.#follow(true);
  }

  #follow(always = false) {
    const {log} = this.page;
    const distance = log.scrollHeight - log.scrollTop - log.clientHeight;
    if (always || distance < FOLLOW_DISTANCE) log.scrollTop = log.scrollHeight;
  }

  // The whole conversation, as a request sends it.
  #messages() {
    const {system} = this.settings();
    const said = this.entries.map(({message}) => message);
    return system ? [{role: "system", content: system}, ...said] : said;
  }

  async #body(model) {
    const {temperature, maxTokens, contextPolicy, tools, system} = this.settings();
    const messages = this.#messages();
    const body = {
      model: model.id, messages, stream: true,
      stream_options: {include_usage: true}, context_policy: contextPolicy,
    };
    if (temperature !== null) body.temperature = temperature;
    // A context that rolls ends no reply, and some models never do.
    const most = maxTokens ?? (contextPolicy === "roll" ? model.max_model_len : null);
    if (most) body.max_completion_tokens = most;
    if (tools) body.tools = tools;
    if (system && contextPolicy === "roll") {
      body.roll = {pin_tokens: await this.book.pinned(model.id, messages, tools)};
    }
    return body;
  }

  // Asks for a reply to what was said.
  async #answer() {
    const {round} = this;
    const reply = new Reply();
    const abort = new AbortController();
    this.abort = abort;
    this.page.messages.append(reply.node);
    this.page.log.setAttribute("aria-busy", "true");
    this.#follow(true);
    this.onbusy(true);
    let failure = null;
    const model = this.modelOf();
    try {
      for await (const message of streamChat(await this.#body(model), abort.signal)) {
        reply.add(message);
        this.#follow();
      }
    } catch (error) {
      if (error.name !== "AbortError") failure = error;
    }
    if (this.round !== round) return;
    this.abort = null;
    this.#end(reply, failure, abort.signal.aborted);
    this.page.log.setAttribute("aria-busy", "false");
    this.onbusy(false);
    await this.#showContext(reply, model);
  }

  #end(reply, failure, stopped) {
    reply.end({stopped});
    // What came before an error or a stop was said, so the model shall know it.
    if (failure && reply.content === "" && reply.calls.length === 0) {
      reply.node.remove();
    } else {
      this.entries.push({message: reply.toMessage(), node: reply.node});
    }
    if (failure) {
      const note = errorMessage(failure.message, () => {
        note.remove();
        this.#retry();
      });
      this.page.messages.append(note);
    }
    if (reply.calls.length > 0 && !failure && !stopped) {
      reply.askForResults((results) => this.#returnResults(reply, results));
    }
    this.#follow();
  }

  // Asks again; a reply that an error cut off goes.
  #retry() {
    if (this.isBusy) return;
    if (this.entries.at(-1)?.message.role === "assistant") {
      this.entries.pop().node.remove();
    }
    this.#answer();
  }

  #returnResults(reply, results) {
    results.forEach((text, n) => {
      const {id, name} = reply.calls[n];
      this.#append({role: "tool", tool_call_id: id, content: text}, toolMessage(name, text));
    });
    this.#answer();
  }

  // Says how full the context is, and what has left it.
  async #showContext(reply, model) {
    const {usage, evictions} = reply;
    if (usage && model.max_model_len) {
      const left = evictions.reduce((sum, {tokens}) => sum + tokens, 0);
      this.page.context.textContent = `${formatCount(usage.total_tokens - left)} of ` +
        `${formatCount(model.max_model_len)} tokens of context`;
    }
    if (!usage && evictions.length === 0) return;  // it was stopped early
    this.page.messages.querySelector(".left-note")?.remove();
    const nodes = this.entries.map(({node}) => node);
    if (evictions.length === 0) {
      markLeft(nodes, []);
      return;
    }
    const note = leftNote(evictions);
    try {
      const {tools, system} = this.settings();
      const all = await this.book.whatLeft(model.id, this.#messages(), tools, evictions);
      const marks = system ? all.slice(1) : all;
      markLeft(nodes, marks);
      nodes[Math.max(marks.findLastIndex((mark) => mark !== ""), 0)].after(note);
    } catch {
      // A template that cannot render a part of a chat: the number is enough.
      reply.node.before(note);
    }
    this.#follow();
  }
}
