// The figures of the runs, and what ran beside what.

function showRuns() {
  const heads = ["run", "outputs", "failed", "time", "outputs/s", "workers", "forwards", "forward", "output work", "hidden", "device idle", "longest gap"];
  const rows = [];
  data.folders.forEach((folder) => folder.runs.forEach((run) => {
    const cells = [new Date(run.started * 1000).toLocaleString(), number.format(run.outputs), number.format(run.failed), seconds(run.seconds), number.format(run.outputs_per_second), run.workers, number.format(run.forwards),
      seconds(run.forward_seconds), seconds(run.output_seconds), percent(run.output_hidden), percent(run.device_idle), seconds(run.longest_gap)];
    const name = data.folders.length > 1 ? `${folder.name}: ${cells[0]}` : cells[0];
    rows.push(make("tr", {}, make("th", { scope: "row" }, foreign(name)), ...cells.slice(1).map((cell) => make("td", {}, String(cell)))));
  }));
  if (!rows.length) {
    $("run-figures").replaceChildren(make("p", { class: "empty" }, "The rows do not tell when they were rendered: they are older than this page's version."));
    return;
  }
  const table = make("table", {}, make("thead", {}, make("tr", {}, ...heads.map((head) => make("th", { scope: "col" }, head)))), make("tbody", {}, ...rows));
  $("run-figures").replaceChildren(make("div", { class: "scroll", tabIndex: 0, role: "region", "aria-label": "Figures of the runs" }, table),
    make("p", { class: "summary" }, "Rows that a later run has replaced are not counted. Hidden: the share of D2H, encoding and writing that lies behind forwards of the same worker."));
  const choices = data.folders.flatMap((folder, which) => folder.runs.map((run, index) => make("option", { value: `${which}.${index}` }, `${data.folders.length > 1 ? `${folder.name}: ` : ""}${new Date(run.started * 1000).toLocaleString()}`)));
  $("run").replaceChildren(...choices);
  $("run").value = choices.at(-1).value;
}

const PHASES = ["forward", "d2h", "encode", "write"];
const LANE = 18, RATE = 40, BIN = 8;  // pixels: height of a lane, of the rate of outputs above them, width of its bars
let chart = null;

function setUpTimeline() {
  $("timeline-area").hidden = false;
  const choose = () => {
    const [which, run] = $("run").value.split(".").map(Number);
    chart = lanes(outputs.filter((output) => output.folder === which && output.run === run && output.spans.length));
    $("zoom").value = $("pan").value = 0;
    const figures = data.folders[which].runs[run];
    $("timeline-text").textContent = `${plural(figures.forwards, "forward")} on ${plural(figures.workers, "worker")} in ${seconds(figures.seconds)}: ` +
      `${percent(figures.output_hidden)} of ${seconds(figures.output_seconds)} of output work lies behind forwards; longest gap between forwards ${seconds(figures.longest_gap)}.`;
    draw();
  };
  $("run").addEventListener("change", choose);
  for (const id of ["zoom", "pan"]) $(id).addEventListener("input", draw);
  $("whole-run").addEventListener("click", () => { $("zoom").value = $("pan").value = 0; draw(); });
  $("timeline").addEventListener("pointermove", (event) => {
    const bar = barAt(event);
    $("timeline-hover").textContent = bar ? `${bar.output.id}: ${PHASES[bar.phase]} ${seconds(bar.length)} at ${seconds(bar.start)}` : "\u00a0";
  });
  $("timeline").addEventListener("click", (event) => { const bar = barAt(event); if (bar) openDetail(bar.output, [bar.output]); });
  new ResizeObserver(draw).observe($("timeline"));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  choose();
}

// One lane per worker for forwards and one for D2H; encode and write in as many lanes as ran at once.
function lanes(shown) {
  const bars = [], names = [], seen = new Set(), free = [];
  const workers = [...new Set(shown.map((output) => output.worker))].sort((a, b) => a - b);
  workers.forEach((worker) => names.push(`worker ${worker}: forward`, `worker ${worker}: D2H`));
  const byStart = [...shown].sort((a, b) => (a.spans[4] ?? 0) - (b.spans[4] ?? 0));
  for (const output of byStart) {
    const [forward, forwardLength, d2h, d2hLength, encode, encodeLength, write, writeLength] = output.spans;
    const at = 2 * workers.indexOf(output.worker);
    const add = (phase, start, length, lane) => {
      const key = `${phase} ${output.worker} ${start} ${phase ? output.id.replace(/-\d+$/, "") : ""}`;
      if (seen.has(key)) return;
      seen.add(key);
      bars.push({ phase, start, length, lane, output });
    };
    add(0, forward, forwardLength, at);
    if (d2h !== undefined) add(1, d2h, d2hLength, at + 1);
    if (encode === undefined) continue;
    const end = write === undefined ? encode + encodeLength : Math.max(encode + encodeLength, write + writeLength);
    let lane = free.findIndex((until) => until <= encode + 1e-4);
    if (lane < 0) lane = Math.min(free.length, 7);
    free[lane] = end;
    add(2, encode, encodeLength, names.length + lane);
    if (write !== undefined) add(3, write, writeLength, names.length + lane);
  }
  free.forEach((_, lane) => names.push(free.length > 1 ? `writer ${lane}` : "writer"));
  if (!bars.length) return { bars, names, ends: [], first: 0, last: 1 };
  const first = bars.reduce((least, bar) => Math.min(least, bar.start), Infinity);
  const last = bars.reduce((most, bar) => Math.max(most, bar.start + bar.length), -Infinity);
  bars.sort((a, b) => a.start - b.start);
  const ends = shown.map((output) => output.spans.at(-2) + output.spans.at(-1)).sort((a, b) => a - b);
  return { bars, names, ends, first, last: Math.max(last, first + 1e-3) };
}

function range() {
  const whole = chart.last - chart.first;
  const span = whole * (Math.max(0.2, Math.min(whole, 0.2)) / whole) ** ($("zoom").value / 100);
  const start = chart.first + (whole - span) * ($("pan").value / 1000);
  return { start, span };
}

function draw() {
  const canvas = $("timeline");
  if (!chart || !canvas.clientWidth) return;
  const ratio = devicePixelRatio || 1, width = canvas.clientWidth, height = RATE + chart.names.length * LANE + 26;
  canvas.style.height = `${height}px`;
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  const pen = canvas.getContext("2d");
  pen.scale(ratio, ratio);
  const colours = PHASES.map((phase) => getComputedStyle(document.querySelector(`.legend i.${phase}`)).color);
  const { start, span } = range();
  const x = (time) => ((time - start) / span) * width;
  const shown = chart.bars.filter((bar) => bar.start + bar.length >= start && bar.start <= start + span);
  if (shown.length * 2 > width) {
    drawShares(pen, shown, width, start, span, colours);
  } else {
    for (const bar of shown) {
      const left = x(bar.start), right = Math.max(left + 0.6, x(bar.start + bar.length));
      pen.fillStyle = colours[bar.phase];
      pen.fillRect(left, RATE + bar.lane * LANE + 2, right - left - (right - left > 4 ? 1 : 0), LANE - 4);
    }
  }
  const style = getComputedStyle(canvas);
  const rateText = drawRate(pen, width, start, span, getComputedStyle($("timeline-text")).color);
  pen.font = "11px system-ui, sans-serif";
  [rateText, ...chart.names].forEach((name, place) => {
    const top = place ? RATE + (place - 1) * LANE : 0;
    pen.fillStyle = style.backgroundColor;
    pen.globalAlpha = 0.85;
    pen.fillRect(4, top + 3, pen.measureText(name).width + 6, LANE - 6);
    pen.globalAlpha = 1;
    pen.fillStyle = style.color;
    pen.fillText(name, 7, top + 13);
  });
  const step = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 86400].find((each) => (each / span) * width > 70) ?? span;
  for (let time = Math.ceil(start / step) * step; time < start + span; time += step) {
    pen.fillStyle = style.color;
    pen.fillRect(x(time), height - 26, 1, 5);
    pen.fillText(`${number.format(time)} s`, x(time) + 3, height - 8);
  }
}

// Bars too many to tell apart: each column of pixels is as high as the share of its time that the phases took.
function drawShares(pen, shown, width, start, span, colours) {
  const shares = chart.names.map(() => PHASES.map(() => new Float64Array(Math.ceil(width))));
  for (const bar of shown) {
    const left = ((bar.start - start) / span) * width, right = ((bar.start + bar.length - start) / span) * width;
    const columns = shares[bar.lane][bar.phase];
    for (let column = Math.max(0, Math.floor(left)); column < Math.min(columns.length, right); column += 1) {
      columns[column] += Math.min(right, column + 1) - Math.max(left, column);
    }
  }
  shares.forEach((phases, lane) => {
    const bottom = new Float64Array(Math.ceil(width));
    phases.forEach((columns, phase) => {
      pen.fillStyle = colours[phase];
      columns.forEach((share, column) => {
        const high = Math.min(share, 1 - bottom[column]) * (LANE - 4);
        if (high > 0) pen.fillRect(column, RATE + lane * LANE + LANE - 2 - bottom[column] * (LANE - 4) - high, 1, high);
        bottom[column] += high / (LANE - 4);
      });
    });
  });
}

// Outputs that were complete in each stretch of the axis; returns what the highest bar stands for.
function drawRate(pen, width, start, span, colour) {
  const count = Math.max(1, Math.floor(width / BIN)), bins = new Array(count).fill(0);
  for (const end of chart.ends) {
    const bin = Math.floor(((end - start) / span) * count);
    if (bin >= 0 && bin < count) bins[bin] += 1;
    else if (end === start + span) bins[count - 1] += 1;
  }
  const most = Math.max(...bins);
  pen.fillStyle = colour;
  bins.forEach((outputs, bin) => {
    const high = most ? (outputs / most) * (RATE - LANE) : 0;
    pen.fillRect((bin * width) / count, RATE - high, width / count - 1, high);
  });
  return `outputs, up to ${number.format((most * count) / span)}/s`;
}

function barAt(event) {
  const box = $("timeline").getBoundingClientRect(), { start, span } = range();
  const lane = Math.floor((event.clientY - box.top - RATE) / LANE), time = start + ((event.clientX - box.left) / box.width) * span;
  const slack = (span / box.width) * 2;
  return chart.bars.find((bar) => bar.lane === lane && time >= bar.start - slack && time <= bar.start + bar.length + slack);
}
