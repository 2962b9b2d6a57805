(() => {
"use strict";
// Colours are the page's, so that charts follow light and dark.
const color = name => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
const font = () => "12px " + getComputedStyle(document.body).fontFamily;
const number = v => v == null ? "" : String(Number(v.toPrecision(4)));
const axis = more => Object.assign({ stroke: color("soft"), font: font(), labelFont: font(), labelSize: 18, grid: { stroke: color("line"), width: 1 }, ticks: { stroke: color("line"), width: 1 } }, more);
const nothing = () => null;

// shape draws one sample: A is a disc, B a diamond, one that does not count a ring.
const shape = (ctx, x, y, r, arm, dropped, ink) => {
	ctx.beginPath();
	if (arm === "B") { const d = r * 1.3; ctx.moveTo(x, y - d); ctx.lineTo(x + d, y); ctx.lineTo(x, y + d); ctx.lineTo(x - d, y); ctx.closePath(); }
	else ctx.arc(x, y, r, 0, 2 * Math.PI);
	ctx.fillStyle = ctx.strokeStyle = color(ink);
	if (dropped) { ctx.globalAlpha = .6; ctx.lineWidth = uPlot.pxRatio; ctx.stroke(); ctx.globalAlpha = 1; } else ctx.fill();
};
const median = all => {
	const s = all.slice().sort((a, b) => a - b), n = s.length;
	return n === 0 ? null : n % 2 ? s[(n - 1) / 2] : (s[n / 2 - 1] + s[n / 2]) / 2;
};
// inside draws within the plotting area only.
const inside = (u, draw) => {
	const { ctx, bbox: b } = u;
	ctx.save();
	ctx.beginPath();
	ctx.rect(b.left, b.top, b.width, b.height);
	ctx.clip();
	draw(ctx, b);
	ctx.restore();
};
const across = (ctx, b, y, style, dash) => {
	ctx.beginPath();
	ctx.strokeStyle = style;
	ctx.lineWidth = 1.5 * uPlot.pxRatio;
	ctx.setLineDash(dash.map(d => d * uPlot.pxRatio));
	ctx.moveTo(b.left, y);
	ctx.lineTo(b.left + b.width, y);
	ctx.stroke();
	ctx.setLineDash([]);
};

const kinds = {
	samples(d, say) {
		const n = d.values.length, xs = d.values.map((_, i) => i + 1);
		const at = (u, i) => u.valToPos(i + 1, "x", true);
		// In the placebo both sides are the machine without the change.
		const changed = [...d.arms].map(() => false);
		for (const q of d.blocks) for (let i = q.from; i <= q.to; i++) changed[i] = q.phase === "blocks" && d.arms[i] === "B";
		const ink = i => changed[i] ? "b" : "a";
		const room = 40;
		return {
			data: [xs, d.values],
			options: {
				padding: [room, 12, 0, 0],
				scales: { x: { time: false, range: () => [.5, n + .5] }, y: { distr: d.log ? 3 : 1 } },
				axes: [axis({ label: "run", size: 32 }), axis({ label: d.unit ? d.name + ", " + d.unit : d.name, size: 62, values: (u, all) => all.map(number) })],
				series: [{}, { paths: nothing, points: { show: false } }],
				say: i => "run " + (i + 1) + ": " + (d.arms[i] === "B" ? "B " : "A ") + number(d.values[i]) + (d.unit ? " " + d.unit : "") + (d.dropped[i] ? ", does not count" : ""),
				under(u) {
					const { ctx, bbox: b } = u, r = uPlot.pxRatio, half = (at(u, 1) - at(u, 0)) / 2;
					d.blocks.forEach((q, k) => {
						if (k % 2) return;
						ctx.fillStyle = color("band");
						ctx.fillRect(at(u, q.from) - half, b.top, at(u, q.to) - at(u, q.from) + 2 * half, b.height);
					});
					// The order of the sides, a cell a run, and the parts of the experiment.
					ctx.textAlign = "center";
					ctx.textBaseline = "middle";
					for (let i = 0; i < n; i++) {
						const left = at(u, i) - half, w = 2 * half, top = b.top - 16 * r, h = 12 * r;
						ctx.globalAlpha = d.dropped[i] ? .35 : 1;
						ctx.fillStyle = color(ink(i));
						ctx.fillRect(left + Math.min(r, w * .1) / 2, top, w - Math.min(r, w * .1), h);
						if (w >= 9 * r) {
							ctx.fillStyle = color("bg");
							ctx.font = "bold " + 9 * r + "px " + getComputedStyle(document.body).fontFamily;
							ctx.fillText(d.arms[i], at(u, i), top + h / 2 + r / 2);
						}
						ctx.globalAlpha = 1;
					}
					ctx.font = 12 * r + "px " + getComputedStyle(document.body).fontFamily;
					ctx.textAlign = "left";
					for (const [phase, title] of [["placebo", ["placebo: both sides without", "placebo"]], ["blocks", ["the experiment", "experiment"]]]) {
						const all = d.blocks.filter(q => q.phase === phase);
						if (all.length === 0) continue;
						const left = at(u, all[0].from) - half, wide = at(u, all[all.length - 1].to) + half - left;
						ctx.fillStyle = color("soft");
						const fits = title.find(t => ctx.measureText(t).width < wide);
						if (fits) ctx.fillText(fits, left + 2 * r, b.top - 28 * r);
						if (phase === "blocks" && all[0].from > 0) {
							ctx.fillRect(left - r / 2, b.top - 36 * r, r, b.height + 36 * r);
						}
					}
				},
				over(u) {
					inside(u, (ctx, b) => {
						const first = d.blocks.find(q => q.phase === "blocks"), from = first ? first.from : 0;
						for (const arm of first ? ["A", "B"] : []) {
							const m = median(d.values.filter((_, i) => i >= from && d.arms[i] === arm && !d.dropped[i]));
							if (m === null) continue;
							const half = (at(u, 1) - at(u, 0)) / 2, left = at(u, from) - half;
							across(ctx, { left, width: b.left + b.width - left }, u.valToPos(m, "y", true), color(arm === "B" ? "b" : "a"), [5, 4]);
						}
						const r = Math.max(1.6, Math.min(4, u.width / n / 2.2)) * uPlot.pxRatio;
						for (let i = 0; i < n; i++) shape(ctx, at(u, i), u.valToPos(d.values[i], "y", true), r, d.arms[i], d.dropped[i], ink(i));
					});
				},
			},
		};
	},

	looks(d) {
		const n = d.blocks.length;
		return {
			data: [d.blocks.map((_, i) => i + 1), d.lows, d.highs, d.estimates, d.blocks],
			options: {
				padding: [10, 12, 0, 0],
				scales: { x: { time: false, range: () => [.5, n + .5] }, y: { range: () => d.range } },
				axes: [axis({ label: "block", size: 32, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000] }), axis({ label: "effect, %", size: 62, values: (u, all) => all.map(v => v > 0 ? "+" + number(v) : number(v)) })],
				series: [{}, { stroke: color("b"), width: 1, points: { show: false } }, { stroke: color("b"), width: 1, points: { show: false } }, { stroke: color("b"), width: 2.5, points: { show: false } }, { paths: nothing, points: { show: false } }],
				bands: [{ series: [2, 1], fill: color("b") + "30" }],
				say: i => "block " + (i + 1) + ": " + number(d.blocks[i]) + " %, estimate " + number(d.estimates[i]) + " %" + (d.lows[i] === null ? ", no interval yet" : ", interval " + number(d.lows[i]) + " to " + number(d.highs[i]) + " %"),
				under(u) {
					inside(u, (ctx, b) => {
						const high = u.valToPos(d.margin, "y", true), low = u.valToPos(-d.margin, "y", true);
						ctx.fillStyle = color("zone");
						ctx.fillRect(b.left, high, b.width, low - high);
						across(ctx, b, u.valToPos(0, "y", true), color("soft"), []);
					});
				},
				over(u) {
					inside(u, ctx => {
						const r = Math.max(1.6, Math.min(3.5, u.width / n / 3)) * uPlot.pxRatio;
						d.blocks.forEach((v, i) => shape(ctx, u.valToPos(i + 1, "x", true), u.valToPos(v, "y", true), r, "A", false, "a"));
					});
				},
			},
		};
	},

	curve(d, figure) {
		const nines = d.x.scale === "percentile", place = x => nines ? -Math.log10(1 - x / 100) : x;
		const xs = [...new Set(d.lines.flatMap(l => l.points.map(p => p[0])))].sort((a, b) => a - b);
		const lines = d.lines.map(l => { const m = new Map(l.points); return xs.map(x => m.has(x) ? m.get(x) : null); });
		const doubts = d.lines.map(l => { const m = new Map(l.points.map((p, i) => [p[0], (l.doubts || [])[i]])); return xs.map(x => m.get(x) || ""); });
		const style = i => ({ stroke: color("l" + (i % 6 + 1)), dash: [[], [8, 4], [2, 3], [8, 3, 2, 3]][Math.floor(i / 6) % 4] });
		const legend = figure.querySelector(".legend");
		legend.replaceChildren(...d.lines.map((l, i) => {
			const item = document.createElement("li"), ns = "http://www.w3.org/2000/svg", svg = document.createElementNS(ns, "svg"), path = document.createElementNS(ns, "path");
			svg.setAttribute("viewBox", "0 0 20 10");
			svg.setAttribute("class", "line");
			path.setAttribute("d", "M0 5h20");
			path.setAttribute("stroke", style(i).stroke);
			path.setAttribute("stroke-width", "3");
			path.setAttribute("stroke-dasharray", style(i).dash.join(" "));
			svg.append(path);
			item.append(svg, l.name);
			return item;
		}));
		if (doubts.some(l => l.some(Boolean))) {
			const item = document.createElement("li");
			item.append("\u25cb doubtful");
			legend.append(item);
		}
		const label = a => a.unit ? a.name + ", " + a.unit : a.name;
		const x = { time: false, distr: d.x.scale === "log" ? 3 : 1 };
		const across = axis({ label: label(d.x), size: 32, values: (u, all) => all.map(number) });
		const up = axis({ label: label(d.y), size: 62, values: (u, all) => all.map(number) });
		// Of a logarithmic axis every power of ten is drawn, or every value where they are few.
		if (d.y.scale === "log") up.grid.filter = up.ticks.filter = up.filter = (u, all) => all.map(v => v !== null && Math.abs(Math.log10(v) - Math.round(Math.log10(v))) < 1e-9 ? v : null);
		if (d.x.scale === "log" && xs.length <= 16) {
			across.splits = () => xs;
			x.range = () => [xs[0], xs[xs.length - 1]];
			across.filter = across.grid.filter = (u, all) => all;
		}
		if (nines) {
			x.range = (u, low, high) => [0, Math.max(1, high)];
			across.splits = (u, i, low, high) => [0, .30103, 1, 2, 3, 4, 5, 6].filter(v => v <= high + .01);
			across.values = (u, all) => all.map(v => v < .2 ? "0" : v < .5 ? "50" : v < 1.5 ? "90" : "99" + (v > 2.5 ? "." + "9".repeat(Math.round(v) - 2) : ""));
		}
		return {
			data: [xs.map(place), ...lines],
			options: {
				padding: [10, 16, 0, 0],
				scales: { x, y: { distr: d.y.scale === "log" ? 3 : 1 } },
				axes: [across, up],
				series: [{}, ...d.lines.map((l, i) => ({ width: 2, spanGaps: true, points: { show: true, size: 5, fill: style(i).stroke, stroke: style(i).stroke }, ...style(i) }))],
				say: i => label(d.x) + " " + number(xs[i]) + ": " + d.lines.map((l, k) => lines[k][i] === null ? "" : l.name + " " + number(lines[k][i]) + (doubts[k][i] ? " (" + doubts[k][i] + ")" : "")).filter(Boolean).join(" · "),
				over(u) {
					const ctx = u.ctx, r = uPlot.pxRatio;
					doubts.forEach((l, k) => l.forEach((doubt, i) => {
						if (!doubt || lines[k][i] === null) return;
						ctx.beginPath();
						ctx.arc(u.valToPos(place(xs[i]), "x", true), u.valToPos(lines[k][i], "y", true), 5 * r, 0, 2 * Math.PI);
						ctx.fillStyle = color("bg");
						ctx.strokeStyle = style(k).stroke;
						ctx.lineWidth = 2 * r;
						ctx.fill();
						ctx.stroke();
					}));
				},
			},
		};
	},
};

const charts = [];
const draw = chart => {
	const { figure, plot, data, out } = chart, made = kinds[figure.dataset.kind](data, figure), o = made.options;
	if (chart.plotted) chart.plotted.destroy();
	const hook = f => f ? [f] : [];
	chart.plotted = new uPlot({
		width: chart.width = plot.clientWidth, height: plot.clientWidth < 560 ? 260 : 330,
		padding: o.padding, scales: o.scales, axes: o.axes, series: o.series, bands: o.bands,
		legend: { show: false },
		cursor: { y: false, points: { size: 10 }, drag: { setScale: false, x: false, y: false } },
		hooks: { drawClear: hook(o.under), draw: hook(o.over), setCursor: [u => { out.textContent = u.cursor.idx == null ? "" : o.say(u.cursor.idx); }] },
	}, made.data, plot);
};
for (const figure of document.querySelectorAll("figure.chart")) {
	const chart = { figure, plot: figure.querySelector(".plot"), out: figure.querySelector(".readout"), data: JSON.parse(figure.querySelector("script").textContent) };
	draw(chart);
	charts.push(chart);
	new ResizeObserver(() => { if (chart.plot.clientWidth !== chart.width) draw(chart); }).observe(chart.plot);
}
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => charts.forEach(draw));
})();
