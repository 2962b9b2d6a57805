// Makes tables sortable and filterable. The page is complete without it.
"use strict";
for (const table of document.querySelectorAll("table.tools")) {
	const body = table.tBodies[0], rows = [...body.rows], heads = [...table.tHead.rows[0].cells];
	const value = (row, i) => { const cell = row.cells[i], text = cell.textContent; return { text, n: "key" in cell.dataset ? Number(cell.dataset.key) : NaN }; };
	const compare = i => (a, b) => {
		const x = value(a, i), y = value(b, i);
		// Cells without a number stay at the end.
		if (isNaN(x.n) !== isNaN(y.n)) return isNaN(x.n) ? 2 : -2;
		return isNaN(x.n) ? x.text.localeCompare(y.text, undefined, { numeric: true }) : x.n - y.n;
	};
	heads.forEach((head, i) => {
		if (!head.textContent) return;
		const button = document.createElement("button");
		button.type = "button";
		button.append(...head.childNodes);
		head.append(button);
		button.addEventListener("click", () => {
			// Numbers start with the largest.
			const was = head.getAttribute("aria-sort"), numbers = rows.some(r => "key" in r.cells[i].dataset);
			const up = was ? was === "descending" : !numbers;
			for (const h of heads) h.removeAttribute("aria-sort");
			head.setAttribute("aria-sort", up ? "ascending" : "descending");
			const by = compare(i);
			rows.sort((a, b) => { const c = by(a, b); return Math.abs(c) === 2 && isNaN(value(a, i).n) !== isNaN(value(b, i).n) || up ? c : -c; });
			body.append(...rows);
		});
	});
	table.classList.add("sortable");
	if (rows.length < 10) continue;
	const box = document.createElement("div"), label = document.createElement("label"), input = document.createElement("input"), count = document.createElement("span");
	const name = table.parentElement.getAttribute("aria-label");
	box.className = "filter";
	input.type = "search";
	label.append("Filter ", input);
	input.setAttribute("aria-label", "Filter " + name);
	count.setAttribute("role", "status");
	count.className = "soft";
	box.append(label, count);
	table.parentElement.before(box);
	input.addEventListener("input", () => {
		const words = input.value.toLowerCase().split(/\s+/);
		let shown = 0;
		for (const row of rows) {
			const text = row.textContent.toLowerCase();
			row.hidden = !words.every(w => text.includes(w));
			if (!row.hidden) shown++;
		}
		count.textContent = input.value ? shown + " of " + rows.length + " rows" : "";
	});
}
