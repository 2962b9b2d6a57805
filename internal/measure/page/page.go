// Package page writes runs as one HTML page that needs no network: verdicts in words,
// intervals, samples in their order, curves, and the commands to measure again.
package page

import (
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"strings"
	"sync"

	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/ui"
)

//go:embed page.html disk.html page.css page.js uplot
var files embed.FS

// asset is a file embedded in the page, with its digest for the page's Content-Security-Policy,
// which permits nothing else to run.
type asset struct {
	text   string
	digest string
}

func read(name string) asset {
	text, err := files.ReadFile(name)
	if err != nil {
		panic(err) // it is embedded
	}
	sum := sha256.Sum256(text)
	return asset{string(text), "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"}
}

// Read only if a page is written: it takes as long as a short command.
var sources = sync.OnceValue(func() (s struct {
	uplot, script, uplotStyle, style asset
	page                             *template.Template
}) {
	s.uplot, s.script = read("uplot/uPlot.iife.min.js"), read("page.js")
	s.uplotStyle, s.style = read("uplot/uPlot.min.css"), read("page.css")
	s.page = template.Must(template.New("page.html").Funcs(template.FuncMap{
		"text":    printable,
		"command": command,
		"join":    func(words []string) string { return printable(strings.Join(words, " ")) },
		"add":     func(a, b int) int { return a + b },
	}).ParseFS(files, "page.html", "disk.html"))
	return s
})

// printable makes a text of a record, which may contain anything, safe to print.
func printable(s string) string { return ui.Line(strings.ToValidUTF8(s, "\ufffd")) }

// command makes a command of a record, which may have several lines, safe to print.
func command(s string) string {
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		lines[i] = printable(line)
	}
	return strings.Join(lines, "\n")
}

// Write writes runs as one page. It depends on the records alone.
func Write(w io.Writer, runs []*evidence.Run) error {
	s := sources()
	p := struct {
		Policy            string
		Title             string
		Runs              []*run
		Strip             *strip
		Others            []difference
		UPlot, Script     template.JS
		UPlotStyle, Style template.CSS
		Charts            bool
	}{
		Policy: fmt.Sprintf("default-src 'none'; base-uri 'none'; form-action 'none'; script-src %s %s; style-src %s %s", s.uplot.digest, s.script.digest, s.uplotStyle.digest, s.style.digest),
		UPlot:  template.JS(s.uplot.text), Script: template.JS(s.script.text), UPlotStyle: template.CSS(s.uplotStyle.text), Style: template.CSS(s.style.text), //nolint:gosec // our own files
	}
	bars, effects := make([]bar, len(runs)), false
	for i, r := range runs {
		v, err := view(r, i)
		if err != nil {
			return fmt.Errorf("run %s: %w", r.ID, err)
		}
		p.Runs = append(p.Runs, v)
		p.Charts = p.Charts || v.charted()
		bars[i].tone = v.Tone
		if v.Proof != nil && v.Proof.Effect != nil {
			effects, bars[i].effect, bars[i].interval = true, *v.Proof.Effect, v.Proof.Interval
		}
	}
	if len(runs) == 1 {
		p.Title = p.Runs[0].Headline
	} else {
		p.Title = fmt.Sprintf("%d runs", len(runs))
		p.Others = differences(runs)
		if effects {
			strips := newStrips(bars, 0)
			p.Strip = strips[0] // the axis
			for i, v := range p.Runs {
				if v.Proof != nil && v.Proof.Effect != nil {
					v.Short = strips[i]
				}
			}
		}
	}
	return s.page.Execute(w, p)
}
