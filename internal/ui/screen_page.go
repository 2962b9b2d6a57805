package ui

import "fettle.dev/fettle/internal/ui/page"

// StartPage starts collecting the output of the command in a page. name is the command, and
// call its command line.
func (s *Screen) StartPage(name, call string) {
	s.Page = &page.Page{Name: name, Call: call}
	s.out, s.Out = s.Out, s.Page
	s.Color, s.Width, s.Wide = false, 0, true
}

// EndPage writes the page with the command's messages. It writes nothing if the command
// printed nothing.
func (s *Screen) EndPage() error {
	p := s.Page
	if p == nil {
		return nil
	}
	s.Page, s.Out = nil, s.out
	if p.Empty() {
		return nil
	}
	for _, m := range s.Messages {
		p.Note(m)
	}
	return p.HTML(s.Out)
}

// tones maps colors to tones.
var tones = map[string]page.Tone{Green: page.Good, Yellow: page.Warn, Red: page.Bad, Dim: page.Soft}

// Table returns the grid with all columns as a table of a page.
func (g *Grid) Table(title string) page.Table {
	all := g.shown(true)
	t := page.Table{Title: title, Rows: all.Rows}
	for _, c := range all.Columns {
		t.Columns = append(t.Columns, page.Column{Head: c.Head, Right: c.Right, Prose: c.Cut || c.Below})
	}
	if g.Color != nil {
		t.Tone = func(row, col int) page.Tone { return tones[g.Color(row, col)] }
	}
	return t
}

// Paged reports whether the output is Markdown or a page. These have room for details.
func (s *Screen) Paged() bool { return s.Format == Markdown || s.Page != nil }
