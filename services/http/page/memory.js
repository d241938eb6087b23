// The memory of what is loaded: each device's plan as a stacked bar below its
// load line, what was measured beside it, and how busy the models are.

import {el, setText} from "./dom.js";
import {formatBytes, formatCount, plural} from "./format.js";

const KINDS = [
  ["weights", "Weights"],
  ["kv", "KV cache"],
  ["scratch", "Scratch"],
  ["host", "Process"],
  ["margin", "Margin"],
];
const OF_PROCESS = ["tables", "candidates", "vocab", "runtime", "messages"];

// The kind of memory that a region of a plan is, as in `plimsoll plan`.
function kindOf({name}) {
  if (name.startsWith("weights") || name === "mtp") return "weights";
  if (name.startsWith("kv_") || name === "state") return "kv";
  if (OF_PROCESS.includes(name)) return "host";
  if (name === "margin" || name === "reserve") return "margin";
  return "scratch";
}

// The planned bytes of a part by kind.
function kindsOf(part) {
  const bytes = Object.fromEntries(KINDS.map(([kind]) => [kind, 0]));
  let sum = 0;
  for (const region of part.regions) {
    if (region.on_host || region.mapped) continue;
    bytes[kindOf(region)] += region.bytes;
    sum += region.bytes;
  }
  bytes.scratch += Math.max(part.total_bytes - sum, 0);  // rounding
  return bytes;
}

const percent = (part, whole) => `${whole > 0 ? Math.min(part / whole, 1) * 100 : 0}%`;

// A bar with a stretch for each kind.
class StackedBar {
  constructor() {
    this.stretches = {};
    this.node = el("div", {class: "bar", role: "img"});
    for (const [kind] of KINDS) {
      this.stretches[kind] = el("div", {class: `stretch ${kind}`});
      this.node.append(this.stretches[kind]);
    }
    // How much of the cache holds tokens now.
    this.used = el("div", {class: "used"});
    this.stretches.kv.append(this.used);
  }

  update(bytes, scale, usedShare, label) {
    for (const [kind, name] of KINDS) {
      const stretch = this.stretches[kind];
      stretch.hidden = bytes[kind] === 0;
      stretch.style.width = percent(bytes[kind], scale);
      stretch.title = `${name}: ${formatBytes(bytes[kind])}`;
    }
    this.used.style.width = percent(usedShare, 1);
    this.node.setAttribute("aria-label", label);
  }
}

// A row of the legend: what, planned, measured. `kind` is the class of its
// colour, if it has one.
class LegendRow {
  constructor(name, kind, isSum = false) {
    this.planned = el("td");
    this.measured = el("td");
    const sample = kind ? el("span", {class: `sample ${kind}`}) : null;
    this.node = el("tr", {class: isSum && "sum"},
      el("th", {scope: "row"}, sample, name), this.planned, this.measured);
  }

  update(planned, measured) {
    setText(this.planned, planned === null ? "" : formatBytes(planned));
    setText(this.measured, measured === null ? "" : formatBytes(measured));
  }
}

// One device: how full it is up to its load line, and the plan beside what was
// measured, both drawn larger.
class DeviceView {
  constructor(id) {
    this.total = el("p", {class: "total"});
    this.fill = new StackedBar();
    this.lineText = el("span");
    this.line = el("div", {class: "load-line"}, el("span", {class: "load-mark"}));
    this.lens = el("div", {class: "lens"});
    this.planned = new StackedBar();
    this.arenaNow = el("div", {class: "stretch arena"});
    this.processNow = el("div", {class: "stretch host"});
    this.peak = el("div", {class: "peak"});
    this.measured = el("div", {class: "bar", role: "img"},
      this.arenaNow, this.processNow, this.peak);
    this.plannedText = el("span");
    this.measuredText = el("span");
    this.rows = Object.fromEntries(
      KINDS.map(([kind, name]) => [kind, new LegendRow(name, kind)]));
    this.arena = new LegendRow("Arena", "arena", true);
    this.all = new LegendRow("All", null, true);
    const {weights, kv, scratch, host, margin} = this.rows;
    this.node = el("section", {class: "device"},
      el("h3", {}, id), this.total,
      el("p", {class: "line-text"}, this.lineText),
      el("div", {class: "hold"}, this.fill.node, this.line), this.lens,
      el("div", {class: "pair-of-bars"},
        el("p", {}, "Planned", this.plannedText), this.planned.node,
        el("p", {}, "Measured", this.measuredText), this.measured),
      el("table", {class: "legend"},
        el("thead", {}, el("tr", {}, el("th", {scope: "col"}, "Bytes"),
          el("th", {scope: "col"}, "planned"), el("th", {scope: "col"}, "measured"))),
        el("tbody", {}, ...[weights, kv, scratch, this.arena, host, margin, this.all]
          .map((row) => row.node))));
  }

  update(device, parts) {
    const bytes = Object.fromEntries(KINDS.map(([kind]) => [kind, 0]));
    const arena = {planned: 0, measured: 0};
    let pages = 0;
    let usedPages = 0;
    for (const {part, model} of parts) {
      for (const [kind, count] of Object.entries(kindsOf(part))) bytes[kind] += count;
      arena.planned += part.measured.arena_planned_bytes;
      arena.measured += part.measured.arena_bytes;
      pages += model.kv_pages;
      usedPages += model.kv_used_pages;
    }
    const planned = device.planned_bytes;
    const measured = device.measured_bytes;
    const budget = device.budget_bytes;
    const usedShare = pages > 0 ? usedPages / pages : 0;
    const plan = KINDS.filter(([kind]) => bytes[kind] > 0)
      .map(([kind, name]) => `${name} ${formatBytes(bytes[kind])}`).join(", ");

    setText(this.total, `${formatBytes(planned)} of ${formatBytes(budget)}, ` +
      `${formatBytes(Math.max(budget - planned, 0))} stay free`);
    const hull = Math.max(budget, planned);
    this.fill.update(bytes, hull, usedShare,
      `${formatBytes(planned)} planned, the load line is at ${formatBytes(budget)}`);
    this.line.style.left = percent(budget, hull);
    setText(this.lineText, `load line ${formatBytes(budget)}`);
    // What is drawn larger below.
    this.lens.style.clipPath =
      `polygon(0 0, ${percent(planned, hull)} 0, 100% 100%, 0 100%)`;

    const peak = device.peak_bytes ?? 0;
    const scale = Math.max(planned, measured ?? 0, peak);
    this.planned.update(bytes, scale, usedShare, `Planned: ${plan}`);
    setText(this.plannedText, formatBytes(planned));
    // The system may have taken pages of the arena out of memory.
    const arenaNow = Math.min(arena.measured, measured ?? 0);
    const processNow = measured === null ? null : measured - arenaNow;
    this.arenaNow.style.width = percent(arenaNow, scale);
    this.processNow.style.width = percent(processNow ?? 0, scale);
    this.peak.hidden = peak === 0;
    this.peak.style.left = percent(peak, scale);
    const peakText = peak > 0 ? `, peak ${formatBytes(peak)}` : "";
    const text = measured === null ? "not known" : `${formatBytes(measured)}${peakText}`;
    setText(this.measuredText, text);
    this.measured.setAttribute("aria-label", `Measured: ${text}`);

    for (const [kind] of KINDS) {
      this.rows[kind].update(bytes[kind], null);
      this.rows[kind].node.hidden = bytes[kind] === 0;
    }
    this.arena.update(arena.planned, arena.measured);
    this.rows.host.update(bytes.host, processNow);
    this.rows.host.node.hidden = bytes.host === 0 && !processNow;
    this.all.update(planned, measured);
  }
}

// The regions of a part, one a row.
function regionTable(part) {
  const rows = part.regions.filter(({bytes}) => bytes > 0).map((region) => {
    const place = region.mapped ? "mapped file" : region.on_host ? "host" : region.basis;
    return el("tr", {}, el("th", {scope: "row"}, region.name),
      el("td", {}, formatBytes(region.bytes)), el("td", {class: "basis"}, place),
      el("td", {class: "formula"}, region.formula));
  });
  return el("table", {class: "regions"}, el("tbody", {}, ...rows));
}

// What a model does.
class ModelView {
  constructor(id) {
    this.facts = el("p", {class: "facts"});
    this.slots = el("p");
    this.pages = el("p");
    this.meter = el("meter", {min: "0", max: "1", "aria-label": "pages of the KV cache in use"});
    this.tokens = el("p");
    this.body = el("div", {}, this.slots, this.pages, this.meter, this.tokens);
    this.regions = el("div", {class: "table", tabindex: "0"});
    this.details = el("details", {}, el("summary", {}, "Every region of the plan"), this.regions);
    this.error = el("p", {class: "error"});
    this.node = el("section", {class: "model-view"},
      el("h3", {}, id), this.facts, this.body, this.details, this.error);
    this.counted = null;  // tokens and when
    this.shown = "";      // the plan that the table shows
  }

  update(model, now) {
    const isLoaded = model.parts.length > 0;
    const facts = isLoaded
      ? `${model.architecture}, ${plural(model.n_slots, "slot")} of ` +
        `${formatCount(model.n_ctx)} tokens`
      : model.state;
    setText(this.facts, isLoaded && model.state !== "ready" ? `${facts}, ${model.state}` : facts);
    setText(this.error, model.error ?? "");
    this.body.hidden = !isLoaded;
    this.details.hidden = !isLoaded;
    if (!isLoaded) return;
    const waiting = model.waiting > 0 ? `, ${formatCount(model.waiting)} waiting` : "";
    setText(this.slots, `${model.running} of ${plural(model.n_slots, "slot")} busy${waiting}`);
    setText(this.pages, `${formatCount(model.kv_used_pages)} of ` +
      `${formatCount(model.kv_pages)} pages of ${model.page_tokens} tokens in use`);
    this.meter.value = model.kv_pages > 0 ? model.kv_used_pages / model.kv_pages : 0;
    setText(this.tokens, `${plural(model.generated_tokens, "token")} generated, ` +
      `${formatCount(model.prompt_tokens)} read` + this.#rate(model, now));
    const plan = JSON.stringify(model.parts.map((part) => part.regions));
    if (plan === this.shown) return;
    this.shown = plan;
    this.regions.replaceChildren(...model.parts.map(regionTable));
  }

  // Tokens a second since the last time, while some are generated.
  #rate(model, now) {
    const before = this.counted;
    this.counted = {tokens: model.generated_tokens, now};
    if (before === null || model.generated_tokens <= before.tokens) return "";
    const rate = (model.generated_tokens - before.tokens) / ((now - before.now) / 1000);
    return `, ${rate.toFixed(1)} tokens/s now`;
  }
}

// The panel. What is shown already stays in place and is changed there, so that
// open details and the focus do not move.
export class MemoryPanel {
  constructor(root) {
    this.devices = new Map();
    this.models = new Map();
    this.deviceList = el("div");
    this.modelList = el("div");
    root.append(el("h2", {}, "Memory"), this.deviceList, el("h2", {}, "Models"), this.modelList);
  }

  // Takes a reply of plimsoll/status that came at `now`, in milliseconds.
  update(status, now) {
    const partsOn = (id) => status.models.flatMap((model) =>
      model.parts.filter((part) => part.device === id).map((part) => ({part, model})));
    this.#keep(this.devices, this.deviceList, status.devices, (id) => new DeviceView(id));
    for (const device of status.devices) {
      this.devices.get(device.id).update(device, partsOn(device.id));
    }
    this.#keep(this.models, this.modelList, status.models, (id) => new ModelView(id));
    for (const model of status.models) this.models.get(model.id).update(model, now);
  }

  // Makes `views` those of `items`, by id.
  #keep(views, list, items, make) {
    const ids = items.map(({id}) => id);
    for (const [id, view] of views) {
      if (ids.includes(id)) continue;
      view.node.remove();
      views.delete(id);
    }
    for (const id of ids) {
      if (views.has(id)) continue;
      views.set(id, make(id));
      list.append(views.get(id).node);
    }
  }
}
