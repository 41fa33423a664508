#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Opens HTML reports in Chromium and uses them as a reader would.

    page_test.py PROGRAM [--pictures FOLDER]

For every kind of report: no request, no complaint, nothing wider than the
screen, texts that can be read, names for what a screen reader meets; at 360,
800 and 1,400 pixels, light and dark. Then the filter, the keyboard, a click,
and names that try to be markup. Without a Chromium that starts it ends with 77,
which ctest counts as skipped. --pictures also writes a PNG of each page and a PDF.
"""
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from browser import Browser  # noqa: E402

kRoot = pathlib.Path(__file__).resolve().parents[2]
kConfigs = kRoot / "tests/data/configs"
kModel = "llama-3.1-70b.json"
kSmall = "llama-3.2-1b.json"
kLargest = 2 * 10**6  # bytes of a report of 100,000 parameters

kBroken = r"""
axes: [fsdp, tp, sp]
rules:
  - ["embed_tokens", [tp, fsdp]]
  - ["self_attn\\.(q|k|v)_proj", [tpx, fsdp]]
  - ["o_proj", [fsdp, tp]]
  - ["mlp\\.(gate|up)_proj", [[tp, fsdp], null]]
  - ["mlp.*", [null, tp]]
  - ["norm", []]
"""
kGated = """
targets:
  train:
    model: config.json
    rules: [rules.yaml]
    mesh: fsdp=8,tp=8
    optimizer: adamw
    hardware: h100-sxm
"""
kBefore = """
rules:
  - ["embed_tokens|lm_head", [tp, fsdp]]
  - ["(q|k|v|gate|up)_proj", [tp, fsdp]]
  - ["(o|down)_proj", [fsdp, tp]]
  - ["norm", []]
"""
kHostile = ["<script>alert(1)</script>", "</script><img src=x onerror=x()>",
            "&lt;b&gt;", '" onmouseover="x()', "a\\b\nc", "x\u202ey"]

# Every text whose contrast with what is behind it is too low: WCAG 2.1, 1.4.3.
kLowContrast = r"""
(() => {
  const parse = (text) => {
    const found = text.match(/rgba?\(([^)]+)\)/);
    if (!found) return null;
    const [r, g, b, a] = found[1].split(/[ ,\/]+/).map(Number);
    return { r, g, b, a: a === undefined || Number.isNaN(a) ? 1 : a };
  };
  const over = (top, below) => ({
    r: top.r * top.a + below.r * (1 - top.a),
    g: top.g * top.a + below.g * (1 - top.a),
    b: top.b * top.a + below.b * (1 - top.a), a: 1 });
  const luminance = ({ r, g, b }) => {
    const part = (value) => {
      const s = value / 255;
      return s <= 0.03928 ? s / 12.92 : ((s + 0.055) / 1.055) ** 2.4;
    };
    return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
  };
  const behind = (element, x, y) => {
    let colour = parse(getComputedStyle(document.documentElement)
      .backgroundColor);
    if (!colour || colour.a === 0) colour = { r: 255, g: 255, b: 255, a: 1 };
    const stack = document.elementsFromPoint(x, y).reverse();
    for (const each of stack) {
      if (each.tagName === "text") continue;
      const style = getComputedStyle(each);
      const shape = each instanceof SVGElement && each.tagName !== "svg";
      const paint = parse(shape ? style.fill : style.backgroundColor);
      if (!paint) continue;
      if (shape) paint.a *= Number(style.fillOpacity);
      colour = over(paint, colour);
      if (each === element) break;
    }
    return colour;
  };
  const low = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  let checked = 0;
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    if (!node.nodeValue.trim()) continue;
    const element = node.parentElement;
    if (element.closest("script, title, .unseen, .skip")) continue;
    if (!element.checkVisibility()) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    let box = range.getClientRects()[0];
    if (!box || box.width === 0) continue;
    if (box.top < 0 || box.bottom > innerHeight) {
      element.scrollIntoView({ block: "center" });
      box = range.getClientRects()[0];
    }
    const x = Math.min(Math.max(box.x + box.width / 2, 1), innerWidth - 2);
    const y = box.y + box.height / 2;
    const style = getComputedStyle(element);
    const svg = element instanceof SVGElement;
    const text = parse(svg ? style.fill : style.color);
    if (!text) continue;
    const below = behind(element, x, y);
    const [a, b] = [luminance(over(text, below)), luminance(below)];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const size = parseFloat(style.fontSize);
    const large = size >= 24 ||
      (size >= 18.66 && Number(style.fontWeight) >= 700);
    checked++;
    if (ratio < (large ? 3 : 4.5)) {
      low.push(node.nodeValue.trim().slice(0, 40) + " " + ratio.toFixed(2) +
        " " + element.tagName + "." + element.getAttribute("class"));
    }
  }
  scrollTo(0, 0);
  return { low, checked };
})()
"""

# What a screen reader could not name or find: some of axe's rules.
kUnnamed = r"""
(() => {
  const wrong = [];
  const add = (rule, element) =>
    wrong.push(rule + ": " + element.outerHTML.slice(0, 100));
  if (!document.documentElement.lang) wrong.push("html-has-lang");
  if (!document.title.trim()) wrong.push("document-title");
  if (document.querySelectorAll("main").length !== 1) wrong.push("one main");
  if (document.querySelectorAll("h1").length !== 1) wrong.push("one h1");
  const ids = new Set();
  for (const each of document.querySelectorAll("[id]")) {
    if (ids.has(each.id)) add("duplicate-id", each);
    ids.add(each.id);
  }
  let level = 0;
  for (const each of document.querySelectorAll("h1, h2, h3, h4")) {
    const own = Number(each.tagName[1]);
    if (own > level + 1) add("heading-order", each);
    level = own;
    if (!each.textContent.trim()) add("empty-heading", each);
  }
  for (const each of document.querySelectorAll("svg")) {
    if (each.getAttribute("role") !== "img" || !each.ariaLabel) {
      add("svg-img-alt", each);
    }
  }
  for (const each of document.querySelectorAll("button, summary, a")) {
    if (!each.textContent.trim()) add("button-name", each);
  }
  for (const each of document.querySelectorAll("input")) {
    if (!each.labels.length) add("label", each);
  }
  for (const each of document.querySelectorAll("th")) {
    if (!each.scope) add("scope-attr-valid", each);
    if (!each.textContent.trim()) add("empty-table-header", each);
  }
  for (const each of document.querySelectorAll("[aria-labelledby]")) {
    if (!document.getElementById(each.getAttribute("aria-labelledby"))) {
      add("aria-valid-attr-value", each);
    }
  }
  for (const each of document.querySelectorAll("*")) {
    const style = getComputedStyle(each);
    const scrolls = /auto|scroll/.test(style.overflowX + style.overflowY) &&
      (each.scrollWidth > each.clientWidth + 1 ||
       each.scrollHeight > each.clientHeight + 1);
    if (scrolls && each.tabIndex < 0 && each.tagName !== "HTML") {
      add("scrollable-region-focusable", each);
    }
  }
  for (const each of document.querySelectorAll("section")) {
    if (!each.getAttribute("aria-labelledby") && !each.ariaLabel) {
      add("region", each);
    }
  }
  return wrong;
})()
"""

kTooWide = "document.documentElement.scrollWidth - innerWidth"
kOpened = ("!document.getElementById('data') || "
           "!document.getElementById('explorer').hidden")


class Run:
    def __init__(self, program, pictures):
        self.program = os.path.abspath(program)
        self.pictures = pictures
        self.folder = tempfile.mkdtemp()
        self.failures = []
        self.checks = 0
        self.browser = Browser(find_chromium())

    def check(self, fine, text):
        self.checks += 1
        if not fine:
            self.failures.append(text)
            print("FAILED", text)

    def file(self, name, text):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8", errors="surrogatepass") as out:
            out.write(text)
        return path

    def report(self, name, *arguments):
        path = os.path.join(self.folder, name + ".html")
        done = subprocess.run([self.program, *map(str, arguments), "-o", path],
                              cwd=self.folder, capture_output=True, text=True)
        self.check(done.returncode in (0, 1) and os.path.exists(path),
                   f"{name}: exit {done.returncode}: {done.stderr[:300]}")
        return path

    def open(self, path, width=800, dark=False):
        page = self.browser.open(path, width, dark=dark)
        page.wait_for(kOpened)
        return page


def find_chromium():
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if shutil.which(name):
            return name
    return None


def reports(run):
    """Writes a report of each command; returns their paths by name."""
    # Names without folders: pages show them.
    for name in (kModel, kSmall):
        shutil.copy(kConfigs / name, run.folder)
    run.file("broken.yaml", kBroken)
    for side, rules in (("old", kBefore),
                        ("new", kBefore.replace("[fsdp, tp]", "[fsdp, null]"))):
        run.file(side + "/rules.yaml", rules)
        run.file(side + "/shardplan.yaml", kGated)
        shutil.copy(kConfigs / kModel,
                    os.path.join(run.folder, side, "config.json"))
        subprocess.run([run.program, "resolve", kModel, "--rules",
                        side + "/rules.yaml", "--mesh", "fsdp=8,tp=8", "-o",
                        side + ".plan.json"], cwd=run.folder, check=True,
                       capture_output=True)
    step = ["--rules", "@llama", "--mesh", "fsdp=8,tp=8,sp=1", "--hardware",
            "h100-sxm", "--batch", "64", "--seq", "8192", "--optimizer",
            "adamw", "--microbatches", "8", "--remat", "block"]
    return {
        "analyze": run.report("analyze", "analyze", kModel, *step),
        "check": run.report("check", "check", kModel, "--rules",
                            "broken.yaml", "--mesh", "fsdp=8,tp=6"),
        "sweep": run.report("sweep", "sweep", kModel, "--rules", "@llama",
                            "--over", "fsdp,tp", "--devices", "64",
                            "--hardware", "h100-sxm", "--mode", "decode",
                            "--seq", "8192"),
        "plan": run.report("plan", "plan", kModel, "--devices", "64",
                           "--hardware", "h100-sxm"),
        "gate": run.report("gate", "gate", "old", "new"),
        "diff": run.report("diff", "diff", "old.plan.json", "new.plan.json"),
        "rules": run.report("rules", "diff", "old/rules.yaml",
                            "new/rules.yaml"),
        "simulate": run.report("simulate", "simulate", kSmall, "--rules",
                               "@llama", "--mesh", "fsdp=2,tp=2,sp=1",
                               "--vary", "tp"),
        "engine": run.report("engine", "analyze", kModel, "--engine", "vllm",
                             "--mode", "decode", "--mesh", "tp=8", "--hardware", "h100-sxm",
                             "--seq", "8192"),
    }


def check_looks(run, name, path):
    for width in (360, 800, 1400):
        for dark in (False, True):
            page = run.open(path, width, dark)
            what = f"{name} at {width}{', dark' if dark else ''}"
            wide = page.evaluate(kTooWide)
            run.check(wide <= 0, f"{what}: {wide} pixels too wide")
            contrast = page.evaluate(kLowContrast)
            run.check(contrast["checked"] > 5, f"{what}: no texts found")
            run.check(not contrast["low"],
                      f"{what}: low contrast: {contrast['low'][:4]}")
            unnamed = page.evaluate(kUnnamed)
            run.check(not unnamed, f"{what}: {unnamed[:4]}")
            if run.pictures:
                page.screenshot(run.pictures / f"{name}-{width}"
                                f"{'-dark' if dark else ''}.png")
                if width == 800 and not dark:
                    page.pdf(run.pictures / f"{name}.pdf")
            run.check(not page.requests, f"{what}: asks for {page.requests}")
            run.check(not page.complaints,
                      f"{what}: {page.complaints[:2]}")
            page.close()


kCount = "document.querySelector('.count').textContent"


def check_use(run, path):
    page = run.open(path)
    run.check(page.evaluate(kCount) == "723 of 723", "all parameters at first")
    rows = page.evaluate("document.querySelectorAll('.cells').length")
    run.check(0 < rows < 60, f"{rows} rows are made, not those in view")
    page.click("#filter")
    page.type("Layers.*.DOWN p(")
    run.check(page.evaluate(kCount) == "80 of 723",
              "filter: " + page.evaluate(kCount))
    # From the filter, Tab leads over the titles of the columns to the rows.
    for _ in range(12):
        page.key("Tab")
        if page.evaluate("document.activeElement.className") == "rows":
            break
    run.check(page.evaluate("document.activeElement.className") == "rows",
              "the rows can be reached with the keyboard")
    page.key("ArrowDown")
    page.key("Enter")
    name = page.evaluate(
        "document.activeElement.querySelector('h3').textContent")
    run.check(name == "model.layers.1.mlp.down_proj.weight",
              f"Enter explains {name}")
    detail = page.evaluate("document.querySelector('.detail').textContent")
    for part in ("rule 5", "broken.yaml", "dimension 1", "not divisible",
                 "SP203", "use `tp="):
        run.check(part in detail, f"the detail lacks {part!r}: {detail[:400]}")
    page.key("Tab")  # the drawing of shards, or the button
    page.evaluate("document.querySelector('.detail button').click()")
    run.check(page.evaluate("document.activeElement.className") == "rows",
              "Close leads back to the rows")
    page.key("End")
    run.check(page.evaluate(
        "document.querySelector('.cells.active .name').textContent") ==
        "model.layers.79.mlp.down_proj.weight", "End leads to the last row")
    sort = "document.querySelectorAll('.head button')[4].click()"
    page.evaluate("document.querySelector('#filter').value = '';"
                  "document.querySelector('#filter').dispatchEvent("
                  "new Event('input'))")
    page.evaluate(sort)
    run.check("lm_head" in page.evaluate(
        "document.querySelector('.cells .name').textContent"),
        "the largest comes first")
    page.evaluate("document.querySelector('[data-path*=embed]')"
                  ".dispatchEvent(new MouseEvent('click', {bubbles: true}))")
    run.check(page.evaluate(kCount) == "1 of 723",
              "a module of the treemap filters: " + page.evaluate(kCount))
    before = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.click("#theme")
    after = page.evaluate("getComputedStyle(document.body).backgroundColor")
    run.check(before != after, "the button changes the theme")
    run.check(not page.complaints, str(page.complaints[:2]))
    page.close()


def check_plain(run, path):
    """Without DecompressionStream, and on paper, there is a plain table."""
    page = run.browser.open(path)
    page.call("Page.addScriptToEvaluateOnNewDocument",
              source="delete window.DecompressionStream")
    page.call("Page.navigate", url=page.url)
    page.wait_for("document.readyState === 'complete'")
    rows = page.evaluate("document.querySelectorAll('#plain tbody tr').length")
    run.check(rows > 3, f"{rows} kinds of parameters")
    run.check(page.evaluate("document.getElementById('explorer').hidden"),
              "nothing is opened")
    run.check(not page.complaints, str(page.complaints[:2]))
    page.close()
    page = run.open(path)
    shown = "document.getElementById('plain').checkVisibility()"
    run.check(not page.evaluate(shown), "both tables are shown")
    page.call("Emulation.setEmulatedMedia", media="print")
    run.check(page.evaluate(shown), "paper lacks the parameters")
    page.close()


def check_hostile(run):
    parameters = {name: {"shape": [8, 8], "dtype": "f32"} for name in kHostile}
    model = run.file("hostile.json", json.dumps({"parameters": parameters}))
    rules = run.file("hostile.yaml", json.dumps(
        {"rules": [["</style><script>x()</script>", ["tp"]], [".*", ["tq"]]]}))
    path = run.report("hostile", "check", model, "--rules", rules, "--mesh",
                      "tp=2")
    page = run.open(path)
    run.check(page.evaluate("document.images.length") == 0, "an image was made")
    run.check(page.evaluate("document.scripts.length") == 2, "a script was made")
    names = page.evaluate(
        "[...document.querySelectorAll('.cells .name')]"
        ".map((cell) => cell.textContent)")
    run.check("<script>alert(1)</script>" in names, f"names: {names}")
    run.check("x\\u{202e}y" in names, f"names: {names}")
    run.check(not page.complaints, str(page.complaints[:2]))
    page.close()


def check_large(run):
    names = [f"model.layers.{i}.experts.{e}.{part}_proj.weight"
             for i in range(130) for e in range(256)
             for part in ("gate", "up", "down")]
    parameters = {name: {"shape": [256, 1024], "dtype": "bf16"}
                  for name in names}
    model = run.file("large.json", json.dumps({"parameters": parameters}))
    rules = run.file("large.yaml", json.dumps({"rules": [[".*", ["tp"]]]}))
    path = run.report("large", "analyze", model, "--rules", rules, "--mesh",
                      "tp=2")
    size = os.path.getsize(path)
    run.check(size < kLargest, f"{len(names)} parameters take {size} bytes")
    page = run.browser.open(path)
    opened = page.wait_for(kOpened)
    page.click("#filter")
    page.type("129.experts.255.up")
    run.check(page.evaluate(kCount) == f"1 of {len(names):,}",
              page.evaluate(kCount))
    print(f"{len(names):,} parameters: {size:,} bytes, open after "
          f"{opened:.2f} s")
    page.close()


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("program")
    arguments.add_argument("--pictures", type=pathlib.Path)
    asked = arguments.parse_args()
    if find_chromium() is None:
        print("no Chromium here: `scripts/setup --all` installs it")
        return 77
    if asked.pictures:
        asked.pictures.mkdir(parents=True, exist_ok=True)
    try:
        run = Run(asked.program, asked.pictures)
        print(run.browser.call("Browser.getVersion")["product"])
    except (OSError, RuntimeError, TimeoutError) as problem:
        print(f"Chromium does not start here: {problem}")
        return 77
    try:
        paths = reports(run)
        for name, path in paths.items():
            check_looks(run, name, path)
        check_use(run, paths["check"])
        check_plain(run, paths["check"])
        check_hostile(run)
        check_large(run)
    finally:
        run.browser.close()
        shutil.rmtree(run.folder)
    print(f"{run.checks} checks, {len(run.failures)} failed")
    return 1 if run.failures else 0


if __name__ == "__main__":
    sys.exit(main())
