// Two folders side by side.

const first = (pair) => (pair.first === null ? null : outputs[pair.first]);
const second = (pair) => (pair.second === null ? null : outputs[pair.second + offset[1]]);
const either = (pair) => first(pair) ?? second(pair);

function verdict(pair) {
  if (pair.first === null) return `only in ${data.folders[1].name}`;
  if (pair.second === null) return `only in ${data.folders[0].name}`;
  if (pair.levels === undefined) return pair.fault || "not compared";
  if (pair.levels === 0) return "bit-exact";
  return pair.levels > 255 ? "another size or type" : `differs by ${number.format(pair.mean)} of 255 levels, at most ${pair.levels}`;
}

// The fields in which two requests differ, and their models.
function changes(one, other) {
  if (!one || !other || !one.row || !other.row) return [];
  const model = (output) => data.folders[output.folder].models[output.model];
  const left = { ...JSON.parse(one.row), model: model(one) }, right = { ...JSON.parse(other.row), model: model(other) };
  const text = (value) => (value === undefined ? "–" : typeof value === "string" ? value : JSON.stringify(value));
  return [...new Set([...Object.keys(left), ...Object.keys(right)])].filter((name) => name !== "id" && text(left[name]) !== text(right[name]))
    .map((name) => [name, text(left[name]), text(right[name])]);
}

function showCompare() {
  const words = $("pair-search").value.toLowerCase().split(/\s+/).filter(Boolean);
  const wanted = {
    "": () => true,
    different: (pair) => pair.levels > 0,
    same: (pair) => pair.levels === 0,
    unpaired: (pair) => pair.first === null || pair.second === null,
    fault: (pair) => Boolean(pair.fault),
  }[$("pair-show").value];
  const found = data.pairs.filter((pair) => wanted(pair) && words.every((word) => either(pair).text.includes(word)));
  const rank = {
    mean: (pair) => (pair.levels > 255 ? Infinity : pair.mean ?? -1), ratio: (pair) => pair.ratio ?? -1, "-ratio": (pair) => -(pair.ratio ?? Infinity),
  }[$("pair-order").value];
  if (rank) found.sort((a, b) => rank(b) - rank(a) || 0);
  const pages = Math.max(1, Math.ceil(found.length / PAGE));
  state.pairPage = Math.min(state.pairPage, pages - 1);
  $("pairs").replaceChildren(...found.slice(state.pairPage * PAGE, (state.pairPage + 1) * PAGE).map((pair) => pairCard(pair, found)));
  $("no-pairs").hidden = found.length > 0;
  showPager("pairs", found.length, "comparison", state.pairPage, pages, (page) => { state.pairPage = page; showCompare(); });
  announce(plural(found.length, "comparison"));
}

function pairCard(pair, list) {
  const side = (output) => (output ? thumbnail(output) : make("span", { class: "frame" }, make("span", { class: "stand-in" }, "–")));
  const caption = make("span", { class: "caption" }, foreign(either(pair).prompt.slice(0, 300) || "(no prompt)", "prompt"), foreign(either(pair).id, "name"),
    make("span", { class: pair.levels === 0 ? "good" : "" }, foreign(verdict(pair))), ...(pair.ratio ? [`forward ×${number.format(pair.ratio)}`] : []));
  return make("li", {}, make("button", { type: "button", class: "pair", onclick: () => openVersus(pair, list) }, make("span", { class: "two" }, side(first(pair)), side(second(pair))), caption));
}

function openVersus(pair, list) {
  $("versus-title").replaceChildren(foreign(either(pair).id));
  const side = (output) => make("div", {}, output ? media(output, false) : make("span", { class: "stand-in" }, "–"));
  $("versus-stage").replaceChildren(side(first(pair)), side(second(pair)), make("span", { class: "edge" }),
    ...data.folders.map((folder) => make("span", { class: "badge" }, foreign(folder.name))));
  const times = [first(pair), second(pair)].map((output) => (output?.forward ? seconds(output.forward) : "–"));
  const rows = [
    [data.folders[0].name, first(pair)?.path ?? "–", times[0]],
    [data.folders[1].name, second(pair)?.path ?? "–", times[1]],
  ].map((cells) => make("tr", {}, make("th", { scope: "row" }, foreign(cells[0])), make("td", {}, foreign(cells[1])), make("td", {}, `forward ${cells[2]}`)));
  const changed = changes(first(pair), second(pair)).map(([name, one, other]) => make("li", {}, foreign(name), ": ", foreign(one), " → ", foreign(other)));
  const matched = pair.by && pair.by !== "id" ? ` · matched by ${pair.by}` : "";
  $("versus-facts").replaceChildren(
    make("p", {}, foreign(verdict(pair)), pair.ratio ? ` · forward ×${number.format(pair.ratio)}` : "", matched),
    make("table", {}, make("tbody", {}, ...rows)), make("div", { class: "text" }, foreign(either(pair).prompt)),
    ...(changed.length ? [make("h3", {}, "What differs in the request"), make("ul", { class: "text" }, ...changed)] : []));
  const players = [...$("versus-stage").querySelectorAll("video")];
  $("play").hidden = !players.length;
  $("play").textContent = "Play both";
  $("play").onclick = () => {
    const pause = players.some((player) => !player.paused);
    players.forEach((player) => { player.currentTime = players[0].currentTime; if (pause) player.pause(); else player.play(); });
    $("play").textContent = pause ? "Play both" : "Pause both";
  };
  steps($("versus"), list.indexOf(pair), list.length, (to) => openVersus(list[to], list));
  setMode();
  if (!$("versus").open) $("versus").showModal();
}

function setMode() {
  const mode = document.querySelector('input[name="mode"]:checked').value, stage = $("versus-stage");
  stage.dataset.mode = mode;
  for (const label of document.querySelectorAll("#versus [data-for]")) label.hidden = label.dataset.for !== mode;
  const border = Number($("border").value), gain = 2 ** Number($("gain").value);
  $("gain-text").textContent = `×${gain}`;
  if (stage.children.length < 3) return;
  stage.children[1].style.clipPath = mode === "slider" ? `inset(0 0 0 ${border}%)` : "";
  stage.children[2].style.left = `${border}%`;
  stage.style.filter = mode === "difference" ? `brightness(${gain})` : "";
}

function setUpCompare() {
  $("pair-search").addEventListener("input", () => { state.pairPage = 0; showCompare(); });
  for (const id of ["pair-show", "pair-order"]) $(id).addEventListener("change", () => { state.pairPage = 0; showCompare(); });
  for (const input of document.querySelectorAll('#versus input')) input.addEventListener("input", setMode);
  const both = data.pairs.filter((pair) => pair.first !== null && pair.second !== null);
  const ratios = both.map((pair) => pair.ratio).filter(Boolean).sort((a, b) => a - b);
  const middle = ratios.length ? ` Median forward of ${data.folders[1].name}: ×${number.format(ratios[Math.floor(ratios.length / 2)])} of ${data.folders[0].name}.` : "";
  const count = (wanted) => both.filter(wanted).length;
  $("compare-summary").textContent = `${plural(both.length, "pair")}: ${count((pair) => pair.levels === 0)} bit-exact, ${count((pair) => pair.levels === 1)} within one level, ` +
    `${count((pair) => pair.levels > 1)} different. Only in ${data.folders[0].name}: ${data.pairs.filter((pair) => pair.second === null).length}, only in ${data.folders[1].name}: ${data.pairs.filter((pair) => pair.first === null).length}.${middle}`;
  const stage = $("versus-stage");
  stage.addEventListener("pointermove", (event) => {
    if (!event.buttons || stage.dataset.mode !== "slider") return;
    const box = stage.getBoundingClientRect();
    $("border").value = ((event.clientX - box.left) / box.width) * 100;
    setMode();
  });
  showCompare();
}
