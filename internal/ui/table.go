package ui

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"go.yaml.in/yaml/v3"
)

// Grid is a table for people. Its layout may change, in contrast to JSON output.
type Grid struct {
	Head []string
	Rows [][]string
	// Color returns the color of a cell; nil means no colors.
	Color func(row, col int) string
}

// Write prints the grid in the screen's format.
func (g *Grid) Write(s *Screen) {
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
	// Replace control characters before measuring: replacements may be wider.
	printed := Grid{Head: g.Head, Rows: make([][]string, len(g.Rows))}
	for i, r := range g.Rows {
		row := make(table.Row, len(r))
		for j, c := range r {
			c = Line(c)
			printed.Rows[i] = append(printed.Rows[i], c)
			if s.Format == Table && g.Color != nil {
				c = s.Paint(g.Color(i, j), c)
			}
			row[j] = c
		}
		t.AppendRow(row)
	}
	if s.Format == Markdown {
		fmt.Fprintln(s.Out, t.RenderMarkdown())
		return
	}
	t.SetColumnConfigs(printed.fit(s.Width))
	fmt.Fprintln(s.Out, t.Render())
}

// fit wraps the widest columns until a row fits the terminal width, first without splitting
// words, then further. Width 0 is unlimited.
func (g *Grid) fit(width int) []table.ColumnConfig {
	columns := len(g.Head)
	for _, r := range g.Rows {
		columns = max(columns, len(r))
	}
	const gap, readable, least = 2, 24, 8
	widths, words := make([]int, columns), make([]int, columns)
	total := 0
	for c := range widths {
		for _, row := range append([][]string{g.Head}, g.Rows...) {
			if c < len(row) {
				widths[c] = max(widths[c], text.StringWidthWithoutEscSequences(row[c]))
				for _, w := range pieces(row[c]) {
					words[c] = max(words[c], text.StringWidthWithoutEscSequences(w))
				}
			}
		}
		words[c] = max(words[c], min(readable, widths[c]))
		total += widths[c] + gap
	}
	shrink := func(floor func(c int) int) {
		for ; width > 0 && total > width; total-- {
			widest := -1
			for c, w := range widths {
				if w > floor(c) && (widest < 0 || w > widths[widest]) {
					widest = c
				}
			}
			if widest < 0 {
				return
			}
			widths[widest]--
		}
	}
	shrink(func(c int) int { return words[c] })
	shrink(func(int) int { return least })
	out := make([]table.ColumnConfig, columns)
	for c, w := range widths {
		out[c] = table.ColumnConfig{Number: c + 1, WidthMax: w, WidthMaxEnforcer: Wrap}
	}
	return out
}

// pieces splits a text where lines may break: after spaces, and after slashes
// within a path.
func pieces(s string) []string {
	var out []string
	for s != "" {
		n := strings.IndexAny(strings.TrimLeft(s, "(\"/"), " /") + 1
		if n == 0 {
			n = len(s)
		} else {
			n += len(s) - len(strings.TrimLeft(s, "(\"/"))
		}
		out = append(out, s[:n])
		s = s[n:]
	}
	return out
}

// Wrap breaks lines after spaces, and paths after slashes.
func Wrap(s string, width int) string {
	if strings.Contains(s, "\x1b") {
		return text.WrapSoft(s, width) // handles colors
	}
	var lines []string
	line := ""
	for _, p := range pieces(s) {
		if line != "" && text.StringWidthWithoutEscSequences(line+strings.TrimRight(p, " ")) > width {
			lines = append(lines, strings.TrimRight(line, " "))
			line = ""
		}
		for text.StringWidthWithoutEscSequences(strings.TrimRight(p, " ")) > width {
			part := text.Trim(p, width)
			lines = append(lines, part)
			p = p[len(part):]
		}
		line += p
	}
	return strings.Join(append(lines, line), "\n")
}

// Data prints a document as JSON or YAML, together with the exit code and
// messages. doc must marshal to a JSON object with a "schema".
func Data(s *Screen, doc any, exitCode int) error {
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
		return fmt.Errorf("%T does not marshal to a JSON object", doc)
	}
	s.Printed = true
	all := append(bytes.TrimSuffix(body, []byte("}")), ',')
	if len(body) == 2 {
		all = []byte("{")
	}
	all = append(all, tail[1:]...)
	if s.Format == YAML {
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

// writeYAML prints JSON text as YAML with keys in the same order.
func writeYAML(w io.Writer, text []byte) error {
	var n yaml.Node
	if err := yaml.Unmarshal(text, &n); err != nil {
		return err
	}
	yamlStyle(&n)
	enc := yaml.NewEncoder(w)
	enc.SetIndent(2)
	if err := enc.Encode(&n); err != nil {
		return err
	}
	return enc.Close()
}

// yamlStyle selects block style, and omits quotes if every YAML reader
// recognizes the string. The encoder handles YAML 1.2; YAML 1.1
// (https://yaml.org/type/) needs more quotes.
func yamlStyle(n *yaml.Node) {
	quoted := n.Style&yaml.DoubleQuotedStyle != 0
	n.Style = 0
	if quoted && n.Kind == yaml.ScalarNode && yaml11(n.Value) {
		n.Style = yaml.DoubleQuotedStyle
	}
	for _, c := range n.Content {
		yamlStyle(c)
	}
}

// yaml11 reports whether YAML 1.1 may read a text as a boolean, null, number
// (also of base 60, 190:20:30), date, or as the keys "=" and "<<".
func yaml11(text string) bool {
	switch strings.ToLower(text) {
	case "", "~", "null", "y", "n", "yes", "no", "on", "off", "true", "false", "=", "<<":
		return true
	}
	return strings.ContainsRune("+-.0123456789", rune(text[0])) && strings.Trim(text, "+-.:_ 0123456789abcdefxABCDEFXTtZzinIN") == ""
}
