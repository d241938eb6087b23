// Puts the page together: the chat, the memory beside it, and what is asked of
// the server all the time.

import {getJson} from "./api.js";
import {Chat} from "./chat.js";
import {el, setText} from "./dom.js";
import {MemoryPanel} from "./memory.js";
import {Settings} from "./settings.js";
import {TokenDialog} from "./token.js";

// Between two looks at the server, in milliseconds.
const POLL_TIME = 2000;
// A server that does not answer within this time, in milliseconds, is gone.
const POLL_LIMIT = 10000;

const $ = (id) => document.getElementById(id);

const input = $("input");
const send = $("send");
const picker = $("model");
const panel = new MemoryPanel($("memory"));
const settings = new Settings($("settings"), () => chat.recount());
const chat = new Chat(
  {log: $("log"), messages: $("messages"), empty: $("empty"), context: $("context")},
  {modelOf: chosenModel, settings: () => settings.values, onbusy: showBusy});

// ---- Models ---------------------------------------------------------------

let models = [];  // what v1/models lists

function chosenModel() {
  return models.find(({id}) => id === picker.value) ?? {id: picker.value};
}

// Fills the list; the choice stays if it is still there.
async function listModels() {
  models = (await getJson("v1/models")).data;
  const chosen = picker.value;
  const firstReady = models.find(({state}) => state === "ready") ?? models[0];
  picker.replaceChildren(...models.map(({id, state}) =>
    el("option", {value: id}, state === "ready" ? id : `${id} (${state})`)));
  picker.disabled = models.length === 0;
  const stays = models.some(({id}) => id === chosen);
  picker.value = stays ? chosen : firstReady?.id ?? "";
}

picker.addEventListener("change", () => chat.recount());

// ---- What the server does ---------------------------------------------------

let known = "";  // the models and their states, as they were listed

async function look() {
  const limit = new AbortController();
  const alarm = setTimeout(() => limit.abort(), POLL_LIMIT);
  try {
    const status = await getJson("plimsoll/status", limit.signal);
    panel.update(status, performance.now());
    const states = JSON.stringify(status.models.map(({id, state}) => [id, state]));
    if (states !== known) {
      await listModels();
      known = states;
    }
    showState(status.state);
  } catch (error) {
    showState(refusalOf(error.status));
  } finally {
    clearTimeout(alarm);
  }
}

function refusalOf(httpStatus) {
  if (httpStatus === 401) return "locked";
  return httpStatus === 403 ? "forbidden" : "unreachable";
}

function showState(state) {
  const words = {
    ok: "ready", unreachable: "no answer", locked: "needs a token",
    forbidden: "the token's role is too low",
  };
  setText($("state"), words[state] ?? state);
  $("state").dataset.state = state;
}

let wake = () => {};  // looks at once
new TokenDialog($("token"), $("forget"), () => wake());
document.addEventListener("visibilitychange", () => wake());

async function keepLooking() {
  for (;;) {
    if (!document.hidden) await look();
    await new Promise((resolve) => {
      wake = resolve;
      setTimeout(resolve, POLL_TIME);
    });
  }
}

// ---- The composer -----------------------------------------------------------

function showBusy(isBusy) {
  setText(send, isBusy ? "Stop" : "Send");
  send.classList.toggle("stop", isBusy);
}

function fitInput() {
  input.style.height = "auto";
  input.style.height = `${input.scrollHeight}px`;
}

function submit() {
  if (chat.isBusy) {
    chat.stop();
    return;
  }
  const text = input.value.trim();
  if (text === "") return;
  input.value = "";
  fitInput();
  chat.say(text);
}

$("composer").addEventListener("submit", (event) => {
  event.preventDefault();
  submit();
});
input.addEventListener("input", fitInput);
input.addEventListener("keydown", (event) => {
  // While a word is composed, Enter belongs to the keyboard.
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  if (!chat.isBusy) submit();
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && chat.isBusy && !$("settings").open) chat.stop();
});

// In a narrow window either the chat or the memory is shown.
function showMemory(isShown) {
  document.body.classList.toggle("shows-memory", isShown);
  $("open-memory").setAttribute("aria-expanded", String(isShown));
  setText($("open-memory"), isShown ? "Chat" : "Memory");
}

$("new").addEventListener("click", () => {
  showMemory(false);
  chat.clear();
  input.focus();
});
$("open-settings").addEventListener("click", () => settings.open());
$("open-memory").addEventListener("click", () => {
  showMemory(!document.body.classList.contains("shows-memory"));
});

keepLooking();
