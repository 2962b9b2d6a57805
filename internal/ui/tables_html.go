package ui

import (
	_ "embed"
	"html/template"
	"io"
	"strings"
	"sync"
)

// Tables is a verdict with the tables that it is from.
type Tables struct {
	Title, Verdict string
	Mark           Mark // of the verdict
	Lines          []string
	Tables         []TitledGrid
}

// Mark is how a verdict is shown.
type Mark string

// The marks: of what is well, of what is not, and of what nobody can tell.
const (
	MarkGood Mark = "good"
	MarkBad  Mark = "bad"
	MarkOpen Mark = "open"
)

// Sign is what stands before the verdict.
func (m Mark) Sign() string {
	switch m {
	case MarkGood:
		return "✓"
	case MarkBad:
		return "✗"
	}
	return "?"
}

// TitledGrid is a table with its title, which may be empty.
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

// HTML writes it as one page that needs nothing else: no script, no network, light and
// dark, and for paper.
func (t *Tables) HTML(w io.Writer) error { return tablesTemplate().Execute(w, t) }
