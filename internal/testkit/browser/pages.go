package browser

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"fettle.dev/fettle/internal/testkit/root"
)

// LookAt checks the pages DIR/NAME.html in a browser, wide and narrow, light and dark: each fits the
// screen, needs no network, axe-core finds nothing, and tables sort by keyboard. go test -artifacts
// keeps screenshots.
func LookAt(t *testing.T, dir string, names []string) {
	t.Helper()
	b := New(t)
	b.Watch()
	for _, name := range names {
		b.Open("file://" + filepath.Join(dir, name+".html"))
		if !root.Eventually(time.Minute, func() bool {
			return b.Eval(`document.readyState === "complete" && location.pathname.endsWith("/`+name+`.html")`) == "true"
		}) {
			t.Fatalf("%s does not load: %v", name, b.Complaints())
		}
		for _, screen := range []struct {
			width int
			dark  bool
		}{{1280, false}, {375, true}, {375, false}, {1280, true}} {
			view := fmt.Sprintf("%s-%d-%v", name, screen.width, screen.dark)
			b.Screen(screen.width, 900, screen.dark)
			b.Eval(`new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))`) // the new layout
			if flag.Lookup("test.artifacts").Value.String() == "true" {                             // go test -artifacts
				if err := os.WriteFile(filepath.Join(t.ArtifactDir(), view+".png"), b.Screenshot(), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if wide := b.Eval(`document.documentElement.scrollWidth - document.documentElement.clientWidth`); wide != "0" {
				t.Errorf("%s is %s pixels wider than the screen: %s", view, wide, b.Eval(beyond))
			}
			if over := b.Eval(beyond); over != `""` {
				t.Errorf("%s: beyond the screen: %s", view, over)
			}
			if over := b.Eval(overlapping); over != `""` {
				t.Errorf("%s: labels overlap: %s", view, over)
			}
		}
		sortByKeyboard(t, b, name)
		b.Eval(thin)
		b.Eval(`for (const d of document.querySelectorAll("details")) d.open = true`)
		for _, width := range []int{1280, 375} {
			b.Screen(width, 900, width == 1280)
			for _, v := range b.Axe() {
				t.Errorf("%s, %d wide: %s", name, width, v)
			}
		}
	}
	for _, c := range b.Complaints() {
		t.Error(c)
	}
}

// thin removes what repeats: axe-core looks at each element for a millisecond or more.
const thin = `for (const [all, most] of [["tbody", 12], [".drawing", 20], [".drawing > svg", 5]]) for (const e of document.querySelectorAll(all)) [...e.children].slice(most).forEach(c => c.remove())`

// beyond names the elements that reach beyond the screen and cannot be scrolled to.
const beyond = `[...document.querySelectorAll("body *")].filter(e => e.getBoundingClientRect().right > document.documentElement.clientWidth + 1 && !e.closest(".scroll, pre, .drawing")).map(e => e.tagName + "." + e.className + " " + e.textContent.slice(0, 30)).slice(0, 5).join(" | ")`

// overlapping names labels of the same axis that overlap, and labels of intervals that overlap
// their drawing.
const overlapping = `(() => {
	const cross = (a, b) => a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1, out = [];
	const seen = e => { const r = e.getBoundingClientRect(); return r.width > 0 && r.height > 0; };
	for (const axis of document.querySelectorAll(".xaxis, .yaxis")) {
		const labels = [...axis.querySelectorAll("text")].filter(seen);
		labels.forEach((l, i) => { if (i > 0 && cross(l.getBoundingClientRect(), labels[i - 1].getBoundingClientRect())) out.push(labels[i - 1].textContent + " and " + l.textContent); });
	}
	for (const plot of document.querySelectorAll(".strip .plot")) {
		const all = [...plot.querySelectorAll(".label, .value, .drawing, .xaxis")].filter(seen);
		all.forEach((a, i) => all.slice(i + 1).forEach(b => { if (cross(a.getBoundingClientRect(), b.getBoundingClientRect())) out.push(a.className.baseVal || a.textContent); }));
	}
	return out.slice(0, 5).join(" | ");
})()`

// sortByKeyboard sorts the first table of a page that can be sorted.
func sortByKeyboard(t *testing.T, b *Browser, name string) {
	t.Helper()
	if b.Eval(`!!document.querySelector("main > .scroll thead button")`) != "true" {
		return
	}
	b.Eval(`{ const e = document.querySelector("main > .scroll thead button"); e.focus(); window.was = e.closest("table").tBodies[0].textContent; }`)
	b.Press("Enter")
	first := b.Eval(`document.activeElement.closest("th").getAttribute("aria-sort")`)
	b.Press("Enter")
	second := b.Eval(`document.activeElement.closest("th").getAttribute("aria-sort")`)
	if first == second || first == "null" || second == "null" {
		t.Errorf("%s: sorted %s, then %s", name, first, second)
	}
	if got := b.Eval(`(() => { const head = document.activeElement.closest("th"), rows = [...head.closest("table").tBodies[0].rows], up = head.getAttribute("aria-sort") === "ascending";
		const value = r => { const c = r.cells[head.cellIndex]; return "key" in c.dataset ? Number(c.dataset.key) : c.textContent; };
		return rows.every((r, i) => { if (i === 0) return true; const a = value(rows[i - 1]), b = value(r); if (typeof a !== typeof b) return true;
			const c = typeof a === "number" ? a - b : a.localeCompare(b, undefined, { numeric: true }); return up ? c <= 0 : c >= 0; }); })()`); got != "true" {
		t.Errorf("%s: the rows are not in order", name)
	}
}
