// SPDX-License-Identifier: Apache-2.0
// The table of all parameters: opens its data, filters it while the reader
// types, and explains a parameter. Everything else of the page works without
// this script. Texts from files only ever become text nodes.
"use strict";

const kRowHeight = 30;  // pixels; as in page.css
const kMostGrid = 8;    // rows and columns of a drawn shard grid
const kMostDevices = 4096;

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

// Reads the data that report/html/page_data.h describes.
async function openData(text) {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream()
    .pipeThrough(new DecompressionStream("deflate"));
  const data = await new Response(stream).json();
  data.names = data.names.split("\n");
  data.names.pop();  // after the last line end
  return data;
}

// Returns a function that checks whether a row has all words; a `*` in a word
// stands for anything.
function matcher(query) {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  const tests = words.map((word) => {
    if (!word.includes("*")) return (text) => text.includes(word);
    const parts = word.split("*").map((part) =>
      part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
    const pattern = new RegExp(parts.join(".*"));
    return (text) => pattern.test(text);
  });
  return (text) => tests.every((test) => test(text));
}

// The parameters that match the filter, in the chosen order.
class Rows {
  constructor(data) {
    this.data = data;
    const column = (name) => data.columns.indexOf(name);
    this.columns = [
      { title: data.title, name: true },
      { title: "dtype", at: column("dtype"), extra: true },
      { title: "shape", at: column("shape"), extra: true },
      { title: "spec", at: column("spec") },
      { title: "per device", at: column("bytes per device"), number: true },
      { title: "copies", at: column("replicas"), number: true, extra: true },
    ];
    // The texts, besides their names, that parameters are found by.
    this.found = data.rests.map((rest) =>
      ["dtype", "shape", "spec"].map((name) => rest.cells[column(name)])
        .join(" ").toLowerCase());
    this.lower = data.names.map((name) => name.toLowerCase());
    this.sorted = { column: null, down: false };
    this.filter("");
  }

  filter(query) {
    const matches = matcher(query);
    const order = [];
    for (let i = 0; i < this.lower.length; i++) {
      if (matches(this.lower[i] + " " + this.found[this.data.rest[i]])) {
        order.push(i);
      }
    }
    this.order = order;
    this.sort();
  }

  sort() {
    const { column, down } = this.sorted;
    if (column === null) return;
    const key = (i) => {
      if (column.name) return this.data.names[i];
      const rest = this.data.rests[this.data.rest[i]];
      return rest.numbers[column.at] ?? rest.cells[column.at];
    };
    const sign = down ? -1 : 1;
    this.order.sort((a, b) => {
      const [x, y] = [key(a), key(b)];
      return (x < y ? -sign : x > y ? sign : a - b);
    });
  }

  text(i, column) {
    if (column.name) return this.data.names[i];
    return this.data.rests[this.data.rest[i]].cells[column.at] ?? "";
  }
}

// Returns the findings that name a parameter.
function findingsOf(data, index) {
  return data.findings.filter((finding) => {
    for (let i = 0; i < finding.names.length; i += 2) {
      const first = finding.names[i];
      if (index >= first && index < first + finding.names[i + 1]) return true;
    }
    return false;
  });
}

// Returns the axes of each dimension of a spec: null, "axis" or a list.
function axesOfDims(spec, rank) {
  const dims = (spec ?? []).map((axes) =>
    axes === null ? [] : Array.isArray(axes) ? axes : [axes]);
  while (dims.length < rank) dims.push([]);
  return dims;
}

// Draws which devices hold which slices; null if the shards are not all of one
// size, which `shardplan inspect --shard` draws.
function shardGrid(data, rest) {
  const devices = data.mesh.reduce((count, axis) => count * axis[1], 1);
  const shape = rest.shape ?? [];
  if (devices > kMostDevices || rest.view || rest.dealt || !shape.length) {
    return null;
  }
  const sizes = new Map(data.mesh);
  const dims = axesOfDims(rest.spec, shape.length);
  const parts = dims.map((axes) =>
    axes.reduce((count, axis) => count * (sizes.get(axis) ?? 1), 1));
  if (dims.length !== shape.length ||
      shape.some((size, dim) => size % parts[dim] !== 0)) return null;
  const cut = parts.map((_, dim) => dim).filter((dim) => parts[dim] > 1);
  if (cut.length > 2) return null;
  const [row, column] = cut.length === 2 ? cut : [undefined, cut[0] ?? 0];
  const holders = new Map();
  for (let device = 0; device < devices; device++) {
    const at = new Map();
    let rest_of = device;
    for (const [axis, size] of [...data.mesh].reverse()) {
      at.set(axis, rest_of % size);
      rest_of = Math.floor(rest_of / size);
    }
    const index = (dim) => dim === undefined ? 0 : dims[dim].reduce(
      (sum, axis) => sum * (sizes.get(axis) ?? 1) + (at.get(axis) ?? 0), 0);
    const key = index(row) + "," + index(column);
    if (!holders.has(key)) holders.set(key, []);
    holders.get(key).push(device);
  }
  const slice = (dim, i) => {
    const size = shape[dim] / parts[dim];
    return i * size + ":" + (i + 1) * size;
  };
  const table = element("table", { class: "grid" });
  table.append(element("caption", {},
    "Devices that hold each slice" +
    (row === undefined ? " of dimension " + column
      : " (rows: dimension " + row + ", columns: dimension " + column + ")")));
  const columns = Math.min(parts[column], kMostGrid);
  const rows = row === undefined ? 1 : Math.min(parts[row], kMostGrid);
  const head = element("tr");
  if (row !== undefined) head.append(element("td"));
  for (let c = 0; c < columns; c++) {
    head.append(element("th", { scope: "col" }, slice(column, c)));
  }
  table.append(head);
  for (let r = 0; r < rows; r++) {
    const line = element("tr");
    if (row !== undefined) {
      line.append(element("th", { scope: "row" }, slice(row, r)));
    }
    for (let c = 0; c < columns; c++) {
      const held = holders.get(r + "," + c) ?? [];
      const shown = held.slice(0, 6).join(", ") +
        (held.length > 6 ? ", … (" + held.length + ")" : "");
      line.append(element("td", {}, shown));
    }
    table.append(line);
  }
  const all = (row === undefined ? 1 : parts[row]) * parts[column];
  if (all > rows * columns) {
    table.append(element("tr", {}, element("td",
      { colspan: columns + (row === undefined ? 0 : 1) },
      "and " + (all - rows * columns) + " more slices")));
  }
  return table;
}

// Returns why a parameter is sharded as it is.
function detailOf(data, index) {
  const rest = data.rests[data.rest[index]];
  const cell = (name) => rest.cells[data.columns.indexOf(name)];
  const detail = element("section",
    { class: "detail", "aria-label": "One parameter", tabindex: "-1" });
  detail.append(element("h3", {}, element("code", {}, data.names[index])));
  const list = element("dl");
  const add = (term, text) => {
    if (text) list.append(element("dt", {}, term), element("dd", {}, text));
  };
  const number = Number(cell("rule"));
  const rule = data.rules[number - 1];
  if (rule) {
    add("decided by", "rule " + number + " " + rule.pattern +
      (rule.place ? "  (" + rule.place + ")" : ""));
  } else {
    add("decided by", "no rule");
  }
  add("requested", cell("requested"));
  add("spec", cell("spec"));
  add("shape", cell("shape") + ", on a device " + cell("local shape"));
  add("per device", cell("bytes per device"));
  add("shards", cell("shards"));
  add("copies of each", cell("replicas"));
  for (const text of data.corrections[data.rest[index]] ?? []) {
    add("corrected", text);
  }
  for (const finding of findingsOf(data, index)) {
    add("finding", finding.title);
    for (const help of finding.help) add("fix", help);
  }
  detail.append(list);
  const grid = shardGrid(data, rest);
  if (grid) {
    const scroll = element("div", { class: "scroll", tabindex: "0" });
    scroll.append(grid);
    detail.append(scroll);
  } else {
    detail.append(element("p", { class: "count" },
      "shardplan inspect --shard NAME draws its shards."));
  }
  const close = element("button", { type: "button" }, "Close");
  close.addEventListener("click", () => {
    detail.remove();
    document.querySelector(".rows").focus();
  });
  detail.append(close);
  return detail;
}

// The filter, the rows that are in view, and the detail of one.
class Explorer {
  constructor(data, place) {
    this.rows = new Rows(data);
    this.data = data;
    this.active = 0;
    this.input = element("input", {
      type: "search", id: "filter", autocomplete: "off", spellcheck: "false",
      placeholder: "mlp P(fsdp  or  layers.*.bias",
    });
    this.count = element("p", { class: "count", role: "status" });
    this.body = element("div", { role: "rowgroup" });
    this.head = element("div", { class: "head", role: "row" });
    for (const column of this.rows.columns) this.addTitle(column);
    this.box = element("div", {
      class: "rows", role: "grid", tabindex: "0",
      "aria-label": "Parameters: arrow keys move, Enter explains",
    }, this.head, this.body);
    place.append(
      element("div", { class: "search" },
        element("label", { for: "filter" }, "Filter"), this.input, this.count),
      this.box);
    this.place = place;
    this.input.addEventListener("input", () => this.filter(this.input.value));
    this.box.addEventListener("scroll", () => this.draw());
    this.box.addEventListener("keydown", (event) => this.key(event));
    this.body.addEventListener("click", (event) => {
      const row = event.target.closest("[data-row]");
      if (row) this.show(Number(row.dataset.row));
    });
    this.filter("");
  }

  addTitle(column) {
    const button = element("button", { type: "button" }, column.title);
    const cell = element("span", {
      role: "columnheader", "aria-sort": "none",
      class: (column.number ? "number " : "") + (column.extra ? "extra" : ""),
    }, button);
    button.addEventListener("click", () => {
      const sorted = this.rows.sorted;
      const down = sorted.column === column ? !sorted.down
        : Boolean(column.number);
      this.rows.sorted = { column, down };
      for (const other of this.head.children) {
        other.setAttribute("aria-sort", "none");
      }
      cell.setAttribute("aria-sort", down ? "descending" : "ascending");
      this.rows.sort();
      this.draw();
    });
    this.head.append(cell);
  }

  filter(query) {
    this.rows.filter(query);
    this.active = 0;
    this.box.scrollTop = 0;
    const found = this.rows.order.length;
    this.count.textContent = found.toLocaleString("en") + " of " +
      this.data.names.length.toLocaleString("en");
    this.box.setAttribute("aria-rowcount", found + 1);
    this.draw();
  }

  // Makes only the rows that can be seen.
  draw() {
    const { order, columns } = this.rows;
    this.body.style.height = order.length * kRowHeight + "px";
    const first = Math.max(0,
      Math.floor(this.box.scrollTop / kRowHeight) - 3);
    const last = Math.min(order.length,
      first + Math.ceil(this.box.clientHeight / kRowHeight) + 6);
    const rows = [];
    for (let at = first; at < last; at++) {
      const row = element("div", {
        class: at === this.active ? "cells active" : "cells",
        role: "row", "aria-rowindex": at + 2, "data-row": at, id: "row-" + at,
      });
      row.style.top = (at + 1) * kRowHeight + "px";
      for (const column of columns) {
        const text = this.rows.text(order[at], column);
        row.append(element("span", {
          role: "gridcell", title: text,
          class: (column.name ? "name" : column.number ? "number" : "") +
            (column.extra ? " extra" : ""),
        }, text));
      }
      rows.push(row);
    }
    this.body.replaceChildren(...rows);
    if (order.length) {
      this.box.setAttribute("aria-activedescendant", "row-" + this.active);
    } else {
      this.box.removeAttribute("aria-activedescendant");
    }
  }

  key(event) {
    if (event.target !== this.box) return;
    const page = Math.floor(this.box.clientHeight / kRowHeight) - 1;
    const moves = {
      ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page,
      Home: -this.rows.order.length, End: this.rows.order.length,
    };
    if (event.key === "Enter" && this.rows.order.length) {
      this.show(this.active);
    } else if (event.key in moves) {
      this.move(this.active + moves[event.key]);
    } else {
      return;
    }
    event.preventDefault();
  }

  move(to) {
    this.active = Math.max(0, Math.min(this.rows.order.length - 1, to));
    const top = this.active * kRowHeight;
    const height = this.box.clientHeight - 2 * kRowHeight;
    if (top < this.box.scrollTop) this.box.scrollTop = top;
    if (top > this.box.scrollTop + height) this.box.scrollTop = top - height;
    this.draw();
  }

  show(at) {
    this.move(at);
    this.place.querySelector(".detail")?.remove();
    const detail = detailOf(this.data, this.rows.order[at]);
    this.place.append(detail);
    detail.focus();
  }
}

// Switches between dark and light, against what the reader's system asks for.
function offerTheme() {
  const button = document.getElementById("theme");
  button.hidden = false;
  button.addEventListener("click", () => {
    const root = document.documentElement;
    const dark = root.dataset.theme
      ? root.dataset.theme === "dark"
      : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  });
}

async function start() {
  offerTheme();
  const stored = document.getElementById("data");
  if (!stored || !("DecompressionStream" in window)) return;
  const data = await openData(stored.textContent);
  const place = document.getElementById("explorer");
  place.hidden = false;
  place.parentElement.classList.add("opened");
  const explorer = new Explorer(data, place);
  // A module of the treemap shows its parameters.
  document.addEventListener("click", (event) => {
    const path = event.target.closest?.("[data-path]")?.dataset.path;
    if (path === undefined) return;
    explorer.input.value = path;
    explorer.filter(path);
    document.getElementById("parameters").scrollIntoView();
  });
}

start();
