// The server's API. Paths are relative, so that a proxy may have the page below
// a path of its own.

import {authorization, REFUSED} from "./token.js";

// A refusal, with the server's own words.
export class ApiError extends Error {
  constructor(message, status = 0) {
    super(message);
    this.status = status;
  }
}

async function request(path, options) {
  const shown = authorization();
  const headers = {...options.headers, ...shown};
  let response;
  try {
    response = await fetch(path, {...options, headers});
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError("the server does not answer");
  }
  if (response.ok) return response;
  // A token that was given meanwhile was not refused.
  const isCurrent = shown.Authorization === authorization().Authorization;
  if (response.status === 401 && isCurrent) {
    document.dispatchEvent(new Event(REFUSED));
  }
  let message = `the server says ${response.status}`;
  try {
    message = (await response.json()).error.message;
  } catch {
    // Not one of its own errors.
  }
  throw new ApiError(message, response.status);
}

function post(path, body, signal) {
  return request(path, {
    method: "POST",
    headers: {"Content-Type": "application/json"},
    body: JSON.stringify(body),
    signal,
  });
}

export async function getJson(path, signal) {
  return (await request(path, {signal, cache: "no-store"})).json();
}

export async function postJson(path, body, signal) {
  return (await post(path, body, signal)).json();
}

// The data of the server-sent events of a response's body.
async function* eventsOf(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let waiting = "";
  for (;;) {
    const {done, value} = await reader.read();
    if (done) return;
    const events = (waiting + value).split("\n\n");
    waiting = events.pop();
    for (const event of events) {
      if (event.startsWith("data: ")) yield event.slice("data: ".length);
    }
  }
}

// The messages of a streamed reply. It throws an ApiError if the server ends
// the stream with an error, or without an end.
export async function* streamChat(body, signal) {
  const response = await post("v1/chat/completions", body, signal);
  let isDone = false;
  // It is read to its end, so that the connection can be used again.
  for await (const data of eventsOf(response.body)) {
    if (data === "[DONE]") {
      isDone = true;
      continue;
    }
    const message = JSON.parse(data);
    if (message.error) throw new ApiError(message.error.message);
    yield message;
  }
  if (!isDone) throw new ApiError("the connection ended before the reply did");
}
