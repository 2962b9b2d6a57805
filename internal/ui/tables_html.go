package ui

import (
	_ "embed"
	"html/template"
	"io"
	"strings"
	"sync"
)

// Tables is a verdict with the tables that support it.
type Tables struct {
	Title, Verdict string
	Mark           Mark // mark of the verdict
	Lines          []string
	Tables         []TitledGrid
}

// Mark classifies a verdict for display.
type Mark string

// The marks: good, bad, undecided.
const (
	MarkGood Mark = "good"
	MarkBad  Mark = "bad"
	MarkOpen Mark = "open"
)

// Sign returns the character printed before the verdict.
func (m Mark) Sign() string {
	switch m {
	case MarkGood:
		return "✓"
	case MarkBad:
		return "✗"
	}
	return "?"
}

// TitledGrid is a table with an optional title.
type TitledGrid struct {
	Title string
	Grid
}

//go:embed tables.html
var tablesPage string

var tablesTemplate = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("tables").Funcs(template.FuncMap{
		"text": func(s string) string { return Printable(strings.ToValidUTF8(s, "\ufffd")) },
	}).Parse(tablesPage))
})

// HTML writes a self-contained page without scripts or network access, with
// light, dark and print styles.
func (t *Tables) HTML(w io.Writer) error { return tablesTemplate().Execute(w, t) }
