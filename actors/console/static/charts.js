// The curves of a page, by uPlot: points from the page itself, and those that the stream adds.

const NARROW = "\u202f";

function number(value) {
  if (value === null || value === undefined) return "\u2013";
  for (const [limit, unit] of [[1e9, "G"], [1e6, "M"], [1e4, "k"]]) {
    if (value >= limit) return `${+(value / (unit === "k" ? 1e3 : limit)).toPrecision(3)}${NARROW}${unit}`;
  }
  return String(+value.toPrecision(4));
}

function length(value) {
  if (value === null || value === undefined) return "\u2013";
  if (value < 90) return `${+value.toPrecision(3)}${NARROW}s`;
  if (value < 5400) return `${+(value / 60).toPrecision(3)}${NARROW}min`;
  return `${+(value / 3600).toPrecision(3)}${NARROW}h`;
}

// Records are whole, and what is a round number of seconds is none of minutes.
const steps = {
  lag: [...Array(16).keys()].flatMap((power) => [1, 2, 5].map((digit) => digit * 10 ** power)),
  age: [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800],
};
const said = { lag: number, age: length };

// A colour of the style as the canvas takes it: what it is now, in the light or in the dark.
function colour(name, place) {
  place.style.color = `var(${name})`;
  const found = getComputedStyle(place).color;
  place.style.color = "";
  return found;
}

const faint = (found) => found.replace("rgb(", "rgba(").replace(")", ", 0.12)");

class Charts {
  constructor() {
    const data = document.getElementById("series");
    this.series = data ? JSON.parse(data.textContent) : null;
    this.made = [];
    this.waits = 0;
    if (this.series) {
      addEventListener("resize", () => {
        cancelAnimationFrame(this.waits);
        this.waits = requestAnimationFrame(() => this.draw());
      });
    }
  }

  add(more) {
    if (!this.series) return;
    const { times, values } = this.series;
    Object.assign(this.series, { marks: more.marks, window: more.window, axis: more.axis });
    times.push(...more.times);
    const inside = times.findIndex((time) => time >= more.window[0]);
    const past = Math.max(0, (inside < 0 ? times.length : inside) - 1); // the line comes in from the left
    times.splice(0, past);
    for (const [key, found] of Object.entries(more.values)) {
      values[key].push(...found);
      values[key].splice(0, past);
    }
    if (this.made.length || times.length < 2) for (const each of this.made) each.plot.setData(this.data(each.key));
    else this.draw();
  }

  data(key) {
    return [this.series.times.map((time) => time / 1000), this.series.values[key]];
  }

  draw() {
    if (!this.series || typeof uPlot === "undefined") return;
    for (const each of this.made) each.plot.destroy();
    this.made = [];
    for (const place of document.querySelectorAll("[data-chart]")) {
      const key = place.dataset.chart;
      place.replaceChildren();
      if (this.series.times.length < 2) {
        place.textContent = "The curve begins with the second look.";
        continue;
      }
      this.made.push({ key, plot: this.plot(key, place) });
    }
  }

  plot(key, place) {
    const names = [`--chart-${key}`, "--line", "--note", "--join"];
    const [line, grid, ink, band] = names.map((name) => colour(name, place));
    const tip = document.createElement("div");
    tip.className = "tip";
    place.append(tip);
    const axis = { stroke: ink, font: "11.5px Inter, sans-serif", grid: { stroke: grid, width: 1 }, ticks: { show: false } };
    const marks = (u) => {
      const { ctx } = u;
      ctx.save();
      ctx.strokeStyle = band;
      ctx.globalAlpha = 0.65;
      ctx.lineWidth = Math.max(1, devicePixelRatio);
      for (const [time] of this.series.marks) {
        const x = u.valToPos(time / 1000, "x", true);
        if (x < u.bbox.left || x > u.bbox.left + u.bbox.width) continue;
        ctx.beginPath();
        ctx.moveTo(x, u.bbox.top);
        ctx.lineTo(x, u.bbox.top + u.bbox.height);
        ctx.stroke();
      }
      ctx.restore();
    };
    const tell = (u) => {
      const at = u.cursor.idx;
      const last = u.data[0].length - 1;
      const which = at ?? last;
      const when = new Date(u.data[0][which] * 1000).toISOString().slice(11, 19);
      tip.textContent = at === null || at === undefined ? "" : `${said[key](u.data[1][which])} \u00b7 ${when}`;
    };
    return new uPlot({
      width: place.clientWidth,
      height: place.clientHeight,
      padding: [8, 18, 0, 0],
      tzDate: (time) => uPlot.tzDate(new Date(time * 1000), "Etc/UTC"),
      cursor: { sync: { key: "lag" }, y: false, points: { size: 7 } },
      legend: { show: false },
      scales: { x: { time: true, range: () => this.series.window.map((time) => time / 1000) }, y: { range: (_, __, top) => [0, top > 0 ? top * 1.12 : 1] } },
      axes: [
        { ...axis, splits: () => this.series.axis.map(([time]) => time / 1000), values: () => this.series.axis.map(([, text]) => text), size: 26 },
        { ...axis, values: (_, values) => values.map((value) => said[key](value)), size: 58, incrs: steps[key] },
      ],
      series: [{}, { stroke: line, width: 1.75, fill: faint(line), points: { show: false }, spanGaps: false }],
      hooks: { draw: [marks], setCursor: [tell] },
    }, this.data(key), place);
  }
}

export const charts = new Charts();
