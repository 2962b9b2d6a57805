// Package report turns plans, verdicts, findings and evidence into what people
// and programs read: tables, JSON, YAML, Markdown.
package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"go.yaml.in/yaml/v3"

	"fettle.dev/fettle/internal/ui"
)

// Grid is a table for eyes: it may change, the JSON only grows.
type Grid struct {
	Head []string
	Rows [][]string
	// Color gives the colour of a cell; nil for none.
	Color func(row, col int) string
}

// Write prints the grid in the screen's format.
func (g *Grid) Write(s *ui.Screen) {
	t := table.NewWriter()
	style := table.StyleDefault
	style.Options = table.OptionsNoBordersAndSeparators
	style.Box.PaddingLeft = ""
	style.Box.PaddingRight = "  "
	style.Format.Header = text.FormatDefault
	t.SetStyle(style)
	t.SuppressTrailingSpaces()
	head := make(table.Row, len(g.Head))
	for i, h := range g.Head {
		head[i] = h
	}
	if len(g.Head) > 0 {
		t.AppendHeader(head)
	}
	for i, r := range g.Rows {
		row := make(table.Row, len(r))
		for j, c := range r {
			c = ui.Printable(c)
			if s.Format == ui.Table && g.Color != nil {
				c = s.Paint(g.Color(i, j), c)
			}
			row[j] = c
		}
		t.AppendRow(row)
	}
	if s.Format == ui.Markdown {
		fmt.Fprintln(s.Out, t.RenderMarkdown())
		return
	}
	t.SetColumnConfigs(g.fit(s.Width))
	fmt.Fprintln(s.Out, t.Render())
}

// fit wraps the widest columns, so that a row is no wider than the terminal;
// nothing where there is no terminal.
func (g *Grid) fit(width int) []table.ColumnConfig {
	columns := len(g.Head)
	for _, r := range g.Rows {
		columns = max(columns, len(r))
	}
	const gap, least = 2, 16
	widths := make([]int, columns)
	total := 0
	for c := range widths {
		for _, row := range append([][]string{g.Head}, g.Rows...) {
			if c < len(row) {
				widths[c] = max(widths[c], text.StringWidthWithoutEscSequences(row[c]))
			}
		}
		total += widths[c] + gap
	}
	var out []table.ColumnConfig
	for width > 0 && total > width {
		widest := 0
		for c := range widths {
			if widths[c] > widths[widest] {
				widest = c
			}
		}
		next := max(least, widths[widest]-(total-width))
		if next >= widths[widest] {
			break
		}
		// Shrink step by step towards the next widest, so that two wide
		// columns share what there is.
		for c := range widths {
			if c != widest && widths[c] < widths[widest] {
				next = max(next, min(widths[widest]-1, widths[c]))
			}
		}
		total -= widths[widest] - next
		widths[widest] = next
	}
	for c, w := range widths {
		out = append(out, table.ColumnConfig{Number: c + 1, WidthMax: w, WidthMaxEnforcer: text.WrapSoft})
	}
	return out
}

// Data prints a document as JSON or YAML. doc marshals to a JSON object with a
// "schema"; the exit code and what was said go in with it.
func Data(s *ui.Screen, doc any, exitCode int) error {
	body, err := json.Marshal(doc)
	if err != nil {
		return err
	}
	messages := s.Messages
	if messages == nil {
		messages = []string{}
	}
	tail, err := json.Marshal(struct {
		ExitCode int      `json:"exit_code"`
		Messages []string `json:"messages"`
	}{exitCode, messages})
	if err != nil {
		return err
	}
	if len(body) < 2 || body[0] != '{' {
		return fmt.Errorf("%T does not make a JSON object", doc)
	}
	s.Printed = true
	all := append(bytes.TrimSuffix(body, []byte("}")), ',')
	if len(body) == 2 {
		all = []byte("{")
	}
	all = append(all, tail[1:]...)
	if s.Format == ui.YAML {
		return writeYAML(s.Out, all)
	}
	var out bytes.Buffer
	if err := json.Indent(&out, all, "", "  "); err != nil {
		return err
	}
	out.WriteByte('\n')
	_, err = out.WriteTo(s.Out)
	return err
}

// writeYAML prints JSON text as YAML with the keys in the same order.
func writeYAML(w io.Writer, text []byte) error {
	var n yaml.Node
	if err := yaml.Unmarshal(text, &n); err != nil {
		return err
	}
	blockStyle(&n)
	enc := yaml.NewEncoder(w)
	enc.SetIndent(2)
	if err := enc.Encode(&n); err != nil {
		return err
	}
	return enc.Close()
}

func blockStyle(n *yaml.Node) {
	n.Style = 0 // the encoder quotes what would read as something else
	for _, c := range n.Content {
		blockStyle(c)
	}
}
