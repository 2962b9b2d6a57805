package export

import (
	"fmt"
	"slices"
	"time"

	"fettle.dev/fettle/internal/requests/logs"
	internaltext "fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
)

// Schema names the JSON form of Summary.
const Schema = "fettle/logs-export/v1"

// Summary describes a file that was written.
type Summary struct {
	Schema   string           `json:"schema"` // fettle/logs-export/v1
	Headline ui.Headline      `json:"headline"`
	File     string           `json:"file"`
	Requests uint64           `json:"requests"` // rows of the file
	LeftOut  uint64           `json:"left_out"` // requests that options left out
	Others   uint64           `json:"other_lines"`
	Unread   logs.UnreadLines `json:"unread"`
	First    time.Time        `json:"first,omitzero"` // arrival of the first request
	Last     time.Time        `json:"last,omitzero"`
	Logs     []logs.LogRead   `json:"logs"`
	Columns  []Column         `json:"columns"`
}

// Column is a column of a file.
type Column struct {
	Name string `json:"name"`
	Type string `json:"type"`
}

// Summary describes the file that Write wrote.
func (t *Table) Summary(file string, r *logs.Result) *Summary {
	s := &Summary{Schema: Schema, File: file, Requests: r.Requests, LeftOut: r.Left, Others: r.Others, Unread: r.Unread, Logs: r.Logs}
	if r.First <= r.Last && t.has("time") {
		s.First, s.Last = time.UnixMicro(r.First).UTC(), time.UnixMicro(r.Last).UTC()
	}
	for _, c := range t.columns {
		s.Columns = append(s.Columns, Column{c.name, string(c.kind)})
	}
	h := &s.Headline
	rows := h.Count("requests", int(s.Requests), "request")
	h.Line("%s of %s in %s", rows, internaltext.Count(len(s.Logs), "log"), file)
	if s.Unread.Lines > 0 {
		h.Line("%s not read; see fettle logs", h.Count("unread", int(s.Unread.Lines), "line"))
	}
	return s
}

func (t *Table) has(name string) bool {
	return slices.ContainsFunc(t.columns, func(c column) bool { return c.name == name })
}

// Print prints what was written, and the columns.
func (s *Summary) Print(screen *ui.Screen) {
	ui.PrintHeadline(screen, &s.Headline)
	fmt.Fprintln(screen.Out)
	g := ui.Grid{Columns: []ui.Column{{Head: "column"}, {Head: "type"}}}
	for _, c := range s.Columns {
		g.Rows = append(g.Rows, []string{c.Name, c.Type})
	}
	g.Write(screen)
}
