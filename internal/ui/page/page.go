// Package page writes the result of a command as one HTML page: headline, sections, tables that
// can be sorted and filtered, and charts with a text alternative. The page needs no network,
// reads well without its script, follows light and dark screens, and can be printed. Package ui
// fills it with what a verb prints; verbs add charts. All text is escaped.
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

// Tone is the meaning of a color; a word or symbol next to it always states the same.
type Tone string

// The tones.
const (
	Good Tone = "good"
	Bad  Tone = "bad"
	Warn Tone = "warn"
	Soft Tone = "soft" // of little importance
)

// Page is a page in the making. Its methods append to it.
type Page struct {
	// Name is the command, such as "fettle logs"; Call its full command line.
	Name, Call string
	// Title is the title of a page without a headline; by default it is Name.
	Title string
	// Tone is the tone of the verdict.
	Tone   Tone
	lines  []string // of the headline
	notes  []string
	blocks []*block
	charts int
	titles map[string]int // of tables
	raw    []byte         // of a line that is not complete
}

// block is an element of the page; one field is set.
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

// Card is a result with its details. ID is what links to it name, or "".
type Card struct {
	ID    string
	Tone  Tone
	Label string // the state in words
	Title string
	Facts []Fact
}

// Fact is a detail of a card. Code marks commands and values, one a line.
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

// Empty reports whether nothing was added.
func (p *Page) Empty() bool {
	p.endText()
	return len(p.lines) == 0 && len(p.blocks) == 0
}

// Headline appends a line of the answer; the first one is the title of the page. A line after
// the first block, or one that introduces the next block with a colon, is a paragraph.
func (p *Page) Headline(line string) {
	if p.endText(); len(p.blocks) > 0 || strings.HasSuffix(line, ":") {
		p.Line(line)
		return
	}
	p.lines = append(p.lines, line)
}

// Note appends a warning, which stands below the headline.
func (p *Page) Note(line string) {
	if !slices.Contains(p.notes, line) {
		p.notes = append(p.notes, line)
	}
}

// Heading begins a section.
func (p *Page) Heading(title string) {
	b := p.add(&block{Heading: title})
	b.Anchor = fmt.Sprintf("section-%d", len(p.blocks))
}

// Line appends a paragraph.
func (p *Page) Line(line string) { p.add(&block{Line: line}) }

// Command appends a command that can be copied.
func (p *Page) Command(command string) { p.add(&block{Command: command}) }

// Cards appends results with their details.
func (p *Page) Cards(cards []Card) { p.add(&block{Cards: cards}) }

// Steps appends a checklist.
func (p *Page) Steps(steps []Step) { p.add(&block{Steps: steps}) }

// File appends the text of a file, folded.
func (p *Page) File(name, content string) { p.add(&block{File: &file{name, content}}) }

func (p *Page) add(b *block) *block {
	p.endText()
	p.blocks = append(p.blocks, b)
	return b
}

// Long reports whether the title needs smaller letters.
func (p *Page) Long() bool { return len(p.lines) > 0 && len(p.lines[0]) > 100 }

// Write appends printed text: a line is a paragraph, indented lines are preformatted.
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
		p.lines = []string{line} // the answer of a verb without a headline
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

// asset is an embedded file with its digest for the Content-Security-Policy, which permits
// nothing else.
type asset struct{ text, digest string }

func asAsset(name string) asset {
	data, err := files.ReadFile(name)
	if err != nil {
		panic(err) // it is embedded
	}
	sum := sha256.Sum256(data)
	return asset{string(data), "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"}
}

// design is read only if a page is written: that takes as long as a short command.
var design = sync.OnceValue(func() (d struct {
	style, script asset
	page          *template.Template
}) {
	d.style, d.script = asAsset("page.css"), asAsset("page.js")
	d.page = template.Must(template.New("page.html").Funcs(template.FuncMap{
		"text":  text.PrintableLine,
		"lines": printableLines,
	}).ParseFS(files, "page.html", "chart.html"))
	return d
})

// printableLines makes text of several lines safe to print.
func printableLines(s string) string {
	lines := strings.Split(strings.ReplaceAll(s, "\r\n", "\n"), "\n")
	for i, line := range lines {
		lines[i] = text.Printable(line)
	}
	return strings.Join(lines, "\n")
}

// HTML writes the page. It depends only on what was added.
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

// Sign returns the symbol of a tone.
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
