// Views, theme, keys and address; the start of the page.

function show(view) {
  state.view = view;
  for (const section of document.querySelectorAll("main > section")) section.hidden = section.id !== view;
  for (const button of document.querySelectorAll("[data-view]")) {
    if (button.dataset.view === view) button.setAttribute("aria-current", "page");
    else button.removeAttribute("aria-current");
  }
  if (view === "gallery") showGallery();
  if (view === "runs" && $("run").options.length && !chart) setUpTimeline();
  keepHash();
}

function keepHash() {
  const kept = new URLSearchParams();
  kept.set("view", state.view);
  for (const id of ["search", "status", "order", "model", "folder"]) if ($(id).value) kept.set(id, $(id).value);
  if (state.page) kept.set("page", state.page + 1);
  if (detail) kept.set("open", `${detail.output.folder}.${detail.output.index}`);
  try { history.replaceState(null, "", `#${kept}`); } catch { /* too often for this browser: the next change keeps it */ }
}

function readHash() {
  const kept = new URLSearchParams(location.hash.slice(1));
  for (const id of ["search", "status", "order", "model", "folder"]) if (kept.has(id)) $(id).value = kept.get(id);
  state.page = Math.max(0, (Number(kept.get("page")) || 1) - 1);
  const view = kept.get("view");
  show(document.querySelector(`[data-view="${CSS.escape(view ?? "")}"]`) ? view : state.view);
  const [folder, index] = (kept.get("open") ?? "").split(".").map(Number);
  const output = outputs.find((each) => each.folder === folder && each.index === index);
  if (kept.has("open") && output) openDetail(output, filtered());
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  $("theme").textContent = theme === "dark" ? "Light mode" : "Dark mode";
  try { localStorage.setItem("omni-gen theme", theme); } catch { /* no storage here */ }
  draw();
}

function totals() {
  const count = (status) => outputs.filter((output) => output.status === status).length;
  const parts = [["done", "", "done"], ["failed", "bad", "failed"], ["damaged", "bad", "missing or changed"], ["cancelled", "warn", "cancelled"]];
  $("totals").replaceChildren(...parts.filter(([status]) => status === "done" || count(status)).map(([status, kind, words]) =>
    make("li", { class: kind }, make("b", {}, number.format(count(status))), ` ${words}`)));
  const run = data.folders[0].runs.at(-1);
  if (run && data.folders.length === 1) {
    $("totals").append(make("li", {}, make("b", {}, number.format(run.outputs_per_second)), " outputs/s"),
      make("li", {}, make("b", {}, percent(run.output_hidden)), ` of output hidden${data.folders[0].runs.length > 1 ? " (last run)" : ""}`));
  }
}

function setUpFilters() {
  const models = data.folders.flatMap((folder, which) => folder.models.map((name, index) => [`${which}.${index}`, name]));
  $("model").replaceChildren(make("option", { value: "" }, "all"), ...models.map(([value, name]) => make("option", { value }, name)));
  $("model-label").hidden = models.length < 2;
  $("folder").replaceChildren(make("option", { value: "" }, "both"), ...data.folders.map((folder, which) => make("option", { value: String(which) }, folder.name)));
  $("folder-label").hidden = data.folders.length < 2;
  $("search").addEventListener("input", () => { state.page = 0; showGallery(); });
  for (const id of ["status", "order", "model", "folder"]) $(id).addEventListener("change", () => { state.page = 0; showGallery(); });
  for (const form of document.querySelectorAll("form")) form.addEventListener("submit", (event) => event.preventDefault());
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  if (event.target.matches("input, textarea, select, video, audio")) return;
  const search = state.view === "compare" ? $("pair-search") : $("search");
  if (event.key === "/") { event.preventDefault(); if (state.view !== "compare") show("gallery"); search.focus(); }
  const step = { ArrowLeft: 0, ArrowRight: 1 }[event.key];
  const pager = document.querySelector("section:not([hidden]) .pager");
  if (step !== undefined && pager) pager.querySelectorAll("button")[step]?.click();
});
for (const button of document.querySelectorAll("[data-view]")) button.addEventListener("click", () => show(button.dataset.view));
const isDark = () => (document.documentElement.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
$("theme").addEventListener("click", () => setTheme(isDark() ? "light" : "dark"));

let theme = null;
try { theme = localStorage.getItem("omni-gen theme"); } catch { /* no storage here */ }
if (theme === "dark" || theme === "light") setTheme(theme);
else $("theme").textContent = isDark() ? "Light mode" : "Dark mode";
totals();
setUpFilters();
showGroups();
showRuns();
if (data.pairs) setUpCompare();
readHash();
if (data.reload) {
  $("live").textContent = `· follows the run, every ${data.reload} s`;
  const reload = () => {
    const busy = document.querySelector("dialog[open]") || document.activeElement?.matches("input, select, textarea") || document.hidden;
    if (busy) setTimeout(reload, 1000);
    else location.reload();
  };
  setTimeout(reload, data.reload * 1000);
}
