package profile

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestManual holds the generated tables of the manual against Functions,
// MainKeys and Differences.
func TestManual(t *testing.T) {
	const manual = "../../docs/040-profile-language.md"
	b, err := os.ReadFile(manual)
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	for _, part := range []struct{ name, table string }{
		{"functions", functionTable()}, {"main", mainTable()}, {"differences", differenceTable()},
	} {
		begin, end := "<!-- begin "+part.name+" -->\n", "<!-- end "+part.name+" -->"
		head, rest, ok := strings.Cut(text, begin)
		_, tail, ok2 := strings.Cut(rest, end)
		if !ok || !ok2 {
			t.Fatalf("%s has no marks for %s", manual, part.name)
		}
		text = head + begin + "\n" + part.table + "\n" + end + tail
	}
	if os.Getenv("FETTLE_UPDATE_GOLDEN") == "1" {
		if err := os.WriteFile(manual, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(text, string(b)); diff != "" {
		t.Errorf("%s is not what the tables say; run make golden (-want +got):\n%s", manual, diff)
	}
}

// cell keeps a text in its cell and as it is.
var cell = strings.NewReplacer("|", `\|`, "*", `\*`, "<", `\<`, ">", `\>`, "[", `\[`, "_", `\_`).Replace

func functionTable() string {
	var w strings.Builder
	w.WriteString("| call | gives | |\n|---|---|---|\n")
	for _, f := range Functions {
		call := f.Name
		if f.Args != "" {
			call += ":" + f.Args
		}
		var notes []string
		if f.Executes {
			notes = append(notes, "runs a program")
		}
		if f.Since != "" {
			notes = append(notes, "TuneD "+f.Since)
		}
		fmt.Fprintf(&w, "| `${f:%s}` | %s | %s |\n", call, f.Doc, strings.Join(notes, ", "))
	}
	return w.String()
}

func mainTable() string {
	var w strings.Builder
	w.WriteString("| key | default | value | meaning |\n|---|---|---|---|\n")
	for _, k := range MainKeys {
		fmt.Fprintf(&w, "| `%s` | %s | %s | %s |\n", k.Name, cell(k.Default), cell(k.Unit), cell(k.Meaning))
	}
	return w.String()
}

func differenceTable() string {
	var w strings.Builder
	w.WriteString("| name | TuneD | what TuneD does | what fettle does | why |\n|---|---|---|---|---|\n")
	for _, d := range Differences {
		fmt.Fprintf(&w, "| `%s` | %s | %s | %s | %s |\n", d.ID, d.Versions, cell(d.TuneD), cell(d.Fettle), cell(d.Why))
	}
	return w.String()
}

// TestFunctionsDocumented: the manual's table has a text for every function.
func TestFunctionsDocumented(t *testing.T) {
	for _, f := range Functions {
		if f.Doc == "" || strings.HasSuffix(f.Doc, ".") {
			t.Errorf("%s: Doc %q: want a phrase without a full stop", f.Name, f.Doc)
		}
		if f.Args == "" && f.MinArgs > 0 || f.MinArgs > 0 && strings.HasPrefix(f.Args, "[") {
			t.Errorf("%s takes at least %d arguments, and Args says %q", f.Name, f.MinArgs, f.Args)
		}
		if n := strings.Count(f.Args, ":") + 1; f.MaxArgs > 0 && n > f.MaxArgs {
			t.Errorf("%s takes at most %d arguments, and Args says %q", f.Name, f.MaxArgs, f.Args)
		}
	}
}
