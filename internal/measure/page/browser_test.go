package page

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/measure/prove"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/testkit/browser"
	"fettle.dev/fettle/internal/testkit/root"
)

// seen is what the page looks like to the browser.
type seen struct {
	Charts   int     // that have a canvas
	Blank    int     // of them, without a line of each colour they are to have
	Wide     float64 // by how many pixels the page is wider than the screen
	Paper    string  // colour
	Ink      string
	Strips   int
	Overlong int // elements that reach beyond the screen and cannot be scrolled
	Towers   int // cells that are much higher than wide
	Cut      int // cells of a table with reasons that are not all to be seen without scrolling
	Unmarked int // tables that go on beyond an edge which does not show it
	Globals  int // what a script that broke out would have left
}

// measure counts the pixels of each chart that have its colours.
const measure = `(() => {
	const rgb = name => { const e = document.createElement("i"); e.style.color = "var(--" + name + ")"; document.body.append(e); const c = getComputedStyle(e).color.match(/\d+/g).map(Number); e.remove(); return c; };
	const wants = { samples: ["a", "b", "line"], looks: ["a", "b", "soft"], curve: ["l1", "line"] };
	const figures = [...document.querySelectorAll("figure.chart")];
	const blank = figures.filter(f => {
		const c = f.querySelector("canvas");
		if (!c || c.width < 200 || c.height < 200) return true;
		const d = c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
		return wants[f.dataset.kind].some(name => {
			const w = rgb(name);
			let n = 0;
			for (let i = 0; i < d.length; i += 4) if (d[i + 3] > 200 && Math.abs(d[i] - w[0]) + Math.abs(d[i + 1] - w[1]) + Math.abs(d[i + 2] - w[2]) < 24) n++;
			return n < 40;
		});
	});
	const wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
	const overlong = [...document.querySelectorAll("body *")].filter(e => e.getBoundingClientRect().right > document.documentElement.clientWidth + 1 && !e.closest(".scroll, pre, svg, .u-over")).length;
	const s = getComputedStyle(document.body);
	return { charts: document.querySelectorAll("canvas").length, blank: blank.length, wide, paper: s.backgroundColor, ink: s.color, strips: document.querySelectorAll("svg.strip .at").length, overlong, towers: [...document.querySelectorAll("td")].filter(e => e.offsetWidth > 0 && e.offsetHeight > 4 * e.offsetWidth).length, globals: document.querySelectorAll("img, iframe, object").length,
		cut: [...document.querySelectorAll(".scroll table")].filter(t => [...t.querySelectorAll("th")].some(h => /^(why|why not|steady|doubts|read MiB\/s)$/.test(h.textContent))).flatMap(t => [...t.querySelectorAll("td")]).filter(e => e.offsetWidth > 0 && e.getBoundingClientRect().right > e.closest(".scroll").getBoundingClientRect().right + 1).length,
		unmarked: [...document.querySelectorAll(".scroll")].filter(e => e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).backgroundImage === "none").length };
})()`

// TestBrowser looks at the page in a real browser: on a large screen, on a narrow one,
// in the dark; and at one of records that want to break out.
func TestBrowser(t *testing.T) {
	b := browser.New(t)
	b.Watch()
	show := func(name string, width int, dark bool, runs ...*evidence.Run) seen {
		t.Helper()
		file := filepath.Join(t.TempDir(), name+".html")
		if err := os.WriteFile(file, []byte(write(t, runs...)), 0o600); err != nil {
			t.Fatal(err)
		}
		b.Screen(width, 900, dark)
		b.Open("file://" + file)
		if !root.Eventually(time.Minute, func() bool {
			return b.Eval(`document.readyState === "complete" && location.pathname.endsWith("`+name+`.html")`) == "true"
		}) {
			t.Fatalf("%s does not load: %v", name, b.Complaints())
		}
		// The layout, and what follows a change of size.
		b.Eval(`new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))`)
		var s seen
		if text := b.Eval(measure); json.Unmarshal([]byte(text), &s) != nil {
			t.Fatalf("%s: %s", name, text)
		}
		if flag.Lookup("test.artifacts").Value.String() == "true" { // go test -artifacts
			if err := os.WriteFile(filepath.Join(t.ArtifactDir(), name+".png"), b.Screenshot(), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return s
	}
	proof, bench := experiment(t, 0.92, nil), benchmark(t)
	bench.Verdict = "random of thp 1.53 times as fast [1.37, 1.63]; touch of thp 2.61 times as fast [2.38, 2.76]"
	bench.Command = "fettle bench memory --no-reserve --size 64MiB --rounds 7 --reads 300000"
	disks := diskRun(t, false)
	tuned := experiment(t, 0.92, func(_ *evidence.Run, e *prove.Evidence) {
		why := "/usr/lib/tuned/profiles/throughput-performance-of-this-site/tuned.conf:114, which includes throughput-performance"
		for _, name := range []string{"kernel.sched_min_granularity_ns", "net.ipv4.tcp_congestion_control"} {
			e.Change.Settings = append(e.Change.Settings, prove.Setting{Setting: setting.Setting{Kind: "sysctl", Name: name}, Before: setting.Text("3000000"), With: setting.Text("10000000"), Why: why})
		}
	})
	for _, c := range []struct {
		name   string
		width  int
		dark   bool
		runs   []*evidence.Run
		charts int
		strips int
	}{
		{"proof", 1200, false, []*evidence.Run{proof}, 2, 1},
		{"proof-narrow", 400, false, []*evidence.Run{proof}, 2, 1},
		{"proof-dark", 1200, true, []*evidence.Run{proof}, 2, 1},
		{"several-narrow", 400, true, []*evidence.Run{proof, bench, experiment(t, 1, nil)}, 6, 4},
		{"several", 1200, false, []*evidence.Run{proof, bench, experiment(t, 1, nil)}, 6, 4},
		{"change-dark", 500, true, []*evidence.Run{tuned}, 2, 1},
		{"disks", 1200, false, []*evidence.Run{disks}, 0, 0},
		{"disks-narrow", 400, false, []*evidence.Run{disks}, 0, 0},
		{"disks-dark", 400, true, []*evidence.Run{disks}, 0, 0},
		{"hostile", 400, false, hostileRuns(t), 3, 2},
	} {
		s := show(c.name, c.width, c.dark, c.runs...)
		want := seen{Charts: c.charts, Strips: c.strips, Paper: "rgb(255, 255, 255)", Ink: "rgb(28, 32, 36)"}
		if c.dark {
			want.Paper, want.Ink = "rgb(20, 23, 26)", "rgb(230, 232, 235)"
		}
		if c.name == "hostile" {
			s.Towers = 0 // its words are that long
		}
		if s != want {
			t.Errorf("%s: %+v, want %+v", c.name, s, want)
		}
		// An open ring says that a point is doubtful, and the legend what it is.
		rings := b.Eval(`[...document.querySelectorAll(".legend")].filter(l => l.textContent.includes("\u25cb doubtful")).length`)
		if want := map[bool]string{true: "1", false: "0"}[slices.Contains(c.runs, bench) || c.name == "hostile"]; rings != want {
			t.Errorf("%s: %s legends with doubtful points, want %s", c.name, rings, want)
		}
	}
	// What is on the screen follows it when it changes.
	b.Screen(700, 900, true)
	last := ""
	if !root.Eventually(time.Minute, func() bool {
		var s seen
		last = b.Eval(measure)
		return json.Unmarshal([]byte(last), &s) == nil && s.Blank == 0 &&
			b.Eval(`[...document.querySelectorAll("figure.chart")].every(f => Math.abs(f.querySelector(".uplot").clientWidth - f.querySelector(".plot").clientWidth) <= 1 && f.querySelector(".plot").clientWidth > 500)`) == "true"
	}) {
		t.Errorf("the charts do not follow the width and the colours of the screen: %s", last)
	}
	// Whoever points at a run reads it.
	b.Eval(`(() => { const o = document.querySelector(".u-over"), r = o.getBoundingClientRect(); for (const type of ["mouseenter", "mousemove"]) o.dispatchEvent(new MouseEvent(type, { clientX: r.left + r.width / 2, clientY: r.top + 20, bubbles: true })); })()`)
	if !root.Eventually(time.Minute, func() bool {
		return strings.HasPrefix(b.Eval(`document.querySelector(".readout").textContent`), `"run `)
	}) {
		t.Error("nothing is read out")
	}
	for _, complaint := range b.Complaints() {
		// Advice about measure above, which reads the charts back; no page does.
		if !strings.Contains(complaint, "willReadFrequently") {
			t.Error(complaint)
		}
	}
}
