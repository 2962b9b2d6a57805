package rule

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/unit"
)

// table decodes a table. Columns are "name: TYPE", or "name: UNIT" for numbers. Rows are mappings
// with their key in "row".
func (f *file) table(n *yaml.Node) *Table {
	t := &Table{At: Pos{f.name, n.Line}}
	var editions []*yaml.Node
	f.fields(n, "a table", map[string]func(*yaml.Node){
		"table": into(f, "table", &t.Name), "ids": f.words("ids", &t.IDs), "title": into(f, "title", &t.Title),
		"columns":  func(n *yaml.Node) { t.Columns = f.columns(n) },
		"editions": items(f, "editions", &editions, func(n *yaml.Node) *yaml.Node { return n }),
	})
	for _, n := range editions { // after the columns, in any order in the file
		t.Editions = append(t.Editions, f.edition(t, n))
	}
	return t
}

func (f *file) columns(n *yaml.Node) []Column {
	var out []Column
	if n.Kind != yaml.MappingNode {
		f.fault(n, "columns: want names, each with its type or unit")
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		c := Column{Name: n.Content[i].Value, Type: fact.Number}
		switch kind := n.Content[i+1].Value; kind {
		case "number":
		case "text", "truth":
			c.Type = fact.Type(kind)
		default:
			c.Unit = kind
		}
		if c.Name == "row" || c.Name == "key" {
			f.fault(n.Content[i], "columns: %q is reserved: it is the name of a row", c.Name)
		}
		out = append(out, c)
	}
	return out
}

func (f *file) edition(t *Table, n *yaml.Node) Edition {
	e := Edition{At: Pos{f.name, n.Line}}
	f.fields(n, "an edition", map[string]func(*yaml.Node){
		"of": into(f, "of", &e.Product), "from": into(f, "from", &e.From), "before": into(f, "before", &e.Before),
		"why": into(f, "why", &e.Why), "sources": f.sources(&e.Sources),
		"rows": items(f, "rows", &e.Rows, func(n *yaml.Node) Row { return f.row(t, n) }),
	})
	return e
}

func (f *file) row(t *Table, n *yaml.Node) Row {
	r := Row{Cells: map[string]any{}, At: Pos{f.name, n.Line}}
	fields := map[string]func(*yaml.Node){"row": into(f, "row", &r.Key)}
	for _, c := range t.Columns {
		fields[c.Name] = func(n *yaml.Node) {
			v := f.value(n)
			if text, ok := v.(string); ok && c.Unit == "bytes" {
				size, err := unit.ParseSize(text)
				if err != nil {
					f.fault(n, "%s: %v", c.Name, err)
					return
				}
				v = float64(size)
			}
			if v != nil && !c.Type.Has(v) {
				f.fault(n, "%s: %v is not a %s", c.Name, v, c.Type)
				return
			}
			if v != nil {
				r.Cells[c.Name] = v
			}
		}
	}
	f.fields(n, "a row of "+t.Name, fields)
	if r.Key == "" {
		f.fault(n, "a row of %s needs a name (row:)", t.Name)
	}
	return r
}

// measured decodes evidence.
func (f *file) measured(n *yaml.Node) *Evidence {
	e := &Evidence{At: Pos{f.name, n.Line}}
	f.fields(n, "evidence", map[string]func(*yaml.Node){
		"evidence": into(f, "evidence", &e.ID), "title": into(f, "title", &e.Title), "says": into(f, "says", &e.Says),
		"explains": f.words("explains", &e.Explains), "sources": f.sources(&e.Sources),
	})
	e.Says = strings.TrimSpace(e.Says)
	e.Explains = slices.Clip(e.Explains)
	return e
}
