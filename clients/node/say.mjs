// Streams a reply to a message over HTTP: node say.mjs URL MESSAGE [MAX_TOKENS].
//
// URL is that of `plimsoll serve` or of a gateway, such as http://localhost:8080.
// PLIMSOLL_TOKEN has the token, if the server wants one. Node 18 or newer is all that
// this needs.

import process from 'node:process';
import { setTimeout as sleep } from 'node:timers/promises';

const DEADLINE_MS = 60_000;
const MAX_ATTEMPTS = 30;

// What the server says about a failure.
class ServerError extends Error {
  constructor({ code, message }) {
    super(message);
    this.code = code ?? '';
  }
}

// Posts a request, and repeats it if the server is not ready for it. Nothing is
// repeated once a reply has begun.
async function post(url, body, signal) {
  const headers = { 'Content-Type': 'application/json' };
  const token = process.env.PLIMSOLL_TOKEN;
  if (token) headers.Authorization = `Bearer ${token}`;
  for (let attempt = 1; ; ++attempt) {
    const reply = await fetch(url, {
      method: 'POST', headers, body: JSON.stringify(body), signal,
    });
    if (reply.ok) return reply;
    const { error } = await reply.json();
    if (reply.status !== 503 || attempt === MAX_ATTEMPTS) throw new ServerError(error);
    const seconds = Number(reply.headers.get('Retry-After') ?? 1);
    await sleep(seconds * 1000, undefined, { signal });
  }
}

// The data of each server-sent event, as it comes. Lines that begin with a colon are
// signs of life while a model loads.
async function* eventsOf(body) {
  const decoder = new TextDecoder();
  let rest = '';
  for await (const bytes of body) {
    const lines = (rest + decoder.decode(bytes, { stream: true })).split('\n');
    rest = lines.pop();
    for (const line of lines) {
      if (line.startsWith('data: ')) yield line.slice('data: '.length);
    }
  }
}

async function say(url, message, maxTokens) {
  const signal = AbortSignal.timeout(DEADLINE_MS);
  const reply = await post(`${url}/v1/chat/completions`, {
    messages: [{ role: 'user', content: message }],
    temperature: 0,
    max_completion_tokens: maxTokens,
    stream: true,
  }, signal);
  for await (const event of eventsOf(reply.body)) {
    if (event === '[DONE]') break;
    const part = JSON.parse(event);
    if (part.error) throw new ServerError(part.error);
    process.stdout.write(part.choices[0]?.delta.content ?? '');
  }
  process.stdout.write('\n');
}

const [url, message, maxTokens = '64'] = process.argv.slice(2);
if (message === undefined || process.argv.length > 5) {
  console.error('usage: say.mjs URL MESSAGE [MAX_TOKENS]');
  process.exit(2);
}
try {
  await say(url, message, Number(maxTokens));
} catch (error) {
  // fetch has the reason of a failed connection as its cause.
  console.error(`error: ${error.code ?? ''}: ${error.cause?.message ?? error.message}`);
  process.exitCode = 1;
}
