package profile

import (
	"fmt"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/testkit/root"
)

// TestManual compares the generated tables of the manual with Functions, MainKeys and Differences.
func TestManual(t *testing.T) {
	root.Manual(t, "profile-language.md",
		root.Generated{Name: "functions", Text: functionTable()},
		root.Generated{Name: "main", Text: mainTable()},
		root.Generated{Name: "differences", Text: differenceTable()})
}

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
		fmt.Fprintf(&w, "| `%s` | %s | %s | %s |\n", k.Name, root.Cell(k.Default), root.Cell(k.Unit), root.Cell(k.Meaning))
	}
	return w.String()
}

func differenceTable() string {
	var w strings.Builder
	w.WriteString("| name | TuneD | what TuneD does | what fettle does | why |\n|---|---|---|---|---|\n")
	for _, d := range Differences {
		fmt.Fprintf(&w, "| `%s` | %s | %s | %s | %s |\n", d.ID, d.Versions, root.Cell(d.TuneD), root.Cell(d.Fettle), root.Cell(d.Why))
	}
	return w.String()
}

// TestFunctionsDocumented tests that the manual's table describes every function.
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
