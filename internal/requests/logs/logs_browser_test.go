package logs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/testkit/browser"
	"fettle.dev/fettle/internal/testkit/root"
)

// TestLogsNarrow: on a screen of 400 pixels no word of a log's page makes it wider.
func TestLogsNarrow(t *testing.T) {
	root.Real(t, "starts a browser")
	long := "/" + strings.Repeat("segment-without-a-blank", 20)
	some := 0.5
	all := Group{Key: []string{"GET", long}, Count: 10, TotalS: 5, Share: &some, MeanS: &some, DeviationS: &some, MinS: &some, MaxS: &some}
	r := &Report{
		Requests: 10, All: all, WentTo: &all, Logs: []LogRead{{Path: long, Format: long, Why: long, Cut: long}},
		By:      []Grouping{{By: []string{"method", "path"}, Groups: 1, Top: []Group{all}}},
		Unread:  UnreadLines{Lines: 1, Examples: []UnreadLine{{Path: long, Line: 1, Text: long}}},
		Slowest: []SlowLine{{TookS: 1, Line: long}},
	}
	file := filepath.Join(t.TempDir(), "logs.html")
	out, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := HTML(out, r); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	b := browser.New(t)
	b.Screen(400, 900, false)
	b.Open("file://" + file)
	if !root.Eventually(time.Minute, func() bool {
		return b.Eval(`document.readyState === "complete" && location.pathname.endsWith("logs.html")`) == "true"
	}) {
		t.Fatal("the page does not load")
	}
	if wide := b.Eval(`document.documentElement.scrollWidth - document.documentElement.clientWidth`); wide != "0" {
		t.Errorf("the page is %s pixels wider than the screen", wide)
	}
	if beyond := b.Eval(`[...document.querySelectorAll("body *")].filter(e => e.getBoundingClientRect().right > document.documentElement.clientWidth + 1 && !e.closest(".wide, svg")).map(e => e.tagName).join(" ")`); beyond != `""` && beyond != "" {
		t.Errorf("beyond the screen: %s", beyond)
	}
}
