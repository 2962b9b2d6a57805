package findings

import (
	_ "embed"
	"html/template"
	"io"
	"strings"
	"sync"

	"fettle.dev/fettle/internal/guide/rule"
	"fettle.dev/fettle/internal/ui"
)

//go:embed findings.html
var findingsPage string

// The template is parsed on demand, because that takes as long as a short command.
var findingsTemplate = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("findings").Funcs(template.FuncMap{
		"text":    func(s string) string { return ui.Line(strings.ToValidUTF8(s, "\ufffd")) },
		"sign":    func(s rule.State) string { sign, _ := findingSign(s); return sign },
		"sources": rule.SourceWords,
		"join":    strings.Join,
	}).Parse(findingsPage))
})

// HTML writes an audit as one self-contained page: no script, no network; light, dark and
// for print.
func HTML(w io.Writer, a *Audit) error {
	type count struct {
		State rule.State
		Rules int
		Items int
	}
	page := struct {
		*Audit
		Bad, Before, Rest []group
		States            []count
		Fixed             []string // since the baseline
		Next, When        string
		Disabled          []string // by a copy
		Several           bool     // some rules judged several items
	}{Audit: a, Next: a.next(true), Disabled: a.disabledByCopy(), When: a.Time.UTC().Format("2006-01-02 15:04 UTC")}
	for _, s := range rule.States {
		page.States = append(page.States, count{s, a.RuleCounts[s], a.Counts[s]})
		page.Several = page.Several || a.RuleCounts[s] != a.Counts[s]
	}
	for _, g := range a.fewer(groups(a.Findings)) {
		switch {
		case Bad(g.State) && g.Change == Same:
			page.Before = append(page.Before, g)
		case Bad(g.State):
			page.Bad = append(page.Bad, g)
		default:
			page.Rest = append(page.Rest, g)
		}
	}
	page.Fixed = a.mended()
	return findingsTemplate().Execute(w, page)
}
