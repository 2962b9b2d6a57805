// Package page writes the result of a command as one HTML page: headline, sections, tables
// that can be sorted and filtered, and charts with text alternatives. The page needs no
// network and is readable without its script. It supports light and dark screens and printing.
// Package ui adds what a verb prints, and verbs add charts. All text is escaped.
package page

import (
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"
	"sync"

	"fettle.dev/fettle/internal/text"
)

// Tone is the meaning of a color. A word or symbol next to the color always has the same meaning.
type Tone string

// Tones.
const (
	Good Tone = "good"
	Bad  Tone = "bad"
	Warn Tone = "warn"
	Soft Tone = "soft" // of low importance
)

// Page is a page under construction. Its methods append to it.
type Page struct {
	// Name is the command, such as "fettle logs". Call is the full command line.
	Name, Call string
	// Title is the title of a page without a headline. The default is Name.
	Title string
	// Tone is the tone of the verdict.
	Tone   Tone
	lines  []string // of the headline
	notes  []string
	blocks []*block
	charts int
	titles map[string]int // of tables
	raw    []byte         // an incomplete line
}

// block is an element of the page. Exactly one of its contents is set.
type block struct {
	Heading string
	Anchor  string // of a heading
	Line    string
	Text    string // preformatted
	Command string
	Table   *tableView
	Fold    string // title of a folded table
	Figure  *figure
	Cards   []Card
	Steps   []Step
	File    *file
}

// Card is a result with its details. ID is the target of links to it, or "".
type Card struct {
	ID    string
	Tone  Tone
	Label string // state as text
	Title string
	Facts []Fact
}

// Fact is a detail of a card. Code marks commands and values, one on each line.
type Fact struct {
	Name  string
	Lines []string
	Code  bool
}

// Step is an item of a checklist.
type Step struct {
	Do, Command string
	Notes       []string
}

type file struct{ Name, Text string }

// Empty reports whether the page has no content.
func (p *Page) Empty() bool {
	p.endText()
	return len(p.lines) == 0 && len(p.blocks) == 0
}

// Headline appends a line of the headline. The first line is the title of the page. A line
// after the first block, or one that ends in a colon, becomes a paragraph.
func (p *Page) Headline(line string) {
	if p.endText(); len(p.blocks) > 0 || strings.HasSuffix(line, ":") {
		p.Line(line)
		return
	}
	p.lines = append(p.lines, line)
}

// Note appends a warning below the headline.
func (p *Page) Note(line string) {
	if !slices.Contains(p.notes, line) {
		p.notes = append(p.notes, line)
	}
}

// Heading begins a section with a title.
func (p *Page) Heading(title string) {
	b := p.add(&block{Heading: title})
	b.Anchor = fmt.Sprintf("section-%d", len(p.blocks))
}

// Line appends a line as a paragraph.
func (p *Page) Line(line string) { p.add(&block{Line: line}) }

// Command appends a command with a button for copying it.
func (p *Page) Command(command string) { p.add(&block{Command: command}) }

// Cards appends results with their details.
func (p *Page) Cards(cards []Card) { p.add(&block{Cards: cards}) }

// Steps appends a checklist of steps.
func (p *Page) Steps(steps []Step) { p.add(&block{Steps: steps}) }

// File appends the text of a file, folded.
func (p *Page) File(name, content string) { p.add(&block{File: &file{name, content}}) }

func (p *Page) add(b *block) *block {
	p.endText()
	p.blocks = append(p.blocks, b)
	return b
}

// Long reports whether the title is too long for the normal font size.
func (p *Page) Long() bool { return len(p.lines) > 0 && len(p.lines[0]) > 100 }

// Write appends printed text. Each line is a paragraph; indented lines are preformatted.
func (p *Page) Write(data []byte) (int, error) {
	p.raw = append(p.raw, data...)
	for {
		line, rest, complete := strings.Cut(string(p.raw), "\n")
		if !complete {
			return len(data), nil
		}
		p.raw = []byte(rest)
		p.textLine(line)
	}
}

func (p *Page) textLine(line string) {
	var last *block
	if n := len(p.blocks); n > 0 {
		last = p.blocks[n-1]
	}
	switch {
	case strings.TrimSpace(line) == "":
	case last == nil && len(p.lines) == 0 && !strings.HasPrefix(line, " "):
		p.lines = []string{line} // headline of a verb without one
	case !strings.HasPrefix(line, " "):
		p.blocks = append(p.blocks, &block{Line: line})
	case last != nil && last.Text != "":
		last.Text += "\n" + line
	default:
		p.blocks = append(p.blocks, &block{Text: line})
	}
}

func (p *Page) endText() {
	if len(p.raw) > 0 {
		p.textLine(string(p.raw))
		p.raw = nil
	}
}

//go:embed page.html chart.html page.css page.js
var files embed.FS

// asset is an embedded file with its digest. The Content-Security-Policy permits only these
// files.
type asset struct{ text, digest string }

func asAsset(name string) asset {
	data, err := files.ReadFile(name)
	if err != nil {
		panic(err) // embedded files are valid
	}
	sum := sha256.Sum256(data)
	return asset{string(data), "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"}
}

// design is loaded only if a page is written, because loading takes as long as a short command.
var design = sync.OnceValue(func() (d struct {
	style, script asset
	page          *template.Template
}) {
	d.style, d.script = asAsset("page.css"), asAsset("page.js")
	d.page = template.Must(template.New("page.html").Funcs(template.FuncMap{
		"text":  text.PrintableLine,
		"lines": printableLines,
		// A heading on a terminal ends with a colon if a command follows.
		"heading": func(s string) string { return strings.TrimSuffix(text.PrintableLine(s), ":") },
	}).ParseFS(files, "page.html", "chart.html"))
	return d
})

// printableLines replaces control characters, except line breaks.
func printableLines(s string) string {
	lines := strings.Split(strings.ReplaceAll(s, "\r\n", "\n"), "\n")
	for i, line := range lines {
		lines[i] = text.Printable(line)
	}
	return strings.Join(lines, "\n")
}

// HTML writes the page. The output depends only on the added content.
func (p *Page) HTML(w io.Writer) error {
	p.endText()
	d := design()
	view := struct {
		*Page
		Policy, Title string
		Rest, Notes   []string
		Sections      []*block // headings
		Blocks        []*block
		Style         template.CSS
		Script        template.JS
	}{
		Page: p, Notes: p.notes, Blocks: p.blocks,
		Policy: fmt.Sprintf("default-src 'none'; base-uri 'none'; form-action 'none'; script-src %s; style-src %s", d.script.digest, d.style.digest),
		Title:  cmp.Or(p.Title, p.Name), Style: template.CSS(d.style.text), Script: template.JS(d.script.text), //nolint:gosec // our own files
	}
	if len(p.lines) > 0 {
		view.Title, view.Rest = p.lines[0], p.lines[1:]
	}
	for _, b := range p.blocks {
		if b.Heading != "" {
			view.Sections = append(view.Sections, b)
		}
	}
	return d.page.Execute(w, view)
}

// Sign returns the symbol of a tone, or "".
func (t Tone) Sign() string {
	switch t {
	case Good:
		return "✓"
	case Bad:
		return "✗"
	case Warn:
		return "!"
	}
	return ""
}
