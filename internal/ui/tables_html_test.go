package ui

import (
	"strings"
	"testing"
)

func TestTablesHTML(t *testing.T) {
	var b strings.Builder
	x := Tables{Title: "a <b>", Verdict: "not met\x1b[31m", Mark: MarkBad, Lines: []string{"one & two"}, Tables: []TitledGrid{{"times", Grid{Columns: Columns("what"), Rows: [][]string{{"<script>alert(1)</script>"}, {"\xff"}}}}}}
	if err := x.HTML(&b); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	for _, want := range []string{"<title>a &lt;b&gt;</title>", `class="verdict bad"`, "one &amp; two", "<h2>times</h2>", "&lt;script&gt;alert(1)", "\ufffd"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %q", want)
		}
	}
	for _, bad := range []string{"<script", "\x1b", "http://", "https://"} {
		if strings.Contains(page, bad) {
			t.Errorf("the page has %q", bad)
		}
	}
}
