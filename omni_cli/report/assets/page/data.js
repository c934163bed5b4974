// The data of the page. Every text of it is foreign: it reaches the document through textContent and attributes alone.

const data = JSON.parse(document.getElementById("data").textContent);
const PAGE = 60, MAX_GROUPS = 200;
const $ = (id) => document.getElementById(id);
const number = new Intl.NumberFormat("en", { maximumFractionDigits: 2 });
const outputs = data.folders.flatMap((folder, which) =>
  folder.outputs.map((output, index) => ({ notes: [], spans: [], model: 0, run: -1, worker: 0, forward: 0, bytes: 0,
    frames: 0, kind: "", prompt: "", seed: "", fault: "", url: "", thumb: "", path: "", attempts: 1, width: 0, height: 0,
    row: "", ...output, folder: which, index })));
const offset = [0, data.folders[0].outputs.length];
const groups = data.folders.flatMap((folder, which) =>
  folder.groups.map((group) => ({ ...group, outputs: group.outputs.map((index) => index + offset[which]) })));
for (const output of outputs) {
  if (output.row) output.prompt = JSON.parse(output.row).prompt ?? "";
  output.text = [output.id, output.prompt, output.seed, output.path].join("\n").toLowerCase();
}
const state = { view: data.pairs ? "compare" : "gallery", page: 0, pairPage: 0, group: -1 };
